"""The dials of the generator: how many files, how long, how deep. Their text is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from turnwise.envs.errors import UnknownOption, choices
from turnwise.envs.levels import level_of, text_of

__all__ = ["FAMILY_NAMES", "PRESETS", "Level"]

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
_RANGES: Final = {"files": (2, 200), "lines": (2, 500)}
_COUNTS: Final = {"depth": (0, 6), "distractors": (0, 200)}
_SHARES: Final = ("spaces",)


@dataclass(frozen=True, slots=True)
class Level:
    """How big the file tree of a task is, and how hard.

    files: least and most files that a task is about.
    lines: least and most lines of a text file.
    depth: most folders between the task's folder and a file.
    distractors: files beside those that a task is about; in most families the same words and names occur in them.
    spaces: probability that a file has a space in its name.
    variants: how many wordings and conditions of a family are drawn from, the plain one first; 0 for all.
    families: kinds of tasks; none means all.
    """

    files: tuple[int, int] = (4, 7)
    lines: tuple[int, int] = (5, 10)
    depth: int = 2
    distractors: int = 3
    spaces: float = 0.0
    variants: int = 0
    families: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check every dial, so that a wrong one is named before anything is drawn."""
        for name, (low, high) in _RANGES.items():
            least, most = getattr(self, name)
            if not low <= least <= most <= high:
                raise UnknownOption(f"the dial {name} is {least}-{most}; it needs {low} <= least <= most <= {high}")
        for name, (low, high) in {**_COUNTS, "variants": (0, 9)}.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise UnknownOption(f"the dial {name} is {value!r}; it is a whole number from {low} to {high}")
        if not 0 <= self.spaces <= 1:
            raise UnknownOption(f"the dial spaces is {self.spaces!r}; it is a probability from 0 to 1")
        for family in self.families:
            if family not in FAMILY_NAMES:
                listed = choices(family, FAMILY_NAMES, shown=len(FAMILY_NAMES))
                raise UnknownOption(f"no family of shell tasks is called {family!r}: {listed}")
        object.__setattr__(self, "families", tuple(sorted(set(self.families))))

    @property
    def text(self) -> str:
        """The level in one word: the nearest preset and what differs from it, such as "small+depth=3".

        `Level.parse` reads it back to an equal level; equal levels have equal texts.
        """
        return text_of(self, PRESETS, _write)

    @classmethod
    def parse(cls, text: str) -> Level:
        """Return the level of a text such as "tiny" or "small+depth=3+lines=20-30+families=count,sum".

        Raises:
            UnknownOption: an unknown preset, dial or value; the message names it and the choices.
        """
        return level_of(text, PRESETS, _read, "shell tasks")


def _write(value: Any) -> str:
    if isinstance(value, tuple):
        return ("," if value and isinstance(value[0], str) else "-").join(map(str, value))
    return str(value) if isinstance(value, int) else format(float(value), "f").rstrip("0").rstrip(".")


def _read(name: str, text: str) -> Any:
    if name == "families":
        return tuple(family for family in text.split(",") if family)
    try:
        if name in _RANGES:
            least, _, most = text.partition("-")
            return (int(least), int(most or least))
        return float(text) if name in _SHARES else int(text)
    except ValueError as error:
        raise UnknownOption(f"the dial {name} cannot be {text!r}: {error}") from None


PRESETS: dict[str, Level] = {
    "tiny": Level(files=(2, 3), lines=(3, 5), depth=0, distractors=1, variants=1),
    "small": Level(),
    "medium": Level(files=(8, 14), lines=(10, 25), depth=3, distractors=6, spaces=0.15),
    "large": Level(files=(15, 30), lines=(20, 60), depth=4, distractors=12, spaces=0.3),
}
"""Sizes by name. "tiny" is for models that learn to type commands on it."""
