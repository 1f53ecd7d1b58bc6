"""Environments that give their answer away, each at one place, or break one promise that only much play shows.

LEAKY says which rule of the check has to notice a fault, and how; the twin differs in that fault alone. Where the
broken one shows its secret, the twin shows another number.
"""

from __future__ import annotations

import hashlib
from typing import Any

from turncredit.envs import TextEnv, UnknownTask
from turncredit.envs.info import Info

MOST = 8
TASKS = 40


def digits(*words: object) -> int:
    """Return a number of four digits that nobody can guess."""
    return 1000 + int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=4).digest()) % 9000


class Safe(TextEnv):
    """A safe with four digits, which is locked for good after eight wrong ones; nothing tells them."""

    honest = True

    def __init__(self, split: str = "train", render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if split not in ("train", "held_out"):
            raise ValueError(f"split must be train or held_out, got {split}")
        self.split = split
        self._number, self._tries, self._open = 0, 0, False

    @property
    def code(self) -> int:
        """The digits."""
        return digits("safe", self.split, self._number)

    def shown(self) -> int:
        """Return what is shown where a broken one shows its digits."""
        return digits("decoy", self.split, self._number) if self.honest else self.code

    def list_tasks(self, count: int | None) -> list[str]:
        return [f"{self.split}-{number}" for number in range(TASKS)][:count]

    def start_task(self, task: str, options: Any) -> str:
        if task not in (tasks := self.list_tasks(None)):
            raise UnknownTask.of(task, tasks, "safes")
        self._number, self._tries, self._open = tasks.index(task), 0, False
        return self.opening()

    def opening(self) -> str:
        """Return the first observation."""
        return (
            f"There is a safe of the series {digits('series', self.split, self._number)}. Open it with its four digits."
        )

    def take_action(self, action: str) -> tuple[str, float, bool]:
        word, _, value = action.partition(" ")
        if word != "open" or not value.isdigit():
            return self.refusal(), 0.0, False
        self._tries += 1
        self._open = int(value) == self.code
        return ("It opens." if self._open else self.wrong()), float(self._open), True

    def refusal(self) -> str:
        """Return the observation after an action that is none."""
        return "Write open and four digits."

    def wrong(self) -> str:
        """Return the observation after wrong digits."""
        return "It stays shut."

    def is_over(self) -> bool:
        return self._open or self._tries >= MOST

    def key(self) -> str:
        """Return the state key."""
        return f"{self._tries} {self._open}"

    def get_info(self, valid: bool) -> Info:
        return {
            "task": self.task_id or self.list_tasks(None)[self._number],
            "state": self.key(),
            "free_actions": [] if self.is_over() else ["open ..."],
            "valid": valid,
            "score": float(self._open),
            "won": self._open,
        }

    def plan(self) -> list[str]:
        return [] if self._open else [f"open {self.code}"]


class DebugLine(Safe):
    """A line for debugging was forgotten, which no list of words for answers knows."""

    honest = False

    def opening(self) -> str:
        return f"{super().opening()} [debug target={self.shown()}]"


class HonestDebugLine(DebugLine):
    honest = True


class TellsAfterwards(Safe):
    """What is refused is logged with all that there is."""

    honest = False

    def refusal(self) -> str:
        return f"Not understood (room 3, {self.shown()}, {self._tries})."


class HonestAfterwards(TellsAfterwards):
    honest = True


class NestedInfo(Safe):
    """info holds the whole level, as some engine left it there."""

    honest = False

    def get_info(self, valid: bool) -> Info:
        return {**super().get_info(valid), "engine": {"level": {"cells": [3, [7, self.shown()]]}}}  # type: ignore[typeddict-unknown-key]


class HonestNestedInfo(NestedInfo):
    honest = True


class NamedById(Safe):
    """The id is made of what a task consists of."""

    honest = False

    def list_tasks(self, count: int | None) -> list[str]:
        kept, names = self._number, []
        for self._number in range(TASKS):
            names.append(f"safe-{self._number}-{self.shown()}-v0")
        self._number = kept
        return names[:count]


class HonestNamedById(NamedById):
    honest = True


class DescribedTool(Safe):
    """The description of the tool has an example."""

    honest = False

    def get_info(self, valid: bool) -> Info:
        about = f"Turns the wheels, for example to {self.shown()}."
        return {**super().get_info(valid), "tools": [{"function": {"name": "open", "description": about}}]}


class HonestDescribedTool(DescribedTool):
    honest = True


class NeverLocks(Safe):
    """Wrong digits do no harm, and no limit of turns is set."""

    def is_over(self) -> bool:
        return self._open

    def key(self) -> str:
        return str(self._open)


class CannotRender(Safe):
    """Nobody has called render()."""

    def render(self) -> Any:
        return self.picture.text  # type: ignore[attr-defined]


class RenamesTraining(Safe):
    """The held-out tasks are those of training under other ids."""

    @property
    def code(self) -> int:
        return digits("safe", self._number)

    def opening(self) -> str:
        return f"There is a safe of the series {digits('series', self._number)}. Open it with its four digits."


class LosesSome(Safe):
    """The plan of every fifth task is off by one."""

    def plan(self) -> list[str]:
        return [] if self._open else [f"open {self.code + (self._number % 5 == 1)}"]


class SameEverywhere(Safe):
    """Most safes have the digits of the factory."""

    @property
    def code(self) -> int:
        return 4711 if self._number % 20 else super().code


LEAKY: dict[type, tuple[str, str, type]] = {
    DebugLine: ("copy", "failed", HonestDebugLine),
    TellsAfterwards: ("copy", "failed", HonestAfterwards),
    NestedInfo: ("copy", "failed", HonestNestedInfo),
    NamedById: ("copy", "failed", HonestNamedById),
    DescribedTool: ("copy", "failed", HonestDescribedTool),
    NeverLocks: ("ends", "warned", Safe),
    CannotRender: ("render", "failed", Safe),
    RenamesTraining: ("splits", "failed", Safe),
    LosesSome: ("plan", "failed", Safe),
    SameEverywhere: ("guess", "warned", Safe),
}
"""Environment -> the rule that has to notice it and its outcome, and the honest twin."""
