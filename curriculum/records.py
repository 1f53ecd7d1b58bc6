"""What a run knows of each task: how often it was drawn, and how its episodes ended.

Records change once an iteration, when it is trained on: `TaskRecords.after` returns the records with its groups added,
in the order of the groups, and leaves the earlier ones as they are. Groups that were dropped are evidence like others.
Episodes that failed are not counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from turncredit.credit.columns import Floats, Ints
from turncredit.curriculum.errors import BadState
from turncredit.curriculum.states import State

__all__ = ["WINDOW", "TaskRecords", "Visit"]

WINDOW = 8
"""Visits whose shares of won episodes are kept for each task."""

_COUNTS = ("visits", "last", "episodes", "wins")
_SUMS = ("reward", "reward2")


@dataclass(frozen=True, slots=True)
class Visit:
    """A group that was played."""

    task: str
    rewards: tuple[float, ...]
    """Sum of the rewards of each episode that finished."""
    wins: int
    """Number of them that won."""
    remember: Mapping[str, float] = field(default_factory=dict)
    """What a group rule wrote into the task's record."""


@dataclass(frozen=True, slots=True)
class TaskRecords:
    """One row for each task, in the order of the tasks.

    Attributes:
        tasks: ids of all tasks that may be drawn.
        visits: int64, groups that were played.
        last: int64, iteration of the last of them; -1 for none.
        episodes: int64, episodes that finished.
        wins: int64, those of them that won.
        reward: float64, sum of their rewards.
        reward2: float64, sum of the squares of these.
        window: float64 [tasks, WINDOW], shares of won episodes of the last visits, the newest first; NaN before.
        remembered: float64 columns that group rules and iterations wrote; NaN where nothing was written.
    """

    tasks: tuple[str, ...]
    visits: Ints
    last: Ints
    episodes: Ints
    wins: Ints
    reward: Floats
    reward2: Floats
    window: Floats
    remembered: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Iterable[str]) -> Self:
        """Return the records of tasks that were never drawn."""
        names = tuple(tasks)
        n = len(names)
        zeros = [np.zeros(n, dtype=np.int64) for _ in range(3)]
        last, window = np.full(n, -1, dtype=np.int64), np.full((n, WINDOW), np.nan)
        return cls(names, zeros[0], last, zeros[1], zeros[2], np.zeros(n), np.zeros(n), window)

    @property
    def success(self) -> Floats:
        """Share of won episodes at the last visit of each task; NaN for a task that was never drawn."""
        return self.window[:, 0]

    @property
    def mean_reward(self) -> Floats:
        """Mean reward of all episodes of each task; NaN without one."""
        return np.where(self.episodes > 0, self.reward / np.maximum(self.episodes, 1), np.nan)

    def column(self, name: str) -> Floats:
        """Return what was remembered under a name; NaN where nothing was."""
        return self.remembered.get(name, np.full(len(self.tasks), np.nan))

    def of_task(self, task: str) -> dict[str, float]:
        """Return the record of one task by name; "success" and what was remembered are absent before the first visit.

        >>> TaskRecords.of(["a"]).after([Visit("a", (1.0, 0.0), 1, {"hint": 0.5})], 3).of_task("a")
        {'visits': 1, 'last': 3, 'episodes': 2, 'wins': 1, 'reward': 1.0, 'reward2': 1.0, 'success': 0.5, 'hint': 0.5}
        """
        row = self.tasks.index(task)
        record = {name: getattr(self, name)[row].item() for name in (*_COUNTS, *_SUMS)}
        columns = {"success": self.success, **self.remembered}
        return record | {name: column[row].item() for name, column in columns.items() if np.isfinite(column[row])}

    def after(self, visits: Sequence[Visit], iteration: int) -> TaskRecords:
        """Return the records with the groups of an iteration added.

        Args:
            visits: the groups, in their order.
            iteration: number of finished iterations before it.
        """
        rows = {task: row for row, task in enumerate(self.tasks)}
        columns: State = {name: getattr(self, name).copy() for name in (*_COUNTS, *_SUMS, "window")}
        remembered = {name: column.copy() for name, column in self.remembered.items()}
        for visit in visits:
            row, n = rows[visit.task], len(visit.rewards)
            for name, value in visit.remember.items():
                remembered.setdefault(name, np.full(len(self.tasks), np.nan))[row] = value
            columns["visits"][row] += 1
            columns["last"][row] = iteration
            columns["episodes"][row] += n
            columns["wins"][row] += visit.wins
            columns["reward"][row] += sum(visit.rewards)
            columns["reward2"][row] += sum(value * value for value in visit.rewards)
            if n:
                columns["window"][row] = np.r_[visit.wins / n, columns["window"][row, :-1]]
        return TaskRecords(self.tasks, **columns, remembered=remembered)

    def noted(self, columns: Mapping[str, Mapping[str, float]]) -> TaskRecords:
        """Return the records with some numbers remembered.

        Args:
            columns: for each name, the numbers of tasks.
        """
        rows, remembered = {task: row for row, task in enumerate(self.tasks)}, dict(self.remembered)
        for name, numbers in columns.items():
            remembered[name] = self.column(name).copy()
            for task, number in numbers.items():
                remembered[name][rows[task]] = number
        return replace(self, remembered=remembered)

    def state(self) -> State:
        """Return the rows of the tasks that were visited: arrays, which the reader of a checkpoint must give back."""
        rows = np.flatnonzero(self.visits)
        columns = {name: getattr(self, name)[rows] for name in (*_COUNTS, *_SUMS, "window")}
        remembered = {name: column[rows] for name, column in self.remembered.items()}
        return {"tasks": _digest(self.tasks), "rows": rows, "columns": columns, "remembered": remembered}

    @classmethod
    def from_state(cls, state: State, tasks: Sequence[str]) -> Self:
        """Return the records that `state` was taken of.

        Raises:
            BadState: they are of other tasks.
        """
        if state["tasks"] != _digest(tasks):
            raise BadState(f"the checkpoint has records of other tasks than the {len(tasks)} of this run")
        records, rows = cls.of(tasks), state["rows"]
        for name, column in state["columns"].items():
            getattr(records, name)[rows] = column
        remembered = {name: np.full(len(tasks), np.nan) for name in state["remembered"]}
        for name, column in state["remembered"].items():
            remembered[name][rows] = column
        return replace(records, remembered=remembered)


def _digest(tasks: Sequence[str]) -> str:
    """Return what differs where tasks or their order do."""
    digest = hashlib.blake2b(digest_size=16)
    for task in tasks:
        digest.update(f"{len(task)}:{task}".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
