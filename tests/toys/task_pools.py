"""Pools of tasks with a history, and runs of a task rule on them, without a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np

from turncredit.curriculum import TaskDraw, TaskRecords, Visit
from turncredit.curriculum.draws import TaskRule
from turncredit.training.run_folder.state_json import from_json, to_json

Outcome = Callable[[str, int], tuple[float, ...]]
"""Rewards of the episodes of a group, by task and number of episodes."""

POOL = tuple(
    f"{level}/{base}{parts}" for level in ("tiny", "small") for base in "abc" for parts in ("", "+s", "+v", "+s+v")
)


def chance(seed: int) -> Outcome:
    """Outcomes that depend on the task alone, on the order of the pool and of the groups never."""
    visits: dict[str, int] = {}

    def outcome(task: str, episodes: int) -> tuple[float, ...]:
        visits[task] = visits.get(task, 0) + 1
        dice = np.random.default_rng([seed, visits[task], *task.encode()])
        return tuple((dice.random(episodes) < dice.choice([0.0, 0.2, 0.5, 0.8, 1.0])).astype(float).tolist())

    return outcome


def always(reward: float) -> Outcome:
    """Outcomes that are all the same."""
    return lambda task, episodes: (reward,) * episodes


def remembered(task: str, seed: int) -> dict[str, float]:
    """Numbers that group rules might have written, of some of the tasks."""
    dice = np.random.default_rng([seed, *task.encode()])
    columns = {
        "difficulty": dice.random(),
        "value": dice.random(),
        "expert_turns": float(dice.integers(1, 12)),
        "loss": dice.normal(),
        "novelty": dice.normal(),
    }
    return columns if dice.random() < 0.7 else {}


def visits_of(draw: TaskDraw, outcome: Outcome, seed: int) -> list[Visit]:
    """Play the groups of a draw."""
    visits = []
    for task, episodes in zip(draw.tasks, draw.episodes, strict=True):
        rewards = outcome(task, episodes)
        visits.append(Visit(task, rewards, sum(reward >= 0.5 for reward in rewards), remembered(task, seed)))
    return visits


def stored(state: object) -> object:
    """Write a state into a checkpoint and read it again."""
    return from_json(json.loads(json.dumps(to_json(state))))


def run(
    rule: TaskRule,
    pool: Sequence[str] = POOL,
    *,
    outcome: Outcome,
    count: int = 6,
    group: int = 4,
    iterations: int = 8,
    seed: int = 0,
    interrupted: bool = False,
    late: int = 0,
) -> list[TaskDraw]:
    """Return the draws of a run.

    Args:
        outcome: of each group.
        interrupted: the state goes through a checkpoint after each iteration.
        late: iterations by which the records lag behind.
    """
    records, draws, waiting, state = TaskRecords.of(pool), [], [], None
    for iteration in range(iterations):
        rng = np.random.default_rng([seed, iteration])
        draw = rule(records, count=count, group=group, iteration=iteration, total=iterations, rng=rng, state=state)
        state = stored(draw.state) if interrupted else draw.state
        draws.append(draw)
        waiting.append((visits_of(draw, outcome, seed), iteration))
        if len(waiting) > late:
            records = records.after(*waiting.pop(0))
    return draws
