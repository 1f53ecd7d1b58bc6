"""Harbor tasks by id: those of a task folder, or of a folder of task folders."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Final

import numpy as np

from turncredit.envs.bash.harbor.settings import HarborSettings, read_settings
from turncredit.envs.bash.harbor.task import HarborTask, prepare_task
from turncredit.envs.errors import EnvError, GameFileError, NoGames, SkippedGames, UnknownOption, UnknownTask

__all__ = ["HarborTasks"]

_CHOICES: Final = "choose sandbox='docker' for their images, or sandbox='bwrap' for this machine's own programs"


class HarborTasks:
    """Tasks in a folder, in the order of the folders' names. Tasks that cannot be played are left out with a warning.

    Args:
        path: a task folder, or a folder of them.
        sandbox: "docker" plays a task in its image, which is built if need be; "bwrap" plays a task whose Dockerfile
            only copies files on this machine's own programs, from any image it begins with.
        network: whether the sandbox has a network.

    Raises:
        NoGames: there are no tasks, or none that can be played.
        UnknownOption: the sandbox is neither.
    """

    def __init__(self, path: str | os.PathLike[str], sandbox: str, *, network: bool = False) -> None:
        if not isinstance(path, str | os.PathLike):
            raise UnknownOption(f"tasks must be a path or None, got {path!r}")
        if sandbox not in ("docker", "bwrap"):
            raise UnknownOption(
                f"Harbor tasks name images, so sandbox={sandbox!r} does not say where to run: {_CHOICES}"
            )
        self.where, self.sandbox = f"{path}", sandbox
        self.settings = _read(Path(path), network)
        self._prepared: dict[str, HarborTask] = {}

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids; all for None."""
        return list(self.settings)[:count]

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        return self.ids(None)[int(rng.integers(len(self.settings)))]

    def get(self, id: str) -> HarborTask:
        """Return the task with an id, ready to be played."""
        if id not in self.settings:
            raise UnknownTask.of(id, self.settings, self.where)
        if id not in self._prepared:
            self._prepared[id] = prepare_task(self.settings[id], self.sandbox)
        return self._prepared[id]

    @property
    def arguments(self) -> dict[str, object]:
        """Arguments that must be equal where a snapshot is restored."""
        return {"tasks": self.ids(None), "sandbox": self.sandbox}


def _read(path: Path, network: bool) -> dict[str, HarborSettings]:
    if (path / "task.toml").is_file():
        settings = read_settings(path, network=network)
        return {settings.name: settings}
    folders = sorted(file.parent for file in path.glob("*/task.toml"))
    if not folders:
        raise NoGames(
            f"no Harbor tasks at {path}: a task is a folder with task.toml, instruction.md, environment/, tests/"
        )
    tasks: dict[str, HarborSettings] = {}
    problems: list[GameFileError] = []
    for folder in folders:
        try:
            settings = read_settings(folder, network=network)
        except GameFileError as error:
            problems.append(error)
            continue
        if settings.name in tasks:
            raise EnvError(f"two tasks are named {settings.name!r}: {tasks[settings.name].folder} and {folder}")
        tasks[settings.name] = settings
    if problems and not tasks:
        raise NoGames(f"none of the {len(folders)} tasks in {path} can be played; the first: {problems[0]}")
    if problems:
        left_out = f"{len(problems)} of {len(folders)} tasks are left out; the first: {problems[0]}"
        warnings.warn(SkippedGames(f"{path}: {left_out}"), stacklevel=5)
    return tasks
