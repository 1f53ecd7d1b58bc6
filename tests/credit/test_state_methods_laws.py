"""Laws of the methods that compare states, histories and transitions, tried on random tables."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys.tables import rows

from turnwise.credit import Steps, get

MANY = settings(max_examples=60, deadline=None)
METHODS = {
    "hgpo": get("hgpo", history=1),
    "hgpo, base": get("hgpo", base=True, drop="zero", weights="paper", unit="turn", scale="none"),
    "hgpo, mad": get("hgpo", scale="mad", drop="none"),
    "salt": get("salt"),
    "salt, history": get("salt", base="rloo", merge_history=1, unit="trajectory"),
    "salt, plain": get("salt", base="gigpo", endings="plain"),
    "graphgpo": get("graphgpo"),
    "graphgpo, progress": get("graphgpo", progress=True, unreachable=9.0, unit="turn", scale="none"),
    "graft": get("graft", gae_lambda=0.5),
    "graft, slow": get("graft", gamma=1.0, scale="none", unit="turn"),
    "rtmc": get("rtmc"),
    "slea": get("slea", threshold=0.5),
    "slea, embedding": get("slea", by="embedding"),
}
method = st.sampled_from(sorted(METHODS)).map(METHODS.__getitem__)


@st.composite
def full(draw, max_tasks=3, rewards=None):
    """Random rows with actions and embeddings; with `next_state` in half of the tables."""
    table = draw(rows(max_tasks=max_tasks, rewards=rewards))
    told = draw(st.booleans())
    for row in table:
        row["action"] = draw(st.sampled_from("uv"))
        row["metric"] = draw(st.sampled_from([[1.0, 0.0], [0.9, 0.1], [0.0, 2.0], [-1.0, 0.5]]))
        if told:
            row["next_state"] = draw(st.sampled_from("abcz"))
    return table


def values(estimator, table):
    return estimator(Steps.from_rows(table)).values


@given(method, full(), st.randoms(use_true_random=False))
@MANY
def test_the_order_of_rows_means_nothing_to_the_last_bit(estimator, table, random):
    order = list(range(len(table)))
    random.shuffle(order)
    shuffled = estimator(Steps.from_rows([table[row] for row in order]))
    whole = estimator(Steps.from_rows(table))
    assert shuffled.values.tolist() == whole.values[order].tolist()
    for name, part in whole.parts.items():
        assert shuffled.parts[name].tolist() == part[order].tolist()


@given(method.filter(lambda estimator: estimator is not METHODS["slea"]), full())
@MANY
def test_ids_are_only_names(estimator, table):
    keys = [name for name in ("state", "action", "next_state") if name in table[0]]
    renamed = [
        {**row, "task": ("new", row["task"]), "trajectory": f"{row['trajectory']}!", **{k: (9, row[k]) for k in keys}}
        for row in table
    ]
    assert values(estimator, renamed).tolist() == values(estimator, table).tolist()


@given(method, full(max_tasks=2), full(max_tasks=2))
@MANY
def test_a_task_does_not_see_the_others(estimator, one, two):
    told = "next_state" in one[0]
    others = [{**row, "task": "other " + row["task"]} for row in two]
    others = [{**{k: v for k, v in row.items() if k != "next_state"}, **({"next_state": "a"} if told else {})}
              for row in others]  # fmt: skip
    assert values(estimator, one + others)[: len(one)].tolist() == values(estimator, one).tolist()


@given(method, full())
@MANY
def test_turn_numbers_only_say_the_order(estimator, table):
    spread = [{**row, "turn": 3 * row["turn"] - 7} for row in table]
    assert values(estimator, spread).tolist() == values(estimator, table).tolist()


@given(method, full(), st.data())
@MANY
def test_copies_change_nothing_and_get_their_originals_advantage(estimator, table, data):
    sources = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=4))
    filled = values(estimator, [*table, *({**table[row], "duplicate_of_row": row} for row in sources)])
    plain = values(estimator, table)
    assert filled.tolist() == [*plain, *plain[sources]]


@given(method, full(rewards=st.floats(-1e6, 1e6)))
@MANY
def test_any_finite_rewards_give_finite_advantages(estimator, table):
    assert np.isfinite(values(estimator, table)).all()


@given(method, full(), st.sampled_from([0.25, 4.0, 1024.0]))
@MANY
def test_parts_have_a_row_each_and_say_no_nonsense(estimator, table, factor):
    result = estimator(Steps.from_rows([{**row, "reward": factor * row["reward"]} for row in table]))
    for part in result.parts.values():
        assert part.shape == result.values.shape
        assert np.isfinite(part).all()
    assert result.keep.all()
    assert (result.weight == 1.0).all()


@given(st.sampled_from(["hgpo", "hgpo, mad", "salt", "salt, history", "salt, plain", "graphgpo", "slea"]), full())
@MANY
def test_one_episode_per_task_teaches_nothing(name, table):
    """Where trajectories count, and not turns; the others tell the turns of one episode apart by its own returns."""
    assert not values(METHODS[name], [row for row in table if row["trajectory"] == 0]).any()


@pytest.mark.parametrize("name", sorted(METHODS))
def test_an_empty_table_gives_an_empty_result(name):
    for steps in (Steps.empty(), Steps.from_rows([])):
        assert METHODS[name](steps).values.tolist() == []
