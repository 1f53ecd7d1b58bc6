"""Ladders of variants of a task: up when it was won, and back to the part that failed when it was lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.picking import waiting
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, by_id, counts_of, played_since

Ladders = Mapping[str, Sequence[int]]
"""The rows of the variants of each ladder, from the base upwards."""


class LadderState(TypedDict):
    """The rung of each ladder, the rows that come first, the records before, and the draw that last took each task."""

    rungs: dict[str, int]
    queue: list[int]
    counts: Counts
    drawn: Ints
    draws: int


def we_math(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    rng: Generator,
    mark: str = "+",
    win: float = 0.5,
    state: LadderState | None = None,
) -> TaskDraw:
    """Return variants that were lost, then the current variant of each ladder, then any tasks.

    A ladder is a task and its variants: "q", "q+steps", "q+image", "q+image+steps" have the parts none, steps, image
    and both. Marks count behind the last "/" of an id: in a mixture, "shop/train/q+steps" is a variant of
    "shop/train/q", and "house/small+objects=4/q" of nothing else. A ladder is climbed from few parts to many, by id
    where they are equally many. When its current variant was won, the next one becomes current; a ladder whose last
    variant was won is complete. When it was lost, a variant joins the queue, which is served first: the smallest one
    that has the parts which the variant before had not, if that is a smaller one than the lost variant, else the lost
    variant itself.

    Of the current variants, and of all tasks, with which a draw is filled up, those that were drawn longest ago come
    first, in random order where that is equally long. A pool without marks has ladders of one task.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        rng: generator of the draw.
        mark: separates the base and the parts in the id of a task.
        win: share of won episodes since the previous draw with which a variant counts as won, in (0, 1].
        state: state of the previous draw.

    Source: Qiao et al. 2025 (We-Math 2.0), code of We-Math/We-Math2.0. The ids, `win` for groups, and what isolates the
        failing part in a ladder of any shape are ours.
    """
    if not isinstance(mark, str) or not mark:
        raise BadOption(f"mark must be a text that is not empty, got {mark!r}")
    check_number("win", win, 0.0, 1.0, open_low=True)
    pool = by_id(records)
    ladders = _ladders(pool.tasks, mark)
    success = played_since(pool, None if state is None else state["counts"]).success
    rungs = dict.fromkeys(ladders, 0) if state is None else dict(state["rungs"])
    queue = [] if state is None else list(state["queue"])
    for name, rows in ladders.items():
        if rungs[name] < len(rows) and np.isfinite(success[rows[rungs[name]]]):
            _climb(name, rows, rungs, queue, success, win, [_parts(pool.tasks[row], mark) for row in rows])
    drawn = np.zeros(len(pool.tasks), dtype=np.int64) if state is None else state["drawn"].copy()
    draws = 1 if state is None else state["draws"] + 1
    chosen = _chosen(rng, drawn, ladders, rungs, queue, count)
    drawn[chosen] = draws
    after: LadderState = {
        "rungs": rungs,
        "queue": queue[count:],
        "counts": counts_of(pool),
        "drawn": drawn,
        "draws": draws,
    }
    return TaskDraw(tuple(pool.tasks[row] for row in chosen), (group,) * count, state=after)


def _parts(task: str, mark: str) -> frozenset[str]:
    return frozenset(task.rpartition("/")[2].split(mark)[1:])


def _base(task: str, mark: str) -> str:
    folder, slash, name = task.rpartition("/")
    return folder + slash + name.split(mark)[0]


def _ladders(tasks: Sequence[str], mark: str) -> Ladders:
    """The rows of each ladder, in the order in which it is climbed; rows are in the order of the ids."""
    ladders: dict[str, list[int]] = {}
    for row, task in enumerate(tasks):
        ladders.setdefault(_base(task, mark), []).append(row)
    return {name: sorted(rows, key=lambda row: (len(_parts(tasks[row], mark)), row)) for name, rows in ladders.items()}


def _climb(
    name: str,
    rows: Sequence[int],
    rungs: dict[str, int],
    queue: list[int],
    success: Floats,
    win: float,
    parts: Sequence[frozenset[str]],
) -> None:
    """Move a ladder by the last visit of its current variant."""
    rung = rungs[name]
    if success[rows[rung]] >= win:
        rungs[name] = rung + 1
        return
    failing = parts[rung] - (parts[rung - 1] if rung else frozenset())
    smaller = [index for index in range(rung) if failing and failing <= parts[index] < parts[rung]]
    row = rows[smaller[0] if smaller else rung]
    if row not in queue:
        queue.append(row)


def _chosen(
    rng: Generator, drawn: Ints, ladders: Ladders, rungs: Mapping[str, int], queue: Sequence[int], count: int
) -> list[int]:
    chosen = list(queue[:count])
    busy = set(queue)
    current = [rows[rungs[name]] for name, rows in ladders.items() if rungs[name] < len(rows) and busy.isdisjoint(rows)]
    if current and len(chosen) < count:
        chosen += waiting(rng, drawn, np.array(current), min(count - len(chosen), len(current))).tolist()
    if len(chosen) < count:
        marks = drawn.copy()
        marks[chosen] = np.iinfo(np.int64).max
        chosen += waiting(rng, marks, np.arange(len(drawn)), count - len(chosen)).tolist()
    return chosen
