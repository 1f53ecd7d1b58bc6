"""Base classes for text environments whose tasks have ids.

`TextEnv` implements the parts of `gymnasium.Env` that all such environments share. A subclass implements:

    list_tasks(count)          ids of the tasks
    start_task(task, options)  start a task, return its first observation
    take_action(action)        apply an action, return (observation, reward, valid)
    is_over()                  whether the episode has ended
    get_info(valid)            the `info` dictionary (keys: `turncredit.envs.info`)
    draw_task()                optional: draw the id of a random task; by default all are equally likely

`SavableEnv` adds `snapshot` and `restore`; a subclass also implements `snapshot_arguments`, `save_episode` and
`load_episode`.

Turn limits are left to Gymnasium (`max_episode_steps`), so these classes never truncate.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium

from turncredit.envs.errors import BadSnapshot, NotReset, StepAfterEnd, UnknownOption, UnknownTask
from turncredit.envs.info import ResetOptions
from turncredit.envs.snapshot import Fields, pack, random_from, random_state, unpack
from turncredit.envs.spaces import Text
from turncredit.envs.validation import choice, integer

__all__ = ["SavableEnv", "TextEnv"]

_OVER_AT_START = "the episode was over when it began: is_over() returned True after start_task()"


class TextEnv(gymnasium.Env[str, str], ABC):
    """Base class of a text environment whose tasks have ids.

    Args:
        render_mode: None, or one of those in `metadata`.

    Raises:
        UnknownOption: `render_mode` is not supported.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's attribute)
    RESET_OPTIONS: ClassVar[tuple[str, ...]] = ("task",)
    """Keys that the `options` of `reset` may have."""
    EXAMPLE_ACTION: ClassVar[str] = "look"
    """A valid action, shown in error messages."""

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode is not None:
            choice("render_mode", render_mode, self.metadata["render_modes"])
        self.observation_space = Text()
        self.action_space = Text()
        self.render_mode = render_mode
        self.task_id: str | None = None
        """Id of the current task; None before the first reset."""
        self.last_exchange: tuple[str, Any] = ("", "")
        """The last action and the observation that followed it; the action is "" after a reset."""
        self._stepped = False

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the tasks in this split, in a fixed order.

        Args:
            count: return only the first `count`. None returns all of them, or the first 1,000 where tasks are generated
                without end.

        Raises:
            UnknownOption: `count` is negative or not an integer.
        """
        return self.list_tasks(None if count is None else integer("count", count))

    def reset(self, *, seed: int | None = None, options: ResetOptions | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds the choice of a task, if `options` names none, and everything else that is random.
            options: {"task": id} plays that task.

        Returns:
            The first observation and `info` (keys: `turncredit.envs.info`).

        Raises:
            UnknownTask: there is no task with this id.
            UnknownOption: `options` has other keys than `RESET_OPTIONS`.
        """
        super().reset(seed=seed)
        if options is not None and not isinstance(options, Mapping):
            raise UnknownOption(f"reset options must be a mapping such as {{'task': id}}, got {options!r}")
        settings = dict(options or {})
        for key in settings:
            choice("reset option", key, self.RESET_OPTIONS)
        task = self.choose_task(settings)
        observation = self.start_task(task, settings)
        self.task_id, self.last_exchange = task, ("", observation)
        self._stepped = False
        return observation, dict(self.get_info(True))

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Apply an action. An invalid action changes nothing, and the observation says why it is invalid.

        Returns:
            observation, reward, terminated, truncated (always False), info.

        Raises:
            NotReset: called before the first reset.
            StepAfterEnd: the episode has ended.
            UnknownOption: `action` is not a str.
        """
        if self.task_id is None:
            raise NotReset
        if self.is_over():
            raise StepAfterEnd if self._stepped else StepAfterEnd(_OVER_AT_START)
        if not isinstance(action, str):
            raise UnknownOption(f"action must be a str such as {self.EXAMPLE_ACTION!r}, got {type(action).__name__}")
        self._stepped = True
        observation, reward, valid = self.take_action(action)
        self.last_exchange = (action, observation)
        return observation, reward, self.is_over(), False, dict(self.get_info(valid))

    def render(self) -> Any:
        """Return the last action and its observation as text if `render_mode` is "ansi", else None."""
        if self.render_mode != "ansi":
            return None
        action, seen = self.last_exchange
        observation = seen["text"] if isinstance(seen, dict) else seen  # a dict holds text and image
        return f"> {action}\n{observation}\n" if action else f"{observation}\n"

    @abstractmethod
    def list_tasks(self, count: int | None) -> list[str]:
        """Return the ids of the first `count` tasks; for None, of all tasks (or the first 1,000 of endless ones)."""

    def draw_task(self) -> str:
        """Return the id of a task drawn with `self.np_random`; by default all tasks are equally likely."""
        tasks = self.list_tasks(None)
        return tasks[int(self.np_random.integers(len(tasks)))]

    def choose_task(self, options: Mapping[str, object]) -> str:
        """Return the id of the task that `options` names, or of a random one.

        Raises:
            UnknownTask: the value under "task" is not a str.
        """
        task = options.get("task")
        if task is None:
            return self.draw_task()
        if not isinstance(task, str):
            vector = "; turncredit.envs.make_vec takes a list, one id per environment" if isinstance(task, list) else ""
            raise UnknownTask(f"task must be an id (str), got {task!r}{vector}")
        return task

    @abstractmethod
    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        """Start a task and return its first observation.

        Args:
            task: the requested id, which may not exist.
            options: the options of `reset`; all keys are in `RESET_OPTIONS`.

        Raises:
            UnknownTask: there is no such task. The current episode must stay as it is.
        """

    @abstractmethod
    def take_action(self, action: str) -> tuple[str, float, bool]:
        """Apply an action to an episode that is not over; return observation, reward, and whether it was valid."""

    @abstractmethod
    def is_over(self) -> bool:
        """Return whether the episode has ended."""

    @abstractmethod
    def get_info(self, valid: bool) -> Mapping[str, object]:
        """Return `info` for the current state: an `Info`, or a dictionary with keys of its own as well.

        Args:
            valid: whether the last action was valid.
        """


class SavableEnv(TextEnv):
    """A text environment whose episode can be saved and resumed (`turncredit.envs.info.HasSnapshot`)."""

    SNAPSHOT_FORMAT: ClassVar[tuple[str, int]]
    """Name and version of the snapshot format. Increase the version when the contents change."""

    def snapshot(self) -> bytes:
        """Return the current episode as bytes, for `restore`.

        Raises:
            NotReset: called before the first reset.
        """
        if self.task_id is None:
            raise NotReset
        shared = {"shown": list(self.last_exchange), "random": random_state(self)}
        episode = {"task": self.task_id, **self.save_episode(), **shared}
        return pack(*self.SNAPSHOT_FORMAT, self.snapshot_arguments(), episode)

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        """Resume the episode of a snapshot, taken from an environment with the same arguments.

        Returns:
            The observation and `info` of that state; `valid` is True.

        Raises:
            BadSnapshot: `data` is not a snapshot of such an environment. The current episode stays as it is.
        """
        saved = unpack(data, *self.SNAPSHOT_FORMAT, self.snapshot_arguments())
        task, shown, drawn = saved.get("task", str), saved.pair("shown"), random_from(saved)
        try:
            self.load_episode(task, saved)
        except (UnknownTask, UnknownOption) as error:
            raise BadSnapshot(f"this environment does not have the snapshot's task: {error}") from error
        self.task_id, self.last_exchange, self._stepped = task, shown, True
        self._np_random, self._np_random_seed = drawn
        return shown[1], dict(self.get_info(True))

    @abstractmethod
    def snapshot_arguments(self) -> dict[str, object]:
        """Return the constructor arguments that must be equal for a snapshot to be restored here."""

    @abstractmethod
    def save_episode(self) -> dict[str, object]:
        """Return the episode as JSON-compatible data. The keys "task", "shown" and "random" are reserved."""

    @abstractmethod
    def load_episode(self, task: str, saved: Fields) -> None:
        """Replace the current episode by one that `save_episode` returned.

        Validate everything before changing anything: snapshots may come from untrusted sources, and if this raises, the
        current episode must stay as it is.

        Args:
            task: id of the task, which may not exist.
            saved: the data of `save_episode`, possibly tampered with.

        Raises:
            UnknownTask: there is no such task.
            BadSnapshot: the data do not describe an episode of the task.
        """
