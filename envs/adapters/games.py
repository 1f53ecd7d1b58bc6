"""What the games of other packages have in common: tasks that are seeds, and one seat that the agent plays.

Their state cannot be read in general, so the state key is the sequence of the agent's actions: with the same seed, all
other seats repeat theirs.
"""

from __future__ import annotations

import json
import random
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from turncredit.envs.errors import UnknownTask
from turncredit.envs.info import KNOWLEDGE_IN_STATE, EnvArguments, Info
from turncredit.envs.text import TextEnv
from turncredit.envs.validation import choice

__all__ = ["PER_SPLIT", "SPLITS", "GameOutcome", "GlobalSeeds", "SeededGame", "global_seeds"]

SPLITS: Final = ("train", "held_out")
_DEFAULT_COUNT: Final = 1000
PER_SPLIT: Final = 10**6
"""Tasks of each split."""


@dataclass(frozen=True)
class GameOutcome:
    """What the agent's seat sees after a move.

    Attributes:
        text: what it reads.
        reward: since its last move.
        valid: whether the move was allowed.
        counted: whether the move changed the game; an invalid one may count as a mistake.
        over: whether the game has ended for this seat.
        score: in [0, 1].
        won: whether this seat has won; False before the end.
        admissible: all possible actions; None where they cannot be listed.
    """

    text: str
    reward: float = 0.0
    valid: bool = True
    counted: bool = True
    over: bool = False
    score: float = 0.0
    won: bool = False
    admissible: tuple[str, ...] | None = None


class SeededGame(TextEnv):
    """A game whose tasks are seeds: "train/7" and "held_out/7" have different ones.

    A subclass implements `begin` and `move`, and may be closed.

    Args:
        kind: type of the tasks: name of the game.
        split: "train" or "held_out".
        render_mode: None or "ansi".

    Raises:
        UnknownOption: an argument is invalid.
    """

    metadata: EnvArguments = {"render_modes": ["ansi"], KNOWLEDGE_IN_STATE: True}  # noqa: RUF012 (Gymnasium's attribute)

    def __init__(self, kind: str, split: str, render_mode: str | None) -> None:
        super().__init__(render_mode)
        self._kind = kind
        self.split = choice("split", split, SPLITS)
        self._outcome = GameOutcome("")
        self._moves: list[str] = []

    @abstractmethod
    def begin(self, seed: int) -> GameOutcome:
        """Start a game and return what the agent sees at its first move."""

    @abstractmethod
    def move(self, action: str) -> GameOutcome:
        """Make a move and those of all other seats, and return what the agent sees then."""

    def list_tasks(self, count: int | None) -> list[str]:
        return [f"{self.split}/{number}" for number in range(_DEFAULT_COUNT if count is None else count)]

    def draw_task(self) -> str:
        return f"{self.split}/{int(self.np_random.integers(PER_SPLIT))}"

    def start_task(self, task: str, options: Mapping[str, object]) -> str:
        split, _, number = task.partition("/")
        if split != self.split or not (number.isascii() and number.isdecimal()) or int(number) >= PER_SPLIT:
            raise UnknownTask(f"unknown task {task!r} in the split {self.split!r}; ids look like '{self.split}/7'")
        self._outcome = self.begin(int(number) + PER_SPLIT * SPLITS.index(split))
        self._moves = []
        return self._outcome.text

    def take_action(self, action: str) -> tuple[str, float, bool]:
        self._outcome = self.move(action)
        if self._outcome.counted:
            self._moves.append(action)
        return self._outcome.text, self._outcome.reward, self._outcome.valid

    def is_over(self) -> bool:
        return self._outcome.over

    def get_info(self, valid: bool) -> Info:
        outcome = self._outcome
        key = blake2b(json.dumps(self._moves).encode(), digest_size=8).hexdigest()
        info: Info = {
            "task": str(self.task_id),
            "task_type": self._kind,
            "state": key + (" over" if outcome.over else ""),
            "valid": valid,
            "score": outcome.score,
            "won": outcome.won,
        }
        if outcome.admissible is not None:
            info["admissible_actions"] = [] if outcome.over else list(outcome.admissible)
        return info


class GlobalSeeds:
    """The global random generators of `random` and numpy, as an episode left them."""

    def __init__(self, seed: int) -> None:
        self.python = random.Random(seed).getstate()
        self.numpy: object = np.random.RandomState(seed % 2**32).get_state()


@contextmanager
def global_seeds(states: GlobalSeeds) -> Iterator[None]:
    """In this block, the global random generators are those of an episode; other episodes have theirs."""
    before_python, before_numpy = random.getstate(), np.random.get_state()
    random.setstate(states.python)
    np.random.set_state(states.numpy)  # type: ignore[arg-type]
    try:
        yield
    finally:
        states.python, states.numpy = random.getstate(), np.random.get_state()
        random.setstate(before_python)
        np.random.set_state(before_numpy)
