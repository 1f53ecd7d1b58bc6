"""Wins and losses of each task as two numbers that forget: a Beta distribution of its rate of success."""

from __future__ import annotations

from typing import TypedDict

import numpy as np

from turncredit.credit.columns import Floats
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, counts_of, played_since

__all__ = ["WinTracker", "tracked"]


class WinTracker(TypedDict):
    """The Beta distributions, and the records that they were updated from."""

    a: Floats
    b: Floats
    counts: Counts
    iteration: int


def tracked(
    records: TaskRecords,
    before: WinTracker | None,
    *,
    iteration: int,
    start: float,
    base: float,
    visited: float,
    always: float = 1.0,
) -> WinTracker:
    """Return the Beta distribution of each task after what was played since the previous call.

        a <- base + always^k (a - base)                         k: iterations since the previous call
        a <- base + visited (a - base) + wins                   for a task that was played; b with its losses

    Args:
        records: with rows in the order of their ids.
        before: of the previous call; None at first.
        iteration: number of finished iterations.
        start: a and b of a task that was never played.
        base: what a and b decay to.
        visited: factor of a task that was played, once for all its groups since the previous call.
        always: factor of every task for each iteration.
    """
    n = len(records.tasks)
    played = played_since(records, None if before is None else before["counts"])
    a, b = (np.full(n, start), np.full(n, start)) if before is None else (before["a"], before["b"])
    fade = always ** max(iteration - (0 if before is None else before["iteration"]), 0)
    factor = np.where(played.visits > 0, visited, 1.0) * fade
    return {
        "a": base + factor * (a - base) + played.wins,
        "b": base + factor * (b - base) + played.episodes - played.wins,
        "counts": counts_of(records),
        "iteration": iteration,
    }
