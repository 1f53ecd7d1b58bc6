"""Laws of the turn-level methods with roles, plans, critics, chance or memory, on random tables with all columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import rows

from turnwise.credit import Steps, get

METHODS = {
    "trloo": ({}, {"peers": "task"}, {"peers": "task", "unit": "turn"}),
    "mt_grpo": ({}, {"form": "segments"}),
    "mapo_dialogue": ({}, {"mode": "mica"}),
    "mars": ({}, {"scale": "std"}),
    "flow_grpo": ({}, {"planner": "main"}, {"unit": "turn", "planner": "main"}),
    "m_grpo": ({},),
    "dr_mas": ({}, {"w": 1.0}, {"w": 0.5, "unit": "turn"}),
    "step_grpo": ({},),
    "himac": ({"macro": "main"}, {"macro": "main", "phase": "macro"}, {"macro": "main", "phase": "micro"}),
    "loop": ({}, {"scale": "std", "threshold": 0.0}),
    "spear": ({}, {"bonus_calls": 10}),
    "arpo_replay": ({},),
    "ppr_renorm": ({},),
    "archer": ({},),
    "seeupo": ({}, {"unit": "turn"}),
}
CASES = [(name, options) for name, variants in METHODS.items() for options in variants]
OVER_THE_BATCH = [("mapo_dialogue", {}), ("mars", {}), ("mars", {"scale": "std"}), ("seeupo", {})]
BY_CRITICS = ("ppr_renorm", "archer")
MANY = settings(max_examples=15, deadline=None)


def methods(*left_out, but=lambda options: False):
    """Parametrise a law over all methods, some left out because it is not theirs."""
    cases = [case for case in CASES if case[0] not in left_out and not but(case[1])]
    return pytest.mark.parametrize(("name", "options"), cases, ids=str)


every_method = methods()


def complete(table):
    """The rows with every column that the methods read; a trajectory's plan is one of two."""
    return [
        {
            **row,
            "role": "sub" if (row["turn"] + row["trajectory"]) % 3 == 1 and row["turn"] else "main",
            "parent": row["trajectory"] % 2,
            "metric": 0.25 * (row["turn"] % 5),
            "value": 0.5 * (row["trajectory"] % 3),
            "tokens": 1 + 3 * row["turn"],
        }
        for row in table
    ]


full = rows().map(complete)


def run(name, options, table):
    method = get(name, **options)
    chance = {"rng": np.random.default_rng(0)} if method.draws else {}
    return method(table if isinstance(table, Steps) else Steps.from_rows(table), **chance)


@every_method
@given(table=full, random=st.randoms(use_true_random=False))
@MANY
def test_the_order_of_rows_means_nothing_to_the_last_bit(name, options, table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    one, two = run(name, options, table), run(name, options, [table[k] for k in order])
    assert two.values.tolist() == one.values[order].tolist()
    assert two.keep.tolist() == one.keep[order].tolist()


@every_method
@given(table=full)
@MANY
def test_ids_and_turn_numbers_are_only_names(name, options, table):
    renamed = [
        {**row, "task": ("new", row["task"]), "trajectory": f"{row['trajectory']}!", "state": {"key": row["state"]},
         "parent": ("plan", row["parent"]), "turn": 3 * row["turn"] - 7}
        for row in table
    ]  # fmt: skip
    assert run(name, options, renamed).values.tolist() == run(name, options, table).values.tolist()


@methods("mapo_dialogue", "mars", "seeupo")
@given(one=full, two=full)
@MANY
def test_a_group_does_not_see_the_others(name, options, one, two):
    others = [{**row, "task": "other " + row["task"]} for row in two]
    assert run(name, options, one + others).values[: len(one)].tolist() == run(name, options, one).values.tolist()


@pytest.mark.parametrize(("name", "options"), OVER_THE_BATCH)
def test_these_do_see_the_others(name, options):
    """What their docstrings say: the same group gets other numbers beside a group of another spread."""
    table = complete([{"task": "t", "trajectory": k, "turn": 0, "reward": float(k), "state": "s"} for k in range(3)])
    wide = [{**row, "task": "u", "reward": 100.0 * row["reward"]} for row in table]
    alone, beside = run(name, options, table).values, run(name, options, table + wide).values[: len(table)]
    assert np.abs(alone - beside).max() > 0.01


@every_method
@given(table=full, data=st.data())
@MANY
def test_a_copy_gets_what_its_original_gets_and_changes_nothing(name, options, table, data):
    chosen = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=3))
    copies = [{**table[k], "duplicate_of_row": k} for k in chosen]
    alone, with_copies = run(name, options, table), run(name, options, table + copies)
    expected = [*range(len(table)), *chosen]
    assert with_copies.values.tolist() == alone.values[expected].tolist()
    assert with_copies.keep.tolist() == alone.keep[expected].tolist()


@every_method
@given(table=rows(rewards=st.floats(-1e6, 1e6)).map(complete))
@MANY
def test_any_finite_rewards_give_finite_advantages(name, options, table):
    assert np.isfinite(run(name, options, table).values).all()


@every_method
def test_an_empty_table_has_an_empty_answer(name, options):
    assert len(run(name, options, Steps.empty())) == 0
    assert len(get(name, **options)(Steps.empty())) == 0  # without chance too


@methods(*BY_CRITICS)
@given(table=rows(max_turns=1, rewards=st.just(0.3)).map(complete))
@MANY
def test_equal_rewards_teach_nothing(name, options, table):
    """Where all have one turn and the same reward nobody did better, whatever the group."""
    table = [{**row, "valid": True} for row in table]
    assert not run(name, options, table).values.any()


@methods(*BY_CRITICS, "mapo_dialogue", "mars", but=lambda options: options.get("unit") == "turn")
@given(table=rows(max_group=1).map(complete))
@MANY
def test_one_episode_a_task_teaches_nothing(name, options, table):
    """Unless turns count, where an episode is compared with itself."""
    assert not run(name, options, table).values.any()
