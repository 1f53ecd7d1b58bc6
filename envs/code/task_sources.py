"""Where the tasks of a code environment come from: the generator, or files."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from turncredit.envs.code.generator import SPLITS, CodeLevel, generate, task_ids
from turncredit.envs.code.task import CodeTask, digest
from turncredit.envs.code.task_files import read_tasks
from turncredit.envs.errors import NoGames, UnknownOption, UnknownTask
from turncredit.envs.validation import choice
from turncredit.registry import suggest

__all__ = ["CodeTaskSource", "FileCodeTasks", "GeneratedCodeTasks"]

_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6  # random generated tasks have numbers below this


class CodeTaskSource(Protocol):
    """Tasks by id."""

    skipped: int
    made: dict[str, Any]  # must be equal where a snapshot is restored

    def ids(self, count: int | None) -> list[str]:
        """Return the first `count` ids; all of them (at most 1,000 generated ones) for None."""
        ...

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        ...

    def get(self, id: str) -> CodeTask:
        """Return the task with an id."""
        ...


class GeneratedCodeTasks:
    """Generated tasks of one split and level."""

    skipped = 0

    def __init__(self, level: str | CodeLevel, split: str) -> None:
        self.level = CodeLevel.of(level)
        self.split = choice("split", split, SPLITS)
        self.made: dict[str, Any] = {"tasks": "generated", "split": split, "level": self.level.text}

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids; 1,000 for None."""
        return task_ids(self.split, self.level, _DEFAULT_COUNT if count is None else count)

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        return task_ids(self.split, self.level, 1, int(rng.integers(_DRAWN_FROM)))[0]

    def get(self, id: str) -> CodeTask:
        """Return the task with an id, which may be of another split or level."""
        return generate(id)


class FileCodeTasks:
    """Tasks in a file or folder."""

    def __init__(self, path: str | os.PathLike[str], split: str, strict: bool) -> None:
        if not isinstance(path, str | os.PathLike):
            raise UnknownOption(f"tasks must be a path or None, got {path!r}")
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
        """Return the first ids; all for None."""
        return list(self.tasks)[:count]

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        return self.ids(None)[int(rng.integers(len(self.tasks)))]

    def get(self, id: str) -> CodeTask:
        """Return the task with an id."""
        if id not in self.tasks:
            raise UnknownTask.of(id, self.tasks, self.where)
        return self.tasks[id]


def _read(path: Path, strict: bool) -> tuple[list[CodeTask], int]:
    """Return the tasks in a folder, or in a file, which is read again only if it has changed."""
    if not path.is_file():
        return read_tasks(path, strict=strict)
    about = path.stat()
    return _known(path, strict, about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=8)
def _known(path: Path, strict: bool, size: int, changed: int) -> tuple[list[CodeTask], int]:
    return read_tasks(path, strict=strict)
