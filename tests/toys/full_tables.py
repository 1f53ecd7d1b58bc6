"""Tables with every column that a credit rule may ask for: random ones, and single episodes."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

Row = dict[str, Any]
REWARDS = [0.0, 0.0, 0.0, 1.0, 0.5, -1.0, 10.0]


def random_rows(seed: int, tasks: int = 3, group: int = 4, turns: int = 4, reward: float | None = None) -> list[Row]:
    """Return the rows of some groups in random order; few states and actions, so that they recur.

    Args:
        seed: of the table.
        tasks, group, turns: the largest numbers.
        reward: draw rewards between -reward and reward instead of a few usual ones.
    """
    dice = random.Random(seed)
    table: list[Row] = []
    for task in range(dice.randint(1, tasks)):
        for member in range(dice.randint(1, group)):
            shared = {
                "task": f"task {task}",
                "trajectory": member,
                "tree": f"tree {dice.randint(0, 1)}",
                "label": dice.choice("xyz"),
                "metric": dice.choice([0.25, 0.5, 1.0, 2.0]),
                "parent": f"plan {dice.randint(0, 1)}",
                "unfinished": (task + member) % 2 == 0,
                "forked": member % 2,
                "source": 2 * (member % 3 == 1),
                "fork_turn": member % 2 * (task + member // 2) % 3,
            }
            places = [dice.choice("abc") for _ in range(turns + 1)]
            for turn in range(dice.randint(1, turns)):
                paid = dice.choice(REWARDS) if reward is None else dice.uniform(-reward, reward)
                row = {
                    **shared,
                    "turn": turn,
                    "reward": paid,
                    "state": places[turn],
                    "next_state": places[turn + 1],
                    "action": dice.choice("uv"),
                    "valid": dice.random() < 0.8,
                    "tokens": dice.randint(0, 5),
                    "role": "main" if turn == 0 else dice.choice(["main", "sub"]),
                    "value": dice.choice([0.0, 0.25, 0.5, 1.0, 2.0]),
                    "entropy": dice.choice([0.0, 0.5, 2.0]),
                    "logprob": -dice.choice([0.0, 0.25, 1.0, 2.0]),
                    "hindsight": -2.0 * ((turn + member) % 3),
                }
                table.append({**row, "multi": [paid, row["value"]]})
    dice.shuffle(table)
    told = dice.random() < 0.5
    return table if told else [{key: row[key] for key in row if key != "next_state"} for row in table]


seeds = st.integers(0, 10**6)


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
            "unfinished": False,
            "forked": 0,
            "source": 0,
            "fork_turn": 0,
            "value": 0.25,
            "entropy": 0.5,
            "logprob": -0.5,
            "hindsight": -0.5 * turn,
            "multi": [reward, 0.25],
        }
        for turn, reward in enumerate(rewards)
    ]
