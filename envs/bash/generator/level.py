"""Levels of generated shell tasks. The text of a level is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.levels import BaseLevel, LevelSettings

__all__ = ["FAMILY_NAMES", "PRESETS", "BashLevel"]

FAMILY_NAMES: Final = tuple(
    "archive clean columns compare count find log merge modes move rename replace sum tree".split()  # noqa: SIM905
)
_DIALS: Final = LevelSettings(
    "shell tasks",
    counts={"depth": (0, 6), "distractors": (0, 200), "variants": (0, 9)},
    ranges={"files": (2, 200), "lines": (2, 500)},
    shares=("spaces",),
    names={"families": FAMILY_NAMES},
)


@dataclass(frozen=True, slots=True)
class BashLevel(BaseLevel):
    """Size and difficulty of a task.

    files: minimum and maximum number of files that the task is about.
    lines: minimum and maximum number of lines of a text file.
    depth: maximum number of folders between the task's folder and a file.
    distractors: number of other files; in most families they contain the same words.
    spaces: probability of a space in a file name.
    variants: how many variants of a family are used, the simplest first; 0 for all.
    families: families of tasks; empty for all.
    """

    settings = _DIALS

    files: tuple[int, int] = (4, 7)
    lines: tuple[int, int] = (5, 10)
    depth: int = 2
    distractors: int = 3
    spaces: float = 0.0
    variants: int = 0
    families: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check all values."""
        _DIALS.check(self)
        object.__setattr__(self, "families", tuple(sorted(set(self.families))))


PRESETS: dict[str, BashLevel] = {
    "tiny": BashLevel(files=(2, 3), lines=(3, 5), depth=0, distractors=1, variants=1),
    "small": BashLevel(),
    "medium": BashLevel(files=(8, 14), lines=(10, 25), depth=3, distractors=6, spaces=0.15),
    "large": BashLevel(files=(15, 30), lines=(20, 60), depth=4, distractors=12, spaces=0.3),
}
"""Levels by name. "tiny" suits small models that are trained from scratch."""

BashLevel.presets = PRESETS
