"""SALT: hand-computed tables, reference figures, and that it moves advantages between turns without making any."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import episode, rows

from turncredit.credit import BadOption, Steps, UnknownRule, get, grpo, salt
from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import compact
from turncredit.credit.registry import RULES, CreditRule
from turncredit.credit.turn.salt import transitions

MEAN_ONLY = {"base_options": {"scale": "none"}}


def walk(trajectory, *steps, won=0.0, task="t"):
    """Rows of one episode from strings "state action next"."""
    made = episode(task, trajectory, [0.0] * (len(steps) - 1) + [won])
    for row, step in zip(made, steps, strict=True):
        row["state"], row["action"], row["next_state"] = step.split()
    return made


@st.composite
def walks(draw, max_tasks=3):
    """Random rows with few actions; where they lead is the next turn's state, and given for last turns."""
    table = draw(rows(max_tasks=max_tasks))
    states = {(row["task"], row["trajectory"], row["turn"]): row["state"] for row in table}
    for row in table:
        row["action"] = draw(st.sampled_from("uv"))
        row["next_state"] = states.get((row["task"], row["trajectory"], row["turn"] + 1), "end")
    return table


def test_reference_figures():
    """Three episodes, the first won: GRPO gives 1.1547 and twice -0.5774. All share the first step: 0; two the second:
    their mean; what one alone did keeps its own."""
    table = (
        walk("a", "s0 a s1", "s1 b s2", "s2 c end", won=1.0)
        + walk("b", "s0 a s1", "s1 b s2", "s2 d bad")
        + walk("c", "s0 a s1", "s1 e s3", "s3 f bad")
    )
    expected = [0.0, 0.28867463, 1.15469854, 0.0, 0.28867463, -0.57734927, 0.0, -0.57734927, -0.57734927]
    result = salt(Steps.from_rows(table))
    assert result.values == pytest.approx(expected, rel=1e-6, abs=1e-9)
    assert result.parts["base"][[0, 3, 6]] == pytest.approx([1.15469854, -0.57734927, -0.57734927], rel=1e-6)
    assert result.parts["base"] + result.parts["merged"] == pytest.approx(result.values)
    assert (result.report["transitions"], result.report["merged_turns"]) == (6.0, pytest.approx(5 / 9))


def test_a_step_of_a_win_and_a_loss_is_neutral_and_a_step_alone_decides():
    steps = Steps.from_rows(walk("a", "s go x", "x l win", won=1.0) + walk("b", "s go x", "x r pit"))
    assert salt(steps, base="rloo").values.tolist() == [0.0, 1.0, 0.0, -1.0]


@pytest.mark.parametrize(
    ("one", "other"),
    [("s go x", "s run x"), ("s go x", "r go x"), ("s go x", "s go y")],
    ids=["action", "state", "next state"],
)
def test_state_action_and_next_state_must_be_equal(one, other):
    steps = Steps.from_rows(walk("a", one, "q w e", won=1.0) + walk("b", other, "o p i"))
    assert salt(steps, **MEAN_ONLY).values.tolist() == [0.5, 0.5, -0.5, -0.5]


def test_tasks_are_never_merged():
    """The same step in two tasks: won by all in neither, so that each task's own mean is the neutral one."""
    one = walk("a", "s go x", "x l y", won=3.0) + walk("b", "s go x", "x r y")
    two = walk("a", "s go x", "x l y", won=1.0, task="u") + walk("b", "s run x", "x r y", task="u")
    values = salt(Steps.from_rows(one + two), **MEAN_ONLY).values
    assert values.tolist() == [0.0, 1.5, 0.0, -1.5, 0.5, 0.5, -0.5, -0.5]


def test_a_step_may_have_to_share_what_came_before():
    """Both go from x to y, from different sides: one step with merge_history=0, two with 1."""
    steps = Steps.from_rows(walk("a", "s go x", "x go y", "y l z", won=1.0) + walk("b", "r go x", "x go y", "y r z"))
    assert salt(steps, **MEAN_ONLY).values.tolist() == [0.5, 0.0, 0.5, -0.5, 0.0, -0.5]
    assert salt(steps, merge_history=1, **MEAN_ONLY).values.tolist() == [0.5, 0.5, 0.5, -0.5, -0.5, -0.5]
    start = Steps.from_rows(walk("a", "s go x", "x l z", won=1.0) + walk("b", "s go x", "x r z"))
    assert salt(start, merge_history=5, **MEAN_ONLY).values.tolist() == [0.0, 0.5, 0.0, -0.5]


def test_a_step_taken_twice_counts_twice_or_once():
    """a waits twice, b once; scores 1 and 0. Per turn (0.5 + 0.5 - 0.5) / 3, per episode (0.5 - 0.5) / 2."""
    steps = Steps.from_rows(walk("a", "s wait s", "s wait s", "s l x", won=1.0) + walk("b", "s wait s", "s r x"))
    assert salt(steps, **MEAN_ONLY).values == pytest.approx([1 / 6, 1 / 6, 0.5, 1 / 6, -0.5])
    assert salt(steps, unit="trajectory", **MEAN_ONLY).values == pytest.approx([0.0, 0.0, 0.5, 0.0, -0.5])


def test_an_ending_merges_with_endings_only():
    """a is cut off where b goes on, after the same step to the same state."""
    steps = Steps.from_rows(walk("a", "s go x") + walk("b", "s go x", "x l z", won=1.0))
    assert salt(steps, endings="marked", **MEAN_ONLY).values.tolist() == [-0.5, 0.5, 0.5]
    assert salt(steps, **MEAN_ONLY).values.tolist() == [0.0, 0.0, 0.5]


def test_endings_without_a_next_state_merge_by_their_reward():
    """Nobody says where "open" led; that it paid in one episode and not in the other says that it led elsewhere."""
    table = walk("a", "s go x", "x open y", won=1.0) + walk("b", "s go x", "x open y")
    bare = [{key: value for key, value in row.items() if key != "next_state"} for row in table]
    assert salt(Steps.from_rows(table), **MEAN_ONLY).values.tolist() == [0.0] * 4
    assert salt(Steps.from_rows(bare), **MEAN_ONLY).values.tolist() == [0.0, 0.5, 0.0, -0.5]
    assert salt(Steps.from_rows(bare), endings="plain", **MEAN_ONLY).values.tolist() == [0.0] * 4


@given(walks(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_where_the_table_says_where_turns_led_they_are_compared_as_they_are(table, told):
    rows_of = table if told else [{key: value for key, value in row.items() if key != "next_state"} for row in table]
    steps = Steps.from_rows(rows_of)
    assert transitions(steps).tolist() == transitions(steps, endings="plain" if told else "marked").tolist()


@given(walks(), st.integers(0, 2), st.sampled_from(["none", "std"]))
@settings(max_examples=60, deadline=None)
def test_the_sum_over_the_turns_of_a_task_is_kept(table, history, scale):
    steps = Steps.from_rows(table)
    result = salt(steps, merge_history=history, base_options={"scale": scale})
    for task in np.unique(steps.task):
        rows_of = steps.task == task
        assert result.values[rows_of].sum() == pytest.approx(grpo(steps, scale=scale).values[rows_of].sum(), abs=1e-9)


@given(walks(), st.sampled_from(["grpo", "rloo", "dr_grpo"]))
@settings(max_examples=60, deadline=None)
def test_without_repeats_it_is_its_base_to_the_bit(table, base):
    unique = [{**row, "action": number} for number, row in enumerate(table)]
    steps = Steps.from_rows(unique)
    assert salt(steps, base=base).values.tolist() == get(base)(steps).values.tolist()


@given(walks(), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_longer_histories_split_classes_and_never_join_them(table, history):
    steps = Steps.from_rows(table)
    coarse, fine = transitions(steps, history), transitions(steps, history + 1)
    assert compact(coarse, fine).max() == fine.max()


@given(walks())
@settings(max_examples=60, deadline=None)
def test_turns_of_one_class_get_the_same_to_the_bit_unless_all_have_it(table):
    steps = Steps.from_rows(table)
    values, key = salt(steps).values, transitions(steps)
    for code in np.unique(key):
        assert np.ptp(values[key == code]) <= 1e-12


def test_what_the_base_keeps_and_remembers_comes_through():
    def odd(steps, *, state=None, rng=None):
        drawn = rng.random()
        keep = steps.turn > 0
        return Advantages.of(
            steps, np.full(len(steps), drawn), keep=keep, weight=np.full(len(steps), 2.0), state=(state or 0) + 1
        )

    RULES._items["odd"] = CreditRule("odd", "for this test", None, "our reading", "", odd)
    try:
        steps = Steps.from_rows(walk("a", "s go x", "x l win", won=1.0))
        result = salt(steps, base="odd", state=4, rng=np.random.default_rng(0))
    finally:
        del RULES._items["odd"]
    assert result.state == 5
    assert result.keep.tolist() == [False, True]
    assert result.weight.tolist() == [2.0, 2.0]
    assert result.values.tolist() == [np.random.default_rng(0).random()] * 2


def test_it_says_what_is_missing_or_wrong():
    with pytest.raises(BadOption, match="grpo has no option 'scal'; did you mean 'scale'"):
        get("salt", base_options={"scal": "none"})
    with pytest.raises(UnknownRule, match="did you mean 'grpo'"):
        get("salt", base="grop")
