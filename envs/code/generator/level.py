"""Levels of generated code tasks. The text of a level is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.code.generator.families import FAMILIES
from turncredit.envs.code.generator.mutations import KINDS
from turncredit.envs.errors import UnknownOption
from turncredit.envs.levels import BaseLevel, LevelSettings

__all__ = ["PRESETS", "CodeLevel"]

_DIALS: Final = LevelSettings(
    "the code generator",
    counts={"families": (1, len(FAMILIES)), "names": (0, 1), "kinds": (1, len(KINDS))},
    ranges={"lines": (2, 12), "functions": (1, 8), "bugs": (1, 4), "visible": (1, 9), "hidden": (2, 30)},
    shares=("repair", "chain", "shown"),
)


@dataclass(frozen=True, slots=True)
class CodeLevel(BaseLevel):
    """Length of generated programs and difficulty of the tasks.

    families: how many families of functions are used, the easier ones first.
    lines: minimum and maximum number of lines of a function.
    functions: minimum and maximum number of functions in the file; the task is about the last one.
    chain: probability that the last function calls the others one after another; otherwise they are unrelated.
    repair: probability that the task is to repair a program; otherwise it is to write one.
    bugs: minimum and maximum number of wrong lines in a program to repair.
    kinds: how many kinds of mistakes are used, in the order of `mutations.KINDS`.
    shown: probability that a visible test fails at the start; a hidden one always does.
    visible, hidden: minimum and maximum number of tests.
    names: 0 for short names that are always the same, 1 for longer names that vary.
    """

    settings = _DIALS

    families: int = len(FAMILIES)
    lines: tuple[int, int] = (2, 9)
    functions: tuple[int, int] = (1, 1)
    chain: float = 0.0
    repair: float = 0.75
    bugs: tuple[int, int] = (1, 1)
    kinds: int = len(KINDS)
    shown: float = 1.0
    visible: tuple[int, int] = (3, 3)
    hidden: tuple[int, int] = (8, 8)
    names: int = 1

    def __post_init__(self) -> None:
        """Check all values."""
        _DIALS.check(self)
        if self.lines[1] < 3:
            raise UnknownOption("the maximum of lines must be at least 3, got 2; almost no function has two lines")


PRESETS: dict[str, CodeLevel] = {
    "tiny": CodeLevel(lines=(2, 5), repair=1.0, kinds=3, visible=(2, 2), hidden=(6, 6), names=0),
    "small": CodeLevel(),
    "medium": CodeLevel(
        functions=(2, 3), chain=0.6, bugs=(1, 2), repair=0.6, shown=0.8, visible=(3, 4), hidden=(10, 12)
    ),
    "large": CodeLevel(
        functions=(3, 6), chain=0.7, bugs=(1, 3), repair=0.5, shown=0.5, visible=(2, 4), hidden=(12, 16)
    ),
}
"""Levels by name. "tiny" suits small models that are trained from scratch."""

CodeLevel.presets = PRESETS
