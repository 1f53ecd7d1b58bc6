"""A pool of several levels: the easiest first, and the next one when it goes well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, cast

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Ints
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.picking import waiting
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, by_id, counts_of, played_since, rows_in
from turncredit.task_ids import part_of


class LevelsState(TypedDict):
    """The level, its last shares of won episodes, the records before, and the draw that last took each task."""

    level: int
    recent: list[float]
    counts: Counts
    drawn: Ints
    draws: int


class LaddersState(TypedDict):
    """The groups that each environment of a mixture got, and the state of its levels."""

    groups: dict[str, int]
    ladders: dict[str, LevelsState]


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
    weights: Mapping[str, float] | None = None,
    state: LevelsState | LaddersState | None = None,
) -> TaskDraw:
    """Return tasks of the current level, and int(mix count) of the levels below it.

    The level of a task is its id up to the first "/": "tiny/a#1" is of the level "tiny"; in a mixture it is the part of
    the task. The next level begins when the mean share of won episodes of the last `visits` visits of the level is at
    least `threshold`; at most one level is passed at a time, and none is returned to. Within a level, and within those
    below, the tasks that were drawn longest ago come first, in random order where that is equally long.

    In a mixture of several environments, some of which have levels ("household/tiny", "household/small", "search"),
    each environment goes through its own levels, and the environments share the groups by their weights.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        rng: generator of the draw.
        order: the levels, the easiest first; empty: in the order in which the pool names them.
        start: level of the first draw; empty: the easiest. The last level with `mix=0` trains on that level alone, the
            baseline of a curriculum.
        threshold: share of won episodes that ends a level, in [0, 1].
        visits: number of visits whose mean is taken; several of one task between two draws count as one.
        mix: share of the groups from levels below, in [0, 1).
        weights: weights of the parts of a mixture; None for one environment.
        state: state of the previous draw.

    Raises:
        CurriculumError: the pool has a level that `order` does not name, or the other way round, or no level `start`.

    Source: ours.
    """
    check_number("threshold", threshold, 0.0, 1.0)
    check_number("visits", visits, 1, whole=True)
    check_number("mix", mix, 0.0, float(np.nextafter(1.0, 0.0)))
    if isinstance(order, str) or not isinstance(order, Sequence) or len(set(order)) < len(order):
        raise BadOption(f"order must be a list of levels, each of them once, got {order!r}")
    parts = weights or {}
    level_by_task = {task: part_of(task, parts) or level_of(task) for task in records.tasks}
    names = _order(list(dict.fromkeys(level_by_task.values())), order)
    if start and names != [""] and start not in names:
        raise CurriculumError(f"start must be a level of the pool: {', '.join(map(repr, names))}; got {start!r}")
    pool, first = by_id(records), names.index(start) if start in names else 0
    ladders = _ladders(names if any("/" in part for part in parts) else [])
    of_level = np.array([names.index(level_by_task[task]) for task in pool.tasks], dtype=np.int64)
    rule = _Ladder(threshold, visits, mix)
    if len(ladders) < 2:
        own = cast("LevelsState | None", state)
        chosen, after = rule.draw(pool, of_level, rng, count, state=own, first=first)
        return TaskDraw(tuple(pool.tasks[row] for row in chosen), (group,) * count, state=after)
    before = cast("LaddersState | None", state) or LaddersState(groups=dict.fromkeys(ladders, 0), ladders={})
    shares = {name: sum(parts.get(level, 1.0) for level in members) for name, members in ladders.items()}
    groups, rows, states = dict(before["groups"]), list[int](), dict[str, LevelsState]()
    counts = _turns(groups, shares, count)
    for name, members in ladders.items():
        mine = np.flatnonzero(np.isin(of_level, [names.index(level) for level in members]))
        numbers = np.array([members.index(names[level]) for level in of_level[mine]], dtype=np.int64)
        own, begin = before["ladders"].get(name), members.index(start) if start in members else 0
        some, states[name] = rule.draw(rows_in(pool, mine), numbers, rng, counts[name], state=own, first=begin)
        rows += mine[some].tolist()
    played: LaddersState = {"groups": {name: groups[name] + counts[name] for name in groups}, "ladders": states}
    return TaskDraw(tuple(pool.tasks[row] for row in rows), (group,) * count, state=played)


@dataclass(frozen=True, slots=True)
class _Ladder:
    """How levels are climbed; see the arguments of `levels`."""

    threshold: float
    visits: int
    mix: float

    def draw(
        self, pool: TaskRecords, numbers: Ints, rng: Generator, count: int, *, state: LevelsState | None, first: int
    ) -> tuple[Ints, LevelsState]:
        """Return rows of the current level and of those below it, and the state after the draw.

        Args:
            pool: records in the order of their ids.
            numbers: the level of each row, from 0.
            rng: generator of the draw.
            count: number of groups.
            state: state of the previous draw.
            first: level of the first draw.
        """
        played = played_since(pool, None if state is None else state["counts"])
        level, recent = (first, []) if state is None else (state["level"], state["recent"])
        fresh = played.success[(numbers == level) & (played.episodes > 0)].tolist()
        recent = [*recent, *fresh][-max(self.visits, len(fresh)) :]
        passed = len(recent) >= self.visits and np.mean(recent) >= self.threshold - 1e-9
        if passed and level < numbers.max():
            level, recent = level + 1, []
        drawn = np.zeros(len(pool.tasks), dtype=np.int64) if state is None else state["drawn"].copy()
        draws = 1 if state is None else state["draws"] + 1
        below = int(self.mix * count) if level else 0
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
        return chosen, after


def _ladders(levels: Sequence[str]) -> dict[str, list[str]]:
    """Return the levels of each environment of a mixture, by the first word of their names."""
    ladders: dict[str, list[str]] = {}
    for level in levels:
        ladders.setdefault(level.partition("/")[0], []).append(level)
    return ladders


def _turns(groups: Mapping[str, int], shares: Mapping[str, float], count: int) -> dict[str, int]:
    """Return how many of the next groups each environment gets, so that all of them are shared by the weights."""
    total, counts = sum(shares.values()), dict.fromkeys(shares, 0)
    for turn in range(sum(groups.values()) + 1, sum(groups.values()) + count + 1):
        due = max(shares, key=lambda name: shares[name] / total * turn - groups[name] - counts[name])
        counts[due] += 1
    return counts


def level_of(task: str) -> str:
    """Return the level of a task, empty for an id without one.

    >>> level_of("tiny/a#1"), level_of("a#1")
    ('tiny', '')
    """
    level, slash, _ = task.partition("/")
    return level if slash else ""


def _order(names: Sequence[str], order: Sequence[str]) -> list[str]:
    if order and names != [""] and set(order) != set(names):
        raise CurriculumError(
            f"the levels of the pool are {', '.join(map(repr, names))}; got the order {list(order)!r}"
        )
    return list(order) if order and names != [""] else list(names)
