"""The tasks of an OpenEnv server: arguments of its reset, from the user, from its task API, or seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from turncredit.envs.errors import EnvError, UnknownOption, UnknownTask
from turncredit.envs.openenv.connection import OpenEnvConnection

__all__ = ["ServerTasks"]

_SEEDS: Final = "seed"
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6
_MOST: Final = 2**31


class ServerTasks:
    """Task ids, and the arguments of the server's reset that each stands for.

    The id of a table {"task": id} is this id, which a server of turncredit understands; that of another table is
    "reset/" and its number. Without tables, "seed/7" resets the server with the seed 7.

    Args:
        connection: to the server, which is asked for its tasks when they are first needed.
        tables: arguments of reset; None: those of the server's task API, or seeds.
        split: of the task API; None: its first.

    Raises:
        UnknownOption: `tables` is no list of tables.
    """

    def __init__(
        self, connection: OpenEnvConnection, tables: Sequence[Mapping[str, object]] | None, split: str | None
    ) -> None:
        sequence = isinstance(tables, Sequence) and not isinstance(tables, str)
        if tables is not None and not (sequence and tables and all(isinstance(table, Mapping) for table in tables)):
            raise UnknownOption(f"tasks must be a list of tables with arguments of reset, got {tables!r:.120}")
        self._connection, self._split = connection, split
        self._tables = None if tables is None else _by_id(tables)

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the first `count` tasks; of all for None, or of the first 1,000 seeds."""
        if tables := self._listed():
            return list(tables)[:count]
        return [f"{_SEEDS}/{number}" for number in range(_DEFAULT_COUNT if count is None else count)]

    def draw(self, random: np.random.Generator) -> str:
        """Return the id of a random task."""
        if tables := self._listed():
            return list(tables)[int(random.integers(len(tables)))]
        return f"{_SEEDS}/{int(random.integers(_DRAWN_FROM))}"

    def arguments(self, task: str) -> dict[str, object]:
        """Return the arguments of reset for a task.

        Raises:
            UnknownTask: there is no such task.
        """
        tables = self._listed()
        if task in tables:
            return dict(tables[task])
        kind, _, number = task.partition("/")
        if not tables and kind == _SEEDS and number.isdecimal() and int(number) < _MOST:
            return {"seed": int(number)}
        if tables:
            raise UnknownTask.of(task, tables, "the tasks of this server")
        raise UnknownTask(f"unknown task {task!r}; this server lists no tasks, so ids look like 'seed/0'")

    def _listed(self) -> Mapping[str, Mapping[str, object]]:
        """Return the tables by id; {} if there are only seeds."""
        if self._tables is None:
            self._tables = _by_id(self._of_server())
        return self._tables

    def _of_server(self) -> list[Mapping[str, object]]:
        """Return the tasks that the server's task API lists; [] if it has none."""
        names = self._connection.fetch("list_environments")
        if not isinstance(names, list) or not names or not isinstance(names[0], str):
            return []
        splits = self._connection.fetch(f"{names[0]}/splits")
        if not isinstance(splits, list) or not splits:
            return []
        names_of_splits = [str(split.get("name")) if isinstance(split, Mapping) else str(split) for split in splits]
        split = names_of_splits[0] if self._split is None else self._split
        if split not in names_of_splits:
            raise UnknownOption(f"the server has no split {split!r}; choose from {', '.join(names_of_splits)}")
        answer = self._connection.fetch(f"{names[0]}/tasks", {"split": split})
        tasks = answer.get("tasks") if isinstance(answer, Mapping) else None
        if not isinstance(tasks, list):
            raise EnvError(f"the server listed the tasks of {split} as {answer!r:.120}")
        return [task if isinstance(task, Mapping) else {"task": task} for task in tasks]


def _by_id(tables: Sequence[Mapping[str, object]]) -> dict[str, Mapping[str, object]]:
    return {_id(number, table): table for number, table in enumerate(tables)}


def _id(number: int, table: Mapping[str, object]) -> str:
    task = table.get("task")
    return task if isinstance(task, str) and set(table) == {"task"} else f"reset/{number:06d}"
