"""Weights of groups by the success of their tasks: easy, then medium, then hard."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats
from turncredit.credit.option_checks import check_choice
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, RuleChoice, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id, rows_of

Stage = Literal["easy", "medium", "hard"]
Emphasis = Literal["easy", "medium", "hard", "in turn"]


def pcurl(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    stage: Emphasis = "in turn",
    tasks: RuleChoice = "uniform",
    state: Inner | None = None,
) -> TaskDraw:
    """Return the tasks of another rule with the weights of `pcurl_weights` for their success at the last visit.

    A task that was never played weighs 1. Weights of the other rule are multiplied.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        stage: which tasks weigh most; "in turn": easy, medium and hard ones, a third of the run each.
        tasks: rule that draws the tasks.
        state: of the previous draw.

    Source: Yuan et al. 2025 (PCuRL, VL-Cogito), code of alibaba-damo-academy/VL-Cogito. There, p is that of the group
        itself; here, weights are given before the group is played, by its task's last visit. So a task that was lost
        then does not count when it is won for the first time, in the easy and the medium stage.
    """
    check_choice("stage", stage, Emphasis)
    pool = by_id(records)
    draw, inner = drawn_by(tasks, pool, state, count=count, group=group, iteration=iteration, total=total, rng=rng)
    stages: tuple[Stage, ...] = ("easy", "medium", "hard")
    current = stages[min(3 * iteration // max(total, 1), 2)] if stage == "in turn" else stage
    p = pool.success[rows_of(pool, draw.tasks)]
    factors = np.where(np.isfinite(p), pcurl_weights(np.nan_to_num(p, nan=0.5), current), 1.0)
    weights = factors * (np.array(draw.weight) if draw.weight else 1.0)
    return TaskDraw(draw.tasks, draw.episodes, tuple(weights.tolist()), draw.options, state=inner)


def pcurl_weights(p: Floats, stage: Stage) -> Floats:
    """Return the weights of groups with a rate of success.

        easy      0 at p = 0; sin(pi p) up to 1/2, then 1
        medium    0 at p = 0; sin(pi p)
        hard      1/4 at p = 0; 1 up to 1/2, then sin(pi p)

    >>> pcurl_weights(np.array([0.0, 0.25, 0.5]), "medium").round(4).tolist()
    [0.0, 0.7071, 1.0]

    Args:
        p: float64 [N], in [0, 1].
        stage: which of them.
    """
    bell = np.maximum(np.sin(np.pi * p), 0.0)  # sin(pi) is not quite 0
    if stage == "easy":
        return np.where(p > 0.5, 1.0, bell)
    if stage == "medium":
        return bell
    return np.where(p == 0, 0.25, np.where(p <= 0.5, 1.0, bell))
