"""Tables of turns for tests: random rows by hypothesis, and the short way to write one by hand."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]


def episode(task: str, trajectory: object, rewards: list[float], states: str | list[Any] | None = None) -> list[Row]:
    """Rows of one episode; states by letter or as a list."""
    rows: list[Row] = [
        {"task": task, "trajectory": trajectory, "turn": turn, "reward": reward} for turn, reward in enumerate(rewards)
    ]
    for row, state in zip(rows, states if states is not None else [], strict=states is not None):
        row["state"] = state
    return rows


@st.composite
def rows(draw: st.DrawFn, max_tasks: int = 3, max_group: int = 4, max_turns: int = 5, rewards: Any = None) -> list[Row]:
    """Rows of some groups in any order; few states, so that they recur; about a fifth of the turns invalid."""
    reward = rewards if rewards is not None else st.sampled_from([0.0, 0.0, 0.0, 1.0, 0.5, -1.0, 10.0])
    table: list[Row] = []
    for task in range(draw(st.integers(1, max_tasks))):
        for member in range(draw(st.integers(1, max_group))):
            for turn in range(draw(st.integers(1, max_turns))):
                table.append(
                    {
                        "task": f"task {task}",
                        "trajectory": member,
                        "turn": turn,
                        "reward": draw(reward),
                        "state": draw(st.sampled_from("abc")),
                        "valid": draw(st.integers(0, 4)) > 0,
                    }
                )
    return draw(st.permutations(table))
