"""Where the tasks of the shell environment come from: the generator, or Harbor task folders."""

from __future__ import annotations

import os
from typing import Final, Protocol

import numpy as np

from turncredit.envs.bash.generator import SPLITS, BashLevel, generate, task_ids
from turncredit.envs.bash.harbor import HarborTask, HarborTasks
from turncredit.envs.bash.task import BashTask
from turncredit.envs.errors import UnknownOption
from turncredit.envs.validation import choice

__all__ = ["BashTaskSource", "GeneratedBashTasks", "ShellTask", "task_source"]

ShellTask = BashTask | HarborTask

_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6  # random generated tasks have numbers below this


class BashTaskSource(Protocol):
    """Tasks by id."""

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments that must be equal where a snapshot is restored."""
        ...

    def ids(self, count: int | None) -> list[str]:
        """Return the first `count` ids; all of them (at most 1,000 generated ones) for None."""
        ...

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        ...

    def get(self, id: str) -> ShellTask:
        """Return the task with an id."""
        ...


class GeneratedBashTasks:
    """Generated tasks of one split and level."""

    def __init__(self, level: str | BashLevel, split: str) -> None:
        self.level = BashLevel.of(level)
        self.split = choice("split", split, SPLITS)

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments that must be equal where a snapshot is restored."""
        return {"split": self.split, "level": self.level.text}

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids; 1,000 for None."""
        return task_ids(self.split, self.level, _DEFAULT_COUNT if count is None else count)

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        return task_ids(self.split, self.level, 1, int(rng.integers(_DRAWN_FROM)))[0]

    def get(self, id: str) -> BashTask:
        """Return the task with an id, which may be of another split or level."""
        return generate(id)


def task_source(
    tasks: str | os.PathLike[str] | None, sandbox: str, level: str | BashLevel, split: str | None, *, network: bool
) -> BashTaskSource:
    """Return the tasks in a folder, or the generated ones.

    Args:
        tasks: Harbor task folder, or a folder of them; None for generated tasks.
        sandbox: where Harbor tasks run.
        level, split: of generated tasks.
        network: whether their sandbox has a network.

    Raises:
        EnvError: they cannot be read, or an argument is invalid.
    """
    if tasks is None:
        return GeneratedBashTasks(level, split or "train")
    if split is not None:
        raise UnknownOption(f"split is for generated tasks: Harbor folders have no splits, got {split!r}")
    return HarborTasks(tasks, sandbox, network=network)
