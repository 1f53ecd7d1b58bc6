"""How an episode of another program ended, as its record says: rewards, score, and whether the task was solved."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from turncredit.agents.json_types import JsonObject
from turncredit.agents.trajectory import Turn
from turncredit.tools.bounded_input import InputError

__all__ = ["StatedOutcome", "outcome_in"]

_WON: Final = ("won", "success", "resolved", "solved")
_SCORE: Final = ("score",)
_REWARD: Final = ("reward", "rewards")
_NESTED: Final = ("metadata", "info", "extra", "reward_info", "test_result", "report", "final_metrics")
"""Keys of objects in which a record may hold its outcome."""
_LEVELS: Final = 3
_WORDS: Final = {"true": 1.0, "false": 0.0}


@dataclass(frozen=True, slots=True)
class StatedOutcome:
    """What is known of the end of an episode; None: nothing.

    Attributes:
        reward: sum of the rewards.
        score: score of the task.
        won: whether the task was solved.
        rewards: rewards of the answers, one for each.
    """

    reward: float | None = None
    score: float | None = None
    won: bool | None = None
    rewards: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Check that the numbers are finite.

        Raises:
            InputError: one is not.
        """
        for name, value in (("reward", self.reward), ("score", self.score)):
            if value is not None and not math.isfinite(value):
                raise InputError(f"the {name} must be finite, got {value}")

    @property
    def stated(self) -> bool:
        """Whether anything is known."""
        return any(value is not None for value in (self.reward, self.score, self.won))

    def total(self, *, failed: bool) -> float:
        """Return the sum of the rewards: as stated, else the score, else 1 for an episode that was won.

        An episode of which nothing is known counts as won, since a demonstration is to be imitated, unless it failed.
        """
        if self.reward is not None:
            return self.reward
        if self.score is not None:
            return self.score
        return float(not failed if self.won is None else self.won)

    def reached(self, *, failed: bool) -> float:
        """Return the score in [0, 1]: as stated, else 1 for an episode that was won, else the reward."""
        if self.score is None and self.won:
            return 1.0
        value = self.total(failed=failed) if self.score is None else self.score
        if self.score is None and self.won is False and value >= 1.0:
            return 0.0  # such a reward is no share of a task
        return min(1.0, max(0.0, value))

    def rewarded(self, turns: Sequence[Turn], *, failed: bool) -> tuple[Turn, ...]:
        """Return the turns with their rewards; where they are not stated for each answer, the last has their sum."""
        values = self.rewards
        if len(values) != len(turns):
            values = (*[0.0] * (len(turns) - 1), self.total(failed=failed))[-len(turns) :]
        return tuple(replace(turn, reward=value) for turn, value in zip(turns, values, strict=False))


def outcome_in(fields: JsonObject) -> StatedOutcome:
    """Return the outcome that a record states, by itself or in one of its objects, such as `metadata`.

    Raises:
        InputError: what stands there is no number.
    """
    won, score, reward = (_stated(fields, names) for names in (_WON, _SCORE, _REWARD))
    values = [_number("rewards", value) for value in reward] if isinstance(reward, list) else []
    rewards = tuple(value for value in values if value is not None)
    number = _number("won", won)
    return StatedOutcome(
        reward=sum(rewards) if rewards else _number("reward", reward),
        score=_number("score", score),
        won=None if number is None else number >= 1.0,
        rewards=rewards,
    )


def _stated(fields: JsonObject, names: Sequence[str]) -> object:
    """Return the value of the first of some keys, the least deep ones first; None if there is none."""
    level: list[JsonObject] = [fields]
    for _ in range(_LEVELS):
        for entry in level:
            for name in names:
                value = entry.get(name)
                if isinstance(value, bool | int | float | str) or (name == "rewards" and isinstance(value, list)):
                    return value
        level = [inner for entry in level for name in _NESTED if isinstance(inner := entry.get(name), Mapping)]
    return None


def _number(name: str, value: object) -> float | None:
    if isinstance(value, str):
        word = value.strip().lower()
        try:
            return _WORDS[word] if word in _WORDS else float(word)
        except ValueError:
            raise InputError(f"{name} must be a number, true or false, got {value!r:.80}") from None
    return float(value) if isinstance(value, int | float) else None
