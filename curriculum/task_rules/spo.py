"""Tasks that are won as often as lost are drawn more often, and none is forgotten."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.picking import logs, weighted
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id
from turncredit.curriculum.win_tracker import WinTracker, tracked


def spo(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    rng: Generator,
    floor: float = 0.05,
    rho: float = 0.875,
    state: WinTracker | None = None,
) -> TaskDraw:
    """Return tasks drawn without replacement, with probability proportional to sqrt(p (1 - p)) + floor.

        p = a / (a + b)       a <- rho a + wins, b <- rho b + losses after a visit; both 1/2 at first

    A task that was never played has p = 1/2, the largest weight. Groups of one episode are fine, and meant.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration: number of finished iterations.
        rng: of the draw.
        floor: added to every weight, above 0.
        rho: share of a task's evidence that outlives a visit, in [0, 1).
        state: of the previous draw.

    Source: Xu and Ding 2025 (SPO, single-stream), arXiv 2509.13232. There, rho depends on how far the policy moved
        (as in the credit rule `spo_single_stream`); here it is constant. One decay for all episodes of a visit is ours.
    """
    check_number("floor", floor, 0.0, open_low=True)
    check_number("rho", rho, 0.0, float(np.nextafter(1.0, 0.0)))
    pool = by_id(records)
    tracker = tracked(pool, state, iteration=iteration, start=0.5, base=0.0, visited=rho)
    p = tracker["a"] / (tracker["a"] + tracker["b"])
    rows = weighted(rng, logs(np.sqrt(p * (1 - p)) + floor), count)
    return TaskDraw(tuple(pool.tasks[row] for row in rows), (group,) * count, state=tracker)
