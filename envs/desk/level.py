"""Levels of generated service desks. The text of a level is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.levels import BaseLevel, LevelSettings

__all__ = ["PRESETS", "DeskLevel"]

_SETTINGS: Final = LevelSettings(
    "service desks",
    counts={"variety": (0, 9)},
    ranges={"people": (2, 200), "items": (2, 200), "requests": (1, 3)},
    shares=("forbidden",),
)


@dataclass(frozen=True, slots=True)
class DeskLevel(BaseLevel):
    """Size and difficulty of a task.

    people: minimum and maximum number of members or customers in the database.
    items: minimum and maximum number of titles or kinds of devices.
    requests: minimum and maximum number of things that a user wants, one after the other.
    forbidden: probability that a request is drawn so that the policy forbids it.
    variety: how many families of requests are used, the simplest first; 0 for all.
    """

    settings = _SETTINGS

    people: tuple[int, int] = (4, 6)
    items: tuple[int, int] = (5, 8)
    requests: tuple[int, int] = (1, 1)
    forbidden: float = 0.3
    variety: int = 0


PRESETS: dict[str, DeskLevel] = {
    "tiny": DeskLevel(people=(2, 3), items=(3, 4), forbidden=0.0, variety=2),
    "small": DeskLevel(),
    "medium": DeskLevel(people=(10, 16), items=(12, 18), requests=(1, 2), forbidden=0.4),
    "large": DeskLevel(people=(30, 50), items=(30, 45), requests=(2, 3), forbidden=0.5),
}
"""Levels by name. "tiny" suits small models that are trained from scratch."""

DeskLevel.presets = PRESETS
