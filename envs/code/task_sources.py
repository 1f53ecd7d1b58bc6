"""Where an environment's tasks come from: the generator, or files."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

from turnwise.envs.code.generator import SPLITS, CodeLevel, generate, task_ids
from turnwise.envs.code.task import CodeTask, digest
from turnwise.envs.code.task_files import read_tasks
from turnwise.envs.errors import NoGames, UnknownOption, UnknownTask
from turnwise.registry import suggest

__all__ = ["CodeTaskSource", "FileCodeTasks", "GeneratedCodeTasks"]

_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6  # generated tasks are drawn from the first so many indices


class CodeTaskSource(Protocol):
    """Tasks by id."""

    skipped: int
    made: dict[str, Any]  # what has to be the same where a snapshot is restored

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids."""
        ...

    def draw(self, rng: Any) -> str:
        """Return an id by chance."""
        ...

    def get(self, id: str) -> CodeTask:
        """Return a task."""
        ...


class GeneratedCodeTasks:
    """Tasks made from their ids."""

    skipped = 0

    def __init__(self, level: str | CodeLevel, split: str) -> None:
        if split not in SPLITS:
            raise UnknownOption(f"unknown split {split!r} of generated code tasks{suggest(split, SPLITS)}")
        self.level = CodeLevel.of(level)
        self.split = split
        self.made: dict[str, Any] = {"tasks": "generated", "split": split, "level": self.level.text}

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids; None: the first 1,000."""
        return task_ids(self.split, self.level, _DEFAULT_COUNT if count is None else count)

    def draw(self, rng: Any) -> str:
        """Return an id by chance."""
        return task_ids(self.split, self.level, 1, int(rng.integers(_DRAWN_FROM)))[0]

    def get(self, id: str) -> CodeTask:
        """Return a task; one of another split or level can be named too."""
        return generate(id)


class FileCodeTasks:
    """Tasks of a file or a folder."""

    def __init__(self, path: str | os.PathLike[str], split: str, strict: bool) -> None:
        if not isinstance(path, str | os.PathLike):
            raise UnknownOption(f"tasks is {path!r}; it is None, or the path of a file or folder")
        tasks, self.skipped = _read(Path(path), strict)
        splits = ["all", *dict.fromkeys(task.split for task in tasks if task.split)]
        if split not in splits:
            raise UnknownOption(f"unknown split {split!r} in {path}{suggest(split, splits)}")
        self.where = f"{path}"
        self.tasks = {task.id: task for task in tasks if split in ("all", task.split)}
        if not self.tasks:
            raise NoGames(f"no tasks in {path}")
        self.made: dict[str, Any] = {"tasks": digest({}, *self.tasks), "split": split}

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids; None: all."""
        return list(self.tasks)[:count]

    def draw(self, rng: Any) -> str:
        """Return an id by chance."""
        return self.ids(None)[int(rng.integers(len(self.tasks)))]

    def get(self, id: str) -> CodeTask:
        """Return a task."""
        if id not in self.tasks:
            raise UnknownTask.of(id, self.tasks, self.where)
        return self.tasks[id]


def _read(path: Path, strict: bool) -> tuple[list[CodeTask], int]:
    """Return the tasks of a file, read once as long as it does not change, or of a folder."""
    if not path.is_file():
        return read_tasks(path, strict=strict)
    about = path.stat()
    return _known(path, strict, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=8)
def _known(path: Path, strict: bool, size: int, changed: int) -> tuple[list[CodeTask], int]:
    return read_tasks(path, strict=strict)
