"""Tables with every column that an estimator may ask for, random and in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]


@st.composite
def full_rows(
    draw: st.DrawFn, max_tasks: int = 3, max_group: int = 4, max_turns: int = 4, rewards: Any = None
) -> list[Row]:
    """Rows of some groups: few states and actions, so that they recur; what one episode shares is drawn once."""
    reward = rewards if rewards is not None else st.sampled_from([0.0, 0.0, 0.0, 1.0, 0.5, -1.0, 10.0])
    number = st.sampled_from([-2.0, -1.0, -0.5, -0.25, 0.0])
    table: list[Row] = []
    for task in range(draw(st.integers(1, max_tasks))):
        for member in range(draw(st.integers(1, max_group))):
            shared = {
                "task": f"task {task}",
                "trajectory": member,
                "tree": f"tree {draw(st.integers(0, 1))}",
                "label": draw(st.sampled_from("xyz")),
                "metric": abs(draw(number)),
                "parent": f"plan {draw(st.integers(0, 1))}",
            }
            turns = draw(st.integers(1, max_turns))
            places = [draw(st.sampled_from("abc")) for _ in range(turns + 1)]
            for turn in range(turns):
                row = {
                    **shared,
                    "turn": turn,
                    "reward": draw(reward),
                    "state": places[turn],
                    "next_state": places[turn + 1],
                    "action": draw(st.sampled_from("uv")),
                    "valid": draw(st.integers(0, 4)) > 0,
                    "tokens": draw(st.integers(1, 5)),
                    "role": "main" if turn == 0 else draw(st.sampled_from(["main", "sub"])),
                    "value": abs(draw(number)),
                    "entropy": abs(draw(number)),
                    "logprob": draw(number),
                }
                table.append({**row, "multi": [row["reward"], row["value"]]})
    return draw(st.permutations(table))


def full_episode(rewards: list[float], trajectory: object = 0, task: str = "task 0") -> list[Row]:
    """One episode with every column."""
    return [
        {
            "task": task,
            "trajectory": trajectory,
            "tree": "tree 0",
            "label": "x",
            "metric": 0.5,
            "turn": turn,
            "reward": reward,
            "state": f"s{turn}",
            "next_state": f"s{turn + 1}",
            "action": "u",
            "valid": True,
            "tokens": 2,
            "role": "main",
            "parent": "plan 0",
            "value": 0.25,
            "entropy": 0.5,
            "logprob": -0.5,
            "multi": [reward, 0.25],
        }
        for turn, reward in enumerate(rewards)
    ]
