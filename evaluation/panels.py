"""Panels: ids of task instances in a fixed order, so that two evaluations see the same tasks."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium

from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.json_files import read_json, validated, write_json
from turncredit.envs import make as make_env
from turncredit.envs.mixture import Mixture
from turncredit.envs.parts import part_names, parts_in
from turncredit.former_name import current_name
from turncredit.task_ids import part_of

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

    def parts(self) -> tuple[str, ...]:
        """Return the names of the parts that its tasks belong to; () if its environment is no mixture."""
        return parts_in(self.tasks, part_names(self.env, self.kwargs))

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


def draw_by_part(tasks: Sequence[str], count: int, seed: int, parts: Sequence[str]) -> tuple[str, ...]:
    """Return a random sample as `draw` does, with the same number of tasks from each part of a mixture.

    >>> draw_by_part(["x/1", "x/2", "x/3", "x/4", "y/1", "y/2"], 4, seed=0, parts=["x", "y"])
    ('x/2', 'x/4', 'y/1', 'y/2')

    Args:
        tasks: ids.
        count: size of the sample.
        seed: seed of the sample.
        parts: names of the parts; empty for one environment.
    """
    if not parts:
        return draw(tasks, count, seed)
    lists = {name: [task for task in tasks if part_of(task, parts) == name] for name in parts}
    return _from_each({name: len(listed) for name, listed in lists.items()}, count,
                      lambda name, share: draw(lists[name], share, seed))  # fmt: skip


def _from_each(
    sizes: Mapping[str, int], count: int, draw_from: Callable[[str, int], tuple[str, ...]]
) -> tuple[str, ...]:
    """Return samples of all parts, of equal sizes as far as the parts have so many tasks.

    Args:
        sizes: number of tasks that each part lists.
        count: size of all samples together.
        draw_from: returns a sample of a part, given its name and a size.
    """
    drawn: dict[str, tuple[str, ...]] = {}
    for name in sorted(sizes, key=sizes.__getitem__):  # what a small one lacks, larger ones have
        share = -(-(count - sum(map(len, drawn.values()))) // (len(sizes) - len(drawn)))
        drawn[name] = draw_from(name, share)
    return tuple(task for name in sizes for task in drawn[name])


def draw_tasks(env: Environment, count: int, seed: int) -> tuple[str, ...]:
    """Return a random sample of the tasks that an environment lists (see `draw`).

    An environment that generates tasks lists some of them, and is asked for more if those do not suffice. Of a mixture,
    the parts have equal shares, each a sample of its own.

    Args:
        env: has `task_ids`.
        count: size of the sample.
        seed: seed of the sample.

    Raises:
        EvaluationError: the environment does not list its tasks.
    """
    core = env.unwrapped
    if isinstance(core, Mixture):
        envs = {name: core.part(name) for name in core.parts}
        sizes = {name: len(core.list_part(name)) for name in envs}
        return _from_each(
            sizes, count, lambda name, share: tuple(f"{name}/{task}" for task in draw_tasks(envs[name], share, seed))
        )
    listing = getattr(core, "task_ids", None)
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
        return Panel(current_name(env_id), draw_tasks(env, episodes, seed), dict(kwargs), seed)
    finally:
        env.close()


def panel_json(panel: Panel) -> dict[str, object]:
    """Return a panel as JSON-compatible values."""
    return {"env": panel.env, "kwargs": dict(panel.kwargs), "seed": panel.seed, "tasks": list(panel.tasks)}
