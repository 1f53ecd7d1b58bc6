"""Turns before and after, histories of keys, and where a turn led."""

import numpy as np
from toys.tables import episode

from turncredit.credit import Steps
from turncredit.credit.numerics import compact
from turncredit.credit.transitions import history_keys, next_states, next_turns, previous_turns, turns_behind

# Rows: b2 a1 b1 a0 b0, out of order and with gaps in their turn numbers.
PLACES = [("b", 9, "z"), ("a", 1, "y"), ("b", 4, "y"), ("a", 0, "x"), ("b", 2, "x")]


def row(name, turn, state):
    return {"task": "t", "trajectory": name, "turn": turn, "reward": 0.0, "state": state}


ROWS = [row(*place) for place in PLACES]
STEPS = Steps.from_rows(ROWS)


def test_before_and_after():
    before = previous_turns(STEPS)
    assert before.tolist() == [2, 3, 4, -1, -1]
    assert next_turns(before).tolist() == [-1, -1, 0, 1, 2]


def test_turns_behind_are_counted_up_to_a_limit():
    before = previous_turns(STEPS)
    assert turns_behind(before, 9).tolist() == [2, 1, 1, 0, 0]
    assert turns_behind(before, 1).tolist() == [1, 1, 1, 0, 0]
    assert turns_behind(before, 0).tolist() == [0] * 5


def test_a_history_is_as_long_as_its_start_allows():
    key = compact(STEPS.column("state"))
    keys = history_keys(key, previous_turns(STEPS), 2)
    same = [[[int(a == b) for b in level] for a in level] for level in keys]
    assert same[1][1] == [0, 1, 1, 0, 0]  # x y in both
    assert same[2][1] == [0, 1, 1, 0, 0]  # with nothing before it, in both
    longer = Steps.from_rows([*ROWS, row("a", -1, "w")])
    third = history_keys(compact(longer.column("state")), previous_turns(longer), 2)[2]
    assert third[1] != third[2]  # w x y and x y


def test_where_turns_led():
    after = next_turns(previous_turns(STEPS))
    codes = {name: code for code, name in enumerate(STEPS.names["state"])}
    assert next_states(STEPS, after).tolist() == [-1, -1, codes["z"], codes["y"], codes["y"]]
    told = Steps.from_rows([{**made, "next_state": "x"} for made in ROWS])
    assert len(set(next_states(told, after).tolist())) == 1


def test_copies_are_in_no_chain_unless_an_order_names_them():
    table = [*episode("t", "a", [0.0, 0.0], "xy")]
    steps = Steps.from_rows([*table, {**table[0], "duplicate_of_row": 0}])
    assert previous_turns(steps).tolist() == [-1, 0, -1]
    assert previous_turns(steps, order=np.arange(3)).tolist() == [-1, 0, 1]


def test_an_empty_table_has_no_turns():
    before = previous_turns(Steps.empty())
    assert next_turns(before).tolist() == turns_behind(before, 3).tolist() == []
