"""The dials of the generator: how many files, how long, how deep. Their text is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnwise.envs.levels import BaseLevel, Dials

__all__ = ["FAMILY_NAMES", "PRESETS", "BashLevel"]

FAMILY_NAMES: Final = (
    "archive",
    "clean",
    "columns",
    "compare",
    "count",
    "find",
    "log",
    "merge",
    "modes",
    "move",
    "rename",
    "replace",
    "sum",
    "tree",
)
_DIALS: Final = Dials(
    "shell tasks",
    counts={"depth": (0, 6), "distractors": (0, 200), "variants": (0, 9)},
    ranges={"files": (2, 200), "lines": (2, 500)},
    shares=("spaces",),
    names={"families": FAMILY_NAMES},
)


@dataclass(frozen=True, slots=True)
class BashLevel(BaseLevel):
    """How big the file tree of a task is, and how hard.

    files: least and most files that a task is about.
    lines: least and most lines of a text file.
    depth: most folders between the task's folder and a file.
    distractors: files beside those that a task is about; in most families the same words and names occur in them.
    spaces: probability that a file has a space in its name.
    variants: how many wordings and conditions of a family are drawn from, the plain one first; 0 for all.
    families: kinds of tasks; none means all.
    """

    dials = _DIALS

    files: tuple[int, int] = (4, 7)
    lines: tuple[int, int] = (5, 10)
    depth: int = 2
    distractors: int = 3
    spaces: float = 0.0
    variants: int = 0
    families: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check every dial."""
        _DIALS.check(self)
        object.__setattr__(self, "families", tuple(sorted(set(self.families))))


PRESETS: dict[str, BashLevel] = {
    "tiny": BashLevel(files=(2, 3), lines=(3, 5), depth=0, distractors=1, variants=1),
    "small": BashLevel(),
    "medium": BashLevel(files=(8, 14), lines=(10, 25), depth=3, distractors=6, spaces=0.15),
    "large": BashLevel(files=(15, 30), lines=(20, 60), depth=4, distractors=12, spaces=0.3),
}
"""Sizes by name. "tiny" is for models that learn to type commands on it."""

BashLevel.presets = PRESETS
