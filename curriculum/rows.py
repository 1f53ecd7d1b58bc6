"""Records in the order of their ids, and what was played since an earlier draw.

A task rule that looks at `by_id(records)` decides the same for every order of the pool, and breaks ties by id. What it
keeps in `TaskDraw.state` has one entry for each row of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from turncredit.credit.columns import Floats, Ints
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.records import TaskRecords

__all__ = ["Counts", "PlayedSince", "by_id", "counts_of", "played_since", "rows_in", "rows_of", "success_or"]


class Counts(TypedDict):
    """The columns of the records that only grow."""

    visits: Ints
    episodes: Ints
    wins: Ints
    reward: Floats
    reward2: Floats


@dataclass(frozen=True, slots=True)
class PlayedSince:
    """What was played of each task between two draws: the differences of the columns of the records."""

    visits: Ints
    episodes: Ints
    wins: Ints
    reward: Floats
    reward2: Floats

    @property
    def success(self) -> Floats:
        """Share of won episodes of each task; NaN without one."""
        return np.where(self.episodes > 0, self.wins / np.maximum(self.episodes, 1), np.nan)


def by_id(records: TaskRecords) -> TaskRecords:
    """Return the records with their rows in the order of the ids of the tasks.

    >>> by_id(TaskRecords.of(["b", "a"])).tasks
    ('a', 'b')
    """
    return rows_in(records, np.array(sorted(range(len(records.tasks)), key=records.tasks.__getitem__), dtype=np.int64))


def rows_in(records: TaskRecords, rows: Ints) -> TaskRecords:
    """Return some rows of the records, in the order in which they are named."""
    return TaskRecords(
        tasks=tuple(records.tasks[row] for row in rows),
        visits=records.visits[rows],
        last=records.last[rows],
        episodes=records.episodes[rows],
        wins=records.wins[rows],
        reward=records.reward[rows],
        reward2=records.reward2[rows],
        window=records.window[rows],
        remembered={name: column[rows] for name, column in records.remembered.items()},
    )


def counts_of(records: TaskRecords) -> Counts:
    """Return the columns that `played_since` compares later records with."""
    return {
        "visits": records.visits.copy(),
        "episodes": records.episodes.copy(),
        "wins": records.wins.copy(),
        "reward": records.reward.copy(),
        "reward2": records.reward2.copy(),
    }


def played_since(records: TaskRecords, before: Counts | None) -> PlayedSince:
    """Return what was played of each task since `counts_of` saw the records; None: since the beginning.

    Raises:
        CurriculumError: the earlier records were of another number of tasks.
    """
    counts = counts_of(records)
    if before is None:
        return PlayedSince(**counts)
    if len(before["visits"]) != len(records.tasks):
        raise CurriculumError(
            f"the task rule remembers {len(before['visits'])} tasks, but the pool has {len(records.tasks)}"
        )
    return PlayedSince(
        counts["visits"] - before["visits"],
        counts["episodes"] - before["episodes"],
        counts["wins"] - before["wins"],
        counts["reward"] - before["reward"],
        counts["reward2"] - before["reward2"],
    )


def rows_of(records: TaskRecords, tasks: Sequence[str]) -> Ints:
    """Return the row of each of some tasks.

    Raises:
        KeyError: a task is not in the pool.
    """
    rows = {task: row for row, task in enumerate(records.tasks)}
    return np.array([rows[task] for task in tasks], dtype=np.int64)


def success_or(records: TaskRecords, otherwise: float) -> Floats:
    """Return the share of won episodes at the last visit of each task, or a number for a task without one."""
    return np.where(np.isfinite(records.success), records.success, otherwise)
