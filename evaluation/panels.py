"""Panels: ids of task instances in a fixed order, so that two evaluations see the same tasks."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from turnwise.agents.errors import EvaluationError
from turnwise.agents.files.json_files import read_json, validated, write_json
from turnwise.envs import make as make_env

VERSION = 1
"""Version of the files of panels and of results."""
Environment = gymnasium.Env[Any, Any]


@dataclass(frozen=True)
class Panel:
    """Ids of task instances in a fixed order, and their environment."""

    env: str
    """Gymnasium id."""
    tasks: tuple[str, ...]
    kwargs: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the environment."""
    seed: int = 0
    """Seed of every reset."""

    def __post_init__(self) -> None:
        """Refuse an empty panel, and one whose tasks could not be paired."""
        if not self.tasks:
            raise EvaluationError("the panel has no tasks")
        task, times = Counter(self.tasks).most_common(1)[0]
        if times > 1:
            raise EvaluationError(f"the panel has the task {task!r} twice, so results could not be paired")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the panel as JSON.

        Raises:
            EvaluationError: the path is a folder or a device.
            OSError: the file cannot be written.
        """
        write_json(Path(path), {"version": VERSION, "panel": panel_json(self)})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Panel:
        """Return the panel of a file.

        Raises:
            EvaluationError: the file is not a panel.
            OSError: the file cannot be read.
        """
        return validated(cls, read_json(Path(path), "a panel", "panel", VERSION)["panel"], f"{path} is not a panel")


def draw(tasks: Sequence[str], count: int, seed: int) -> tuple[str, ...]:
    """Return a random sample without replacement, in the order of `tasks`; all tasks if there are no more than `count`.

    The first tasks would not do, since files list tasks by type.

    >>> draw("abcdef", 3, seed=0)
    ('a', 'd', 'f')

    Args:
        tasks: ids.
        count: size of the sample.
        seed: seed of the sample.
    """
    chosen = random.Random(seed).sample(range(len(tasks)), min(count, len(tasks)))
    return tuple(tasks[index] for index in sorted(chosen))


def draw_tasks(env: Environment, count: int, seed: int) -> tuple[str, ...]:
    """Return a random sample of the tasks that an environment lists (see `draw`).

    An environment that generates tasks lists some of them, and is asked for more if those do not suffice.

    Args:
        env: has `task_ids`.
        count: size of the sample.
        seed: seed of the sample.

    Raises:
        EvaluationError: the environment does not list its tasks.
    """
    listing = getattr(env.unwrapped, "task_ids", None)
    if listing is None:
        raise EvaluationError(f"{env.spec.id if env.spec else env} does not list its tasks: it has no task_ids()")
    tasks = listing()
    return draw(tasks if len(tasks) >= count else listing(count), count, seed)


def make_panel(env_id: str, kwargs: Mapping[str, object], episodes: int, seed: int = 0) -> Panel:
    """Return the panel of an environment, which depends on the arguments alone.

    Args:
        env_id: Gymnasium id.
        kwargs: arguments of the environment.
        episodes: number of tasks; if there are fewer, all of them.
        seed: seed of the sample and of every reset.

    Raises:
        EvaluationError: the environment does not list its tasks, or has none.
        EnvError: the environment cannot be made.
    """
    env = make_env(env_id, **kwargs)
    try:
        return Panel(env_id, draw_tasks(env, episodes, seed), dict(kwargs), seed)
    finally:
        env.close()


def panel_json(panel: Panel) -> dict[str, object]:
    """Return a panel as JSON-compatible values."""
    return {"env": panel.env, "kwargs": dict(panel.kwargs), "seed": panel.seed, "tasks": list(panel.tasks)}
