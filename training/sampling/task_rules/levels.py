"""A pool of several levels: the easiest first, and the next one when it goes well."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Ints
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.training.errors import TrainingError
from turncredit.training.sampling.draws import TaskDraw
from turncredit.training.sampling.picking import waiting
from turncredit.training.sampling.records import TaskRecords
from turncredit.training.sampling.rows import Counts, by_id, counts_of, played_since


class LevelsState(TypedDict):
    """The level, its last shares of won episodes, the records before, and the draw that last took each task."""

    level: int
    recent: list[float]
    counts: Counts
    drawn: Ints
    draws: int


def levels(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    rng: Generator,
    order: Sequence[str] = (),
    start: str = "",
    threshold: float = 0.7,
    visits: int = 16,
    mix: float = 0.2,
    state: LevelsState | None = None,
) -> TaskDraw:
    """Return tasks of the current level, and int(mix count) of the levels below it.

    The level of a task is its id up to the first "/": "tiny/a#1" is of the level "tiny". The next level begins when the
    mean share of won episodes of the last `visits` visits of the level is at least `threshold`; at most one level is
    passed at a time, and none is returned to. Within a level, and within those below, the tasks that were drawn longest
    ago come first, in random order where that is equally long.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        rng: of the draw.
        order: the levels, the easiest first; empty: in the order in which the pool names them.
        start: level of the first draw; empty: the easiest. The last level with `mix=0` trains on that level alone, the
            baseline of a curriculum.
        threshold: share of won episodes that ends a level, in [0, 1].
        visits: number of visits whose mean is taken; several of one task between two draws count as one.
        mix: share of the groups from levels below, in [0, 1).
        state: of the previous draw.

    Raises:
        TrainingError: the pool has a level that `order` does not name, or the other way round; it has no level `start`.

    Source: ours.
    """
    check_number("threshold", threshold, 0.0, 1.0)
    check_number("visits", visits, 1, whole=True)
    check_number("mix", mix, 0.0, float(np.nextafter(1.0, 0.0)))
    if isinstance(order, str) or not isinstance(order, Sequence) or len(set(order)) < len(order):
        raise BadOption(f"order must be a list of levels, each of them once, got {order!r}")
    pool = by_id(records)
    names = _order(records.tasks, order)
    if start and names != [""] and start not in names:
        raise TrainingError(f"start must be a level of the pool: {', '.join(map(repr, names))}; got {start!r}")
    numbers = _numbers(pool.tasks, names)
    played = played_since(pool, None if state is None else state["counts"])
    first = names.index(start) if start in names else 0
    level, recent = (first, []) if state is None else (state["level"], state["recent"])
    fresh = played.success[(numbers == level) & (played.episodes > 0)].tolist()
    recent = [*recent, *fresh][-max(visits, len(fresh)) :]
    if len(recent) >= visits and np.mean(recent) >= threshold - 1e-9 and level < numbers.max():
        level, recent = level + 1, []
    drawn = np.zeros(len(pool.tasks), dtype=np.int64) if state is None else state["drawn"].copy()
    draws = 1 if state is None else state["draws"] + 1
    below = int(mix * count) if level else 0
    chosen = waiting(rng, drawn, np.flatnonzero(numbers == level), count - below)
    if below:
        chosen = np.concatenate([chosen, waiting(rng, drawn, np.flatnonzero(numbers < level), below)])
    drawn[chosen] = draws
    after: LevelsState = {
        "level": level,
        "recent": recent,
        "counts": counts_of(pool),
        "drawn": drawn,
        "draws": draws,
    }
    return TaskDraw(tuple(pool.tasks[row] for row in chosen), (group,) * count, state=after)


def level_of(task: str) -> str:
    """Return the level of a task, empty for an id without one.

    >>> level_of("tiny/a#1"), level_of("a#1")
    ('tiny', '')
    """
    level, slash, _ = task.partition("/")
    return level if slash else ""


def _order(tasks: Sequence[str], order: Sequence[str]) -> list[str]:
    names = list(dict.fromkeys(map(level_of, tasks)))
    if order and names != [""] and set(order) != set(names):
        raise TrainingError(f"the levels of the pool are {', '.join(map(repr, names))}; got the order {list(order)!r}")
    return list(order) if order and names != [""] else names


def _numbers(tasks: Sequence[str], order: Sequence[str]) -> Ints:
    return np.array([order.index(level_of(task)) for task in tasks], dtype=np.int64)
