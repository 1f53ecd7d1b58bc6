"""Weights of groups by the spread of their tasks' outcomes."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, RuleChoice, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id, rows_of, success_or


def observe_r1(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    floor: float = 0.1,
    tasks: RuleChoice = "uniform",
    state: Inner | None = None,
) -> TaskDraw:
    """Return the tasks of another rule with the weights max(4 p (1 - p), floor), multiplied with those of that rule.

    p is the share of won episodes at the last visit. A task that was never played weighs 1.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        floor: smallest weight, in [0, 1].
        tasks: rule that draws the tasks.
        state: of the previous draw.

    Source: Observe-R1, 2025, of which only the abstract was read; the form of the weights is ours, and they are given
        by the task's last visit, since the group is not yet played.
    """
    check_number("floor", floor, 0.0, 1.0)
    pool = by_id(records)
    draw, inner = drawn_by(tasks, pool, state, count=count, group=group, iteration=iteration, total=total, rng=rng)
    p = success_or(pool, 0.5)[rows_of(pool, draw.tasks)]
    weights = np.maximum(4 * p * (1 - p), floor) * (np.array(draw.weight) if draw.weight else 1.0)
    return TaskDraw(draw.tasks, draw.episodes, tuple(weights.tolist()), draw.options, state=inner)
