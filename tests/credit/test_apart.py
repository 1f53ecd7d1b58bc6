"""Credit apart: every kind of turns has the advantages that it would have alone, whatever else is in the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.credit import Advantages, CreditRule, Steps, get
from turncredit.credit.apart import credit_apart

EPISODES = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 2), st.lists(st.floats(-2, 2), min_size=1, max_size=3)),
    min_size=1,
    max_size=12,
)


def table(episodes: list[tuple[str, int, list[float]]]) -> tuple[Steps, np.ndarray[Any, Any]]:
    """The turns of some episodes, each with the kind of its task, its task and its rewards."""
    rows = [
        {
            "task": f"{kind}{task}",
            "trajectory": f"e{number}",
            "turn": turn,
            "reward": reward,
            "state": f"s{turn}",
            "action": str(number % 2),
            "tokens": 3,
            "label": str(number % 3),
            "metric": float(sum(rewards) > 0),
        }
        for number, (kind, task, rewards) in enumerate(episodes)
        for turn, reward in enumerate(rewards)
    ]
    steps = Steps.from_rows(rows)
    return steps, np.array([str(task)[0] for task in steps.ids("task")], dtype=object)


@pytest.mark.parametrize("name", ["gigpo", "grpo", "reinforce_pp", "reinforce_pp_baseline", "copo", "hgpo"])
@given(EPISODES)
def test_a_kind_has_the_advantages_that_it_has_alone(name: str, episodes: list[tuple[str, int, list[float]]]) -> None:
    steps, kinds = table(episodes)
    rule = get(name)
    together = credit_apart(rule, steps, kinds)
    assert together.trajectory.tolist() == list(steps.ids("trajectory"))
    assert together.turn.tolist() == steps.turn.tolist()
    for kind in set(kinds.tolist()):
        own = np.flatnonzero(kinds == kind)
        alone = rule(steps.take(own))
        assert together.values[own].tolist() == alone.values.tolist()
        assert together.keep[own].tolist() == alone.keep.tolist()
        assert together.weight[own].tolist() == alone.weight.tolist()
        assert {part: column[own].tolist() for part, column in together.parts.items()} == {
            part: column.tolist() for part, column in alone.parts.items()
        }


@given(EPISODES.filter(lambda episodes: {episode[0] for episode in episodes} == {"x"}))
def test_one_kind_is_the_whole_table(episodes: list[tuple[str, int, list[float]]]) -> None:
    steps, kinds = table(episodes)
    assert credit_apart(get("gigpo"), steps, kinds).values.tolist() == get("gigpo")(steps).values.tolist()


def test_a_memory_is_kept_for_each_kind() -> None:
    rule = get("spo_single_stream")
    assert rule.remembers
    steps, kinds = table([(kind, 0, [reward]) for kind in "xy" for reward in (0.0, 1.0, 1.0)])
    first = credit_apart(rule, steps, kinds)
    second = credit_apart(rule, steps, kinds, state=first.state)
    assert sorted(first.state) == ["x", "y"]  # type: ignore[call-overload]
    for kind in "xy":
        own = np.flatnonzero(kinds == kind)
        memory = rule(steps.take(own), state=None).state
        assert second.values[own].tolist() == rule(steps.take(own), state=memory).values.tolist()


def test_a_copy_has_the_advantage_of_its_row_and_no_vote() -> None:
    steps = Steps.from_columns(
        task=["x", "x", "x", "y"],
        trajectory=["a", "b", "b", "c"],
        turn=[0, 0, 0, 0],
        reward=[1.0, 3.0, 3.0, 9.0],
        duplicate_of_row=[-1, -1, 1, -1],
    )
    mean = CreditRule(
        name="test-mean", title="", arxiv=None, evidence="our reading", use="",
        function=lambda steps: Advantages.of(steps, steps.reward - steps.reward.mean(), report={"rows": len(steps)}),
    )  # fmt: skip
    result = credit_apart(mean, steps, np.array(["x", "x", "x", "y"], dtype=object))
    assert result.values.tolist() == [-1.0, 1.0, 1.0, 0.0]
    assert result.report == {"rows": (2 * 2 + 1) / 3}


def test_an_empty_table_is_no_error() -> None:
    steps, kinds = table([("x", 0, [1.0])])
    none = credit_apart(get("gigpo"), steps.take([]), kinds[:0])
    assert len(none) == 0
