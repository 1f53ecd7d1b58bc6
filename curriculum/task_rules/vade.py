"""Thompson sampling of the tasks that teach most."""

from __future__ import annotations

from typing import Literal

from numpy.random import Generator

from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.picking import heaviest
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id
from turncredit.curriculum.win_tracker import WinTracker, tracked

Gain = Literal["hard", "even"]


def vade(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    rng: Generator,
    gain: Gain = "hard",
    local_decay: float = 0.5,
    global_decay: float = 0.99,
    state: WinTracker | None = None,
) -> TaskDraw:
    """Return the tasks with the largest gain of a rate of success that is drawn from what is known of each.

        p ~ Beta(a, b)            gain = p (1 - p)^2, largest at 1/3, or p (1 - p)

        a <- 1 + local_decay (a - 1) + wins         of a task that was played, b with its losses
        a <- 1 + global_decay (a - 1)               of every task, each iteration

    A task that was never played draws p uniformly from [0, 1]. The smaller id wins a tie. Groups of one episode are
    fine. A pool smaller than `count` is drawn several times over, in the same order.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration: number of finished iterations.
        rng: of the draw.
        gain: "hard" prefers tasks that are lost more often than won, "even" those near one half.
        local_decay: share of a task's evidence that outlives a visit, in [0, 1].
        global_decay: share that outlives an iteration, in [0, 1].
        state: of the previous draw.

    Source: VADE, 2025, arXiv 2511.18902, of which only the abstract and a description by others could be read; the
        decays and their sizes are ours.
    """
    check_choice("gain", gain, Gain)
    check_number("local_decay", local_decay, 0.0, 1.0)
    check_number("global_decay", global_decay, 0.0, 1.0)
    pool = by_id(records)
    tracker = tracked(pool, state, iteration=iteration, start=1.0, base=1.0, visited=local_decay, always=global_decay)
    p = rng.beta(tracker["a"], tracker["b"])
    rows = heaviest(p * (1 - p) ** (2 if gain == "hard" else 1), count)
    return TaskDraw(tuple(pool.tasks[row] for row in rows), (group,) * count, state=tracker)
