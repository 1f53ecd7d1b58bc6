"""What is asked of rewards: the best return, how much a cheap player may earn, and how long an attacker may try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import EnvError
from turncredit.envs.info import Environment

__all__ = ["Attacker", "RewardBounds"]

Attacker = Callable[[Callable[[], Environment], "str | None", int], "list[list[object]]"]
"""Plays a task to earn reward without doing it: (make, task, seed) -> the actions of each of its episodes."""

CHEAP: Final = 0.1
TRIVIAL: Final = 0.5
"""Share of the best return above which random actions are reported as a reservation."""


@dataclass(frozen=True, slots=True)
class RewardBounds:
    """What is asked of rewards.

    Args:
        best: return of a solved episode; None: what the expert earns on the task, or 1 without an expert.
        cheap: share of the best return that a cheap player may earn, in [0, 1).
        budget: most steps of the search for unearned reward; None: as the effort says.
        attacker: a further attacker, such as a language model.

    Raises:
        EnvError: a number is out of its range.
    """

    best: float | None = None
    cheap: float = CHEAP
    budget: int | None = None
    attacker: Attacker | None = None

    def __post_init__(self) -> None:
        if self.best is not None and not self.best > 0:
            raise EnvError(f"the best return must be above 0, got {self.best}")
        if not 0 <= self.cheap < 1:
            raise EnvError(f"the share of a cheap player must be in [0, 1), got {self.cheap}")
        if self.budget is not None and self.budget < 0:
            raise EnvError(f"the steps of an attack must be at least 0, got {self.budget}")
