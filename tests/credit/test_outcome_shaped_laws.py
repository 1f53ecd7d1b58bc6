"""Laws of the shaped outcome methods on random tables: order of rows, names, groups, copies, sizes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import rows

from turnwise.credit import Steps, get

NAMES = ["passk", "psr_nsr", "a_grae", "adora", "canon", "mapo_mixed", "copo", "unlikely", "xrpo_novelty", "seed_grpo",
         "evol", "hapo"]  # fmt: skip
OF_THE_BATCH = {"a_grae", "copo"}
WITHOUT_GROUPS = {"psr_nsr"}
METHODS = st.sampled_from(NAMES)
MANY = settings(max_examples=120, deadline=None)


@st.composite
def tables(draw: st.DrawFn, **options: Any) -> list[dict[str, Any]]:
    """Rows with what these methods read; one label and one metric a trajectory, with ties."""
    table = draw(rows(**options))
    of_trajectory: dict[Any, dict[str, Any]] = {}
    for row in table:
        key = row["task"], row["trajectory"]
        if key not in of_trajectory:
            of_trajectory[key] = {
                "label": draw(st.sampled_from("xyz")),
                "metric": draw(st.sampled_from([0.0, 0.25, 0.5, 1.0])),
            }
        row.update(of_trajectory[key])
        row["tokens"] = draw(st.integers(0, 9))
        row["logprob"] = draw(st.sampled_from([-0.1, -0.3, -1.0, -2.7]))
    return table


def values(name: str, table: list[dict[str, Any]], **options: Any) -> np.ndarray:
    return get(name, **options)(Steps.from_rows(table)).values


@given(METHODS, tables(), st.randoms(use_true_random=False))
@MANY
def test_the_order_of_rows_means_nothing_to_the_last_bit(name, table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    assert values(name, [table[row] for row in order]).tolist() == values(name, table)[order].tolist()


@given(METHODS, tables())
@MANY
def test_ids_are_only_names(name, table):
    renamed = [
        {**row, "task": ("new", row["task"]), "trajectory": f"{row['trajectory']}!", "label": {"key": row["label"]}}
        for row in table
    ]
    assert values(name, renamed).tolist() == values(name, table).tolist()


@given(st.sampled_from([name for name in NAMES if name not in OF_THE_BATCH]), tables(max_tasks=2), tables(max_tasks=2))
@MANY
def test_a_group_does_not_see_the_others(name, one, two):
    others = [{**row, "task": "other " + row["task"]} for row in two]
    assert values(name, one + others)[: len(one)].tolist() == values(name, one).tolist()


@given(METHODS, tables(), st.data())
@MANY
def test_a_copy_gets_what_its_original_gets_and_counts_for_nothing(name, table, data):
    origin = data.draw(st.integers(0, len(table) - 1))
    copied = [*table, {**table[origin], "duplicate_of_row": origin}]
    found = values(name, copied)
    assert found[:-1].tolist() == values(name, table).tolist()
    assert found[-1] == found[origin]


@given(METHODS, tables(rewards=st.floats(-1e6, 1e6)))
@MANY
def test_any_finite_rewards_give_finite_advantages(name, table):
    assert np.isfinite(values(name, table)).all()


@given(st.sampled_from([name for name in NAMES if name not in WITHOUT_GROUPS]), tables(max_tasks=1, max_group=1))
@MANY
def test_one_episode_in_all_teaches_nothing(name, table):
    assert not values(name, table).any()


@given(
    st.sampled_from(["a_grae", "adora", "canon", "mapo_mixed", "xrpo_novelty", "seed_grpo", "hapo", "passk"]),
    tables(),
    st.sampled_from([0.1, 1.0, 10.0]),
)
@MANY
def test_equal_scores_teach_nothing(name, table, reward):
    last = {}
    for row in table:
        key = row["task"], row["trajectory"]
        last[key] = max(last.get(key, 0), row["turn"])
    equal = [{**row, "reward": reward if row["turn"] == last[row["task"], row["trajectory"]] else 0.0} for row in table]
    equal = [{**row, "valid": True} for row in equal]
    assert not values(name, equal).any()


@given(METHODS, tables())
@MANY
def test_all_turns_of_an_episode_get_the_same(name, table):
    found: dict[Any, set[float]] = {}
    for row, value in zip(table, values(name, table).tolist(), strict=True):
        found.setdefault((row["task"], row["trajectory"]), set()).add(value)
    assert all(len(several) == 1 for several in found.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_entry_says_which_columns_it_needs(name):
    """With exactly these there is a result; without one of them there is none."""
    needs = get(name).needs
    full = {"label": ["x", "y"], "metric": [0.1, 0.2], "tokens": [3, 4], "logprob": [-1.0, -2.0]}
    base = {"task": ["t", "t"], "trajectory": [0, 1], "turn": [0, 0], "reward": [1.0, 0.0]}
    given_columns = {column: full[column] for column in needs}
    assert len(get(name)(Steps.from_columns(**base, **given_columns))) == 2
    for column in needs:
        fewer = {key: value for key, value in given_columns.items() if key != column}
        with pytest.raises(ValueError, match=f"{name} needs the column '{column}'"):
            get(name)(Steps.from_columns(**base, **fewer))
