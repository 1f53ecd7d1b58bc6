"""What text environments with task ids do alike, so that a class says only what is its own.

`TextEnv` is a plain `gymnasium.Env` to whoever plays it. A class of one's own says six things:

    _ids(count)            the ids of its tasks
    _start(task, options)  begins a task: its first observation
    _act(action)           does an action: observation, reward, and whether the action was valid
    _ended()               whether the episode is over
    _info(valid)           the keys of `info` (see `turnwise.envs.info`)
    _draw()                the id of a task drawn by chance; left out, all tasks are equally likely

`SavableEnv` adds `snapshot` and `restore`, for which a class says three more: `_made`, `_save` and `_load`.

Left out on purpose: limits of turns, which are Gymnasium's; so nothing here truncates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import gymnasium

from turnwise.envs.errors import BadSnapshot, NotReset, StepAfterEnd, UnknownOption, UnknownTask
from turnwise.envs.snapshot import Fields, pack, random_from, random_state, unpack
from turnwise.envs.spaces import Text
from turnwise.envs.validation import choice, whole

__all__ = ["SavableEnv", "TextEnv"]


class TextEnv(gymnasium.Env[str, str], ABC):
    """A text environment whose tasks have ids: whatever is the same in all of them.

    Args:
        render_mode: None, or one of those in `metadata`.

    Raises:
        UnknownOption: there is no such render mode.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 (Gymnasium's attribute)
    _OPTIONS: ClassVar[tuple[str, ...]] = ("task",)
    """Options that reset() takes."""
    _EXAMPLE: ClassVar[str] = "look"
    """An action, for the message to whoever gives something else than a text."""

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode is not None:
            choice("render_mode", render_mode, self.metadata["render_modes"])
        self.observation_space = Text()
        self.action_space = Text()
        self.render_mode = render_mode
        self._id: str | None = None
        """The task that is played; None before the first reset."""
        self._shown: tuple[str, Any] = ("", "")
        """The last action and its answer, for `render`."""

    def task_ids(self, count: int | None = None) -> list[str]:
        """Return the ids of the tasks of the split, in a fixed order.

        Args:
            count: how many, from the first on; None: all, or where tasks are generated without end the first 1,000.

        Raises:
            UnknownOption: `count` is no whole number, or below 0.
        """
        return self._ids(None if count is None else whole("count", count))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds the drawing of a task where none is asked for, and whatever else is left to chance.
            options: {"task": id} to play that task.

        Returns:
            The first observation, and `info` (see `turnwise.envs.info`).

        Raises:
            UnknownTask: there is no such task.
            UnknownOption: options hold anything else.
        """
        super().reset(seed=seed)
        if options is not None and not isinstance(options, Mapping):
            raise UnknownOption(f"options of reset() are a mapping, such as {{'task': id}}; got {options!r}")
        given = dict(options or {})
        for key in given:
            choice("reset option", key, self._OPTIONS)
        task = self._chosen(given)
        observation = self._start(task, given)
        self._id, self._shown = task, ("", observation)
        return observation, self._info(True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Do an action; what is not possible changes nothing, and the answer says so.

        Returns:
            observation, reward, terminated, truncated (always False), info.

        Raises:
            NotReset: before the first reset.
            StepAfterEnd: the episode has ended.
            UnknownOption: the action is no str.
        """
        if self._id is None:
            raise NotReset
        if self._ended():
            raise StepAfterEnd
        if not isinstance(action, str):
            raise UnknownOption(f"an action is a str such as {self._EXAMPLE!r}; got {type(action).__name__}")
        observation, reward, valid = self._act(action)
        self._shown = (action, observation)
        return observation, reward, self._ended(), False, self._info(valid)

    def render(self) -> Any:
        """Return the last action and its answer as the player saw them, for render_mode "ansi"; else None."""
        if self.render_mode != "ansi":
            return None
        action, seen = self._shown
        observation = seen["text"] if isinstance(seen, dict) else seen  # with a screen, both
        return f"> {action}\n{observation}\n" if action else f"{observation}\n"

    @abstractmethod
    def _ids(self, count: int | None) -> list[str]:
        """Return the ids of the first so many tasks; of all, or of as many as are worth listing, for None."""

    def _draw(self) -> str:
        """Return the id of a task, drawn with `np_random`: each of `_ids` is equally likely."""
        known = self._ids(None)
        return known[int(self.np_random.integers(len(known)))]

    def _chosen(self, options: Mapping[str, Any]) -> str:
        """Return the id of the task that the options of reset() ask for, or one that is drawn.

        Raises:
            UnknownTask: what they ask for is no id.
        """
        task = options.get("task")
        if task is None:
            return self._draw()
        if not isinstance(task, str):
            raise UnknownTask(f"a task is named by its id, a str; got {task!r}")
        return task

    @abstractmethod
    def _start(self, task: str, options: Mapping[str, Any]) -> str:
        """Begin a task, and return its first observation.

        Args:
            task: an id, perhaps of no task.
            options: those of reset(), of which every name is one of `_OPTIONS`.

        Raises:
            UnknownTask: there is no such task; the episode that was being played goes on.
        """

    @abstractmethod
    def _act(self, action: str) -> tuple[str, float, bool]:
        """Do an action in an episode that is not over: return observation, reward, and whether it was valid."""

    @abstractmethod
    def _ended(self) -> bool:
        """Return whether the episode is over."""

    @abstractmethod
    def _info(self, valid: bool) -> dict[str, Any]:
        """Return `info` at this moment; `valid` is that of the last action."""


class SavableEnv(TextEnv):
    """A text environment whose episode can be saved and resumed (`turnwise.envs.info.HasSnapshot`)."""

    _SAVED: ClassVar[tuple[str, int]]
    """What its snapshots are called, and the version of what is in them, to be raised when that changes."""

    def snapshot(self) -> bytes:
        """Return the episode at this moment, for `restore`.

        Raises:
            NotReset: before the first reset.
        """
        if self._id is None:
            raise NotReset
        episode = {"task": self._id, **self._save(), "shown": list(self._shown), "random": random_state(self)}
        return pack(*self._SAVED, self._made(), episode)

    def restore(self, data: bytes, /) -> tuple[str, dict[str, Any]]:
        """Go on from a snapshot of an environment that was made with the same arguments.

        Returns:
            Observation and `info` of that moment; `valid` is True.

        Raises:
            BadSnapshot: the bytes are none, or torn, or of something else; the present episode goes on.
        """
        saved = unpack(data, *self._SAVED, self._made())
        task, shown, drawn = saved.get("task", str), saved.pair("shown"), random_from(saved)
        try:
            self._load(task, saved)
        except (UnknownTask, UnknownOption) as error:
            raise BadSnapshot(f"the snapshot's task is not here: {error}") from error
        self._id, self._shown = task, shown
        self._np_random, self._np_random_seed = drawn
        return shown[1], self._info(True)

    @abstractmethod
    def _made(self) -> dict[str, Any]:
        """Return what has to be the same where a snapshot is restored: the arguments that matter to an episode."""

    @abstractmethod
    def _save(self) -> dict[str, Any]:
        """Return the episode, in what JSON can say, under other names than "task", "shown" and "random"."""

    @abstractmethod
    def _load(self, task: str, saved: Fields) -> None:
        """Take over an episode that `_save` gave.

        All of it is read and judged before anything is taken over: what raises has to leave the present episode as it
        was, and bytes may come from anywhere.

        Args:
            task: id of the task, perhaps of none.
            saved: what `_save` gave, or what a stranger has made of it.

        Raises:
            UnknownTask: there is no such task.
            BadSnapshot: the rest is no episode of it.
        """
