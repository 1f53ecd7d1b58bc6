"""Phases on ever smaller parts of the pool: the tasks with the lowest rates of success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Ints
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.picking import waiting
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, by_id, counts_of, played_since


class HardestState(TypedDict):
    """The phase, its rows, the records at its beginning, and the number of the draw that last took each task."""

    phase: int
    rows: Ints
    counts: Counts
    drawn: Ints
    draws: int


def hardest(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    shares: Sequence[float] = (1.0, 0.4, 0.3, 0.15),
    lengths: Sequence[float] = (0.2, 0.4, 0.2, 0.2),
    state: HardestState | None = None,
) -> TaskDraw:
    """Return tasks of the current phase: in each phase, the ceil(share * pool) hardest tasks of the phase before.

    The hardest are those with the lowest share of won episodes in the phase before, by id where that is equal; a task
    that was not played in it counts with all its episodes, and one that was never played as never won. Within a phase,
    the tasks that were drawn longest ago come first, in random order where that is equally long.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        shares: of the pool in each phase, in (0, 1], none larger than the one before.
        lengths: of the phases; only their proportions count.
        state: of the previous draw.

    Source: DRIVE, 2025, arXiv 2511.06307: 32 iterations on all tasks, then 64, 32 and 32 on the hardest 72, 50 and 25
        of 175. There, later phases also have longer answers and larger groups, which are keys of the run.
    """
    _check(shares, lengths)
    pool = by_id(records)
    ends = np.cumsum(lengths) / np.sum(lengths)
    phase = min(int(np.searchsorted(ends, iteration / max(total, 1) + 1e-9, side="right")), len(shares) - 1)
    if state is None or state["phase"] != phase:
        rows, counts = _rows(pool, shares[phase], state), counts_of(pool)
    else:
        rows, counts = state["rows"], state["counts"]
    drawn = np.zeros(len(pool.tasks), dtype=np.int64) if state is None else state["drawn"].copy()
    draws = 1 if state is None else state["draws"] + 1
    chosen = waiting(rng, drawn, rows, count)
    drawn[chosen] = draws
    after: HardestState = {"phase": phase, "rows": rows, "counts": counts, "drawn": drawn, "draws": draws}
    return TaskDraw(tuple(pool.tasks[row] for row in chosen), (group,) * count, state=after)


def _rows(pool: TaskRecords, share: float, state: HardestState | None) -> Ints:
    n = len(pool.tasks)
    before = np.arange(n) if state is None else state["rows"]
    played = played_since(pool, None if state is None else state["counts"])
    overall = pool.wins / np.maximum(pool.episodes, 1)
    rate = np.where(played.episodes > 0, played.wins / np.maximum(played.episodes, 1), overall)
    size = min(int(np.ceil(share * n - 1e-9)), len(before))
    return np.sort(before[np.argsort(rate[before], kind="stable")[:size]])


def _check(shares: Sequence[float], lengths: Sequence[float]) -> None:
    for name, values in (("shares", shares), ("lengths", lengths)):
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise BadOption(f"{name} must be a list of numbers, one for each phase, got {values!r}")
        for value in values:
            check_number(name, value, 0.0, 1.0 if name == "shares" else np.inf, open_low=True)
    if len(shares) != len(lengths):
        raise BadOption(f"shares and lengths must have one number for each phase, got {shares!r} and {lengths!r}")
    if list(shares) != sorted(shares, reverse=True):
        raise BadOption(f"shares must not grow from phase to phase, got {shares!r}")
