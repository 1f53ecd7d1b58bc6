"""Short tasks first, then longer ones, then all: by the number of turns that an expert needs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.picking import waiting
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, PlayedSince, by_id, counts_of, played_since

_KEEP = 0.9
"""Weight of the mean success before, when that of an iteration is added."""


class CraftState(TypedDict):
    """The stage, its mean success, the records before, and the number of the draw that last took each task."""

    stage: int
    success: float | None
    counts: Counts
    drawn: Ints
    draws: int


def craft_gui(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    bounds: Sequence[int] = (3, 8),
    threshold: float = 0.6,
    column: str = "expert_turns",
    state: CraftState | None = None,
) -> TaskDraw:
    """Return tasks of the current stage: up to 3 turns of the expert, 4 to 8, more than 8, and at last all.

    A stage ends when its mean success passes `threshold`, or with its equal part of the run. The mean is
    m <- 0.9 m + 0.1 (wins / episodes) over what was played of the stage since the previous draw, which it starts with.
    Stages without a task are passed over. A task of which the number of turns is unknown belongs to every stage. Within
    a stage, the tasks that were drawn longest ago come first, in random order where that is equally long.

    Args:
        records: of all tasks. The number of turns is the remembered column of that name.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        bounds: largest number of turns of each stage but the last two.
        threshold: success that ends a stage, in [0, 1].
        column: name of the numbers of turns.
        state: of the previous draw.

    Source: CRAFT-GUI, 2025, arXiv 2508.11360, of which only the abstract was read; bounds and threshold are ours.
    """
    _check(bounds, threshold)
    pool = by_id(records)
    stages = _stages(pool.column(column), bounds)
    played = played_since(pool, None if state is None else state["counts"])
    stage, success = _moved(stages, played, iteration / max(total, 1), threshold, state)
    drawn = np.zeros(len(pool.tasks), dtype=np.int64) if state is None else state["drawn"].copy()
    draws = 1 if state is None else state["draws"] + 1
    chosen = waiting(rng, drawn, stages[stage], count)
    drawn[chosen] = draws
    after: CraftState = {
        "stage": stage,
        "success": success,
        "counts": counts_of(pool),
        "drawn": drawn,
        "draws": draws,
    }
    return TaskDraw(tuple(pool.tasks[row] for row in chosen), (group,) * count, state=after)


def _stages(turns: Floats, bounds: Sequence[int]) -> list[Ints]:
    """The rows of each stage, the last one with all of them."""
    unknown = ~np.isfinite(turns)
    number = np.searchsorted(np.asarray(bounds), np.nan_to_num(turns, nan=0.0), side="left")
    parts = [np.flatnonzero((number == index) | unknown) for index in range(len(bounds) + 1)]
    return [*parts, np.arange(len(turns))]


def _moved(
    stages: Sequence[Ints], played: PlayedSince, progress: float, threshold: float, state: CraftState | None
) -> tuple[int, float | None]:
    """The stage and its mean success after what was played."""
    stage, success = (0, None) if state is None else (state["stage"], state["success"])
    episodes = int(played.episodes[stages[stage]].sum())
    if state is not None and episodes:
        share = int(played.wins[stages[stage]].sum()) / episodes
        success = share if success is None else _KEEP * success + (1 - _KEEP) * share
    over = (success or 0.0) > threshold or progress >= (stage + 1) / len(stages)
    if over and stage < len(stages) - 1:
        stage, success = stage + 1, None
    while not len(stages[stage]):
        stage, success = stage + 1, None
    return stage, success


def _check(bounds: Sequence[int], threshold: float) -> None:
    check_number("threshold", threshold, 0.0, 1.0)
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or list(bounds) != sorted(set(bounds)):
        raise BadOption(f"bounds must be numbers of turns that grow, such as [3, 8], got {bounds!r}")
    for bound in bounds:
        check_number("bounds", bound, 1, whole=True)
