"""Laws that hold for every registered estimator, whatever it computes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from toys.full_tables import full_episode, full_rows

from turnwise.credit import Advantages, MissingColumn, Steps, rules

ALL = sorted(rules())
BATCH_WIDE = {  # compared with the whole batch by definition; their docstrings say so
    "a_grae", "bnpo", "copo", "gdpo", "mapo_dialogue", "mars", "reinforce_pp", "reinforce_pp_baseline", "seeupo",
    "spo_single_stream",
}  # fmt: skip
READS_TEXT = {"slea"}  # compares the letters of states
INSTEAD = {("canon", "tokens"): "metric", ("tempo", "state"): "next_state"}  # another column that serves as well
SOME = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def run(name: str, table: list[dict[str, Any]]) -> Advantages:
    item = rules()[name]
    drawing = {"rng": np.random.default_rng(7)} if item.draws else {}
    return item(Steps.from_rows(table), **drawing)


def columns(found: Advantages) -> dict[str, list[float]]:
    return {"values": found.values.tolist(), "keep": found.keep.tolist(), "weight": found.weight.tolist(), **{
        name: part.tolist() for name, part in found.parts.items()
    }}  # fmt: skip


@pytest.mark.parametrize("name", ALL)
@given(table=full_rows(), random=st.randoms(use_true_random=False))
@SOME
def test_the_order_of_rows_means_nothing(name, table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    before, after = columns(run(name, table)), columns(run(name, [table[row] for row in order]))
    assert before.keys() == after.keys()
    for column, found in before.items():
        assert np.allclose(after[column], np.asarray(found)[order], rtol=1e-9, atol=1e-12), column


@pytest.mark.parametrize("name", [name for name in ALL if name not in READS_TEXT])
@given(table=full_rows())
@SOME
def test_keys_are_only_names(name, table):
    keys = ("task", "state", "next_state", "action", "tree", "parent", "label")
    renamed = [{**row, **{key: ("new", row[key]) for key in keys}} for row in table]
    assert np.allclose(run(name, renamed).values, run(name, table).values, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if name not in BATCH_WIDE])
@given(one=full_rows(max_tasks=2), two=full_rows(max_tasks=2))
@SOME
def test_a_group_does_not_see_the_others(name, one, two):
    others = [{**row, "task": "other " + row["task"]} for row in two]
    together, alone = run(name, one + others).values[: len(one)], run(name, one).values
    assert np.allclose(together, alone, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", sorted(BATCH_WIDE))
def test_what_looks_at_the_whole_batch_says_so(name):
    words = " ".join((rules()[name].function.__doc__ or "").split())
    assert "batch" in words


@pytest.mark.parametrize("name", ALL)
@given(table=full_rows(rewards=st.floats(-1e6, 1e6)))
@SOME
def test_finite_rewards_give_finite_advantages(name, table):
    found = run(name, table)
    assert len(found) == len(table)
    assert np.isfinite(found.values).all()
    assert (found.weight >= 0.0).all()


@pytest.mark.parametrize("name", ALL)
@given(table=full_rows())
@SOME
def test_a_table_is_left_as_it_was_and_a_second_look_sees_the_same(name, table):
    steps = Steps.from_rows(table)
    before = {column: steps.column(column).copy() for column in steps.columns}
    item = rules()[name]
    drawing = [{"rng": np.random.default_rng(7)} if item.draws else {} for _ in range(2)]
    first, second = (item(steps, **one) for one in drawing)
    assert first.values.tolist() == second.values.tolist()
    assert all((steps.column(column) == found).all() for column, found in before.items())


@pytest.mark.parametrize("name", ALL)
@given(table=full_rows(), data=st.data())
@SOME
def test_a_copy_of_a_row_gets_what_its_original_got_and_moves_nothing(name, table, data):
    origin = data.draw(st.integers(0, len(table) - 1))
    found = run(name, [*table, {**table[origin], "duplicate_of_row": origin}]).values
    alone = run(name, table).values
    assert np.allclose(found[:-1], alone, rtol=1e-9, atol=1e-12)
    assert found[-1] == pytest.approx(alone[origin], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_a_table_without_rows_is_answered_with_none(name):
    assert len(rules()[name](Steps.empty())) == 0


@pytest.mark.parametrize(("name", "column"), [(item.name, need) for item in rules().values() for need in item.needs])
def test_a_column_that_is_missing_is_named_with_the_method(name, column):
    other = INSTEAD.get((name, column), column)
    without = {column, other}
    table = [{key: value for key, value in row.items() if key not in without} for row in full_episode([0.0, 1.0])]
    with pytest.raises(MissingColumn, match=rf"^{name} needs the column '({column}|{other})'"):
        run(name, table)


@pytest.mark.parametrize("name", ALL)
def test_the_columns_it_names_are_all_that_it_needs(name):
    item = rules()[name]
    kept = {"task", "trajectory", "turn", "reward", *item.needs}
    rows = [*full_episode([0.0, 1.0], "a"), *full_episode([0.0, 0.0, 0.0], "b")]
    found = run(name, [{key: value for key, value in row.items() if key in kept} for row in rows])
    assert len(found) == 5


@pytest.mark.parametrize("name", ALL)
def test_equal_winners_are_not_told_apart(name):
    """Six episodes that did the same thing and won alike: whatever the method gives, it gives to all."""
    found = run(name, [row for k in range(6) for row in full_episode([0.0, 0.0, 1.0], k)])
    kept = found.values.reshape(6, 3)[found.keep.reshape(6, 3).all(axis=1)]
    assert np.allclose(kept, kept[:1], rtol=0.0, atol=1e-12)
