"""Draws of one task: names, lines and files, which are the same in every process and every Python."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from turnwise.envs.bash.filetree import FileNode, file
from turnwise.envs.bash.generator.level import BashLevel
from turnwise.envs.bash.generator.words import FIRST, FOLDERS, INNER, NAMES, WORDS

__all__ = ["TaskBuilder"]

T = TypeVar("T")


class TaskBuilder:
    """The files of one task while they are drawn.

    Args:
        seed: decides everything.
        split: whose folders are named.
        level: sizes.
    """

    def __init__(self, seed: str, split: str, level: BashLevel) -> None:
        # Of random.Random, only random() promises to give the same for ever.
        self._uniform = random.Random(seed).random
        self.level = level
        self.files: dict[str, FileNode] = {}
        self.top = self.one(FOLDERS[split])
        self._names: set[str] = set()

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self._uniform() < probability

    def between(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return least + int(self._uniform() * (most - least + 1))

    def one(self, things: Sequence[T]) -> T:
        """Return one of some things."""
        return things[int(self._uniform() * len(things))]

    def some(self, things: Sequence[T], count: int) -> list[T]:
        """Return so many different ones in a drawn order; all of them if there are fewer."""
        rest = list(things)
        for place in range(min(count, len(rest))):
            other = place + int(self._uniform() * (len(rest) - place))
            rest[place], rest[other] = rest[other], rest[place]
        return rest[:count]

    def variant(self, names: Sequence[T]) -> T:
        """Return one of a family's variants, as many as the level draws from."""
        return self.one(names[: self.level.variants or None])

    def count(self) -> int:
        """Return a number of files."""
        return self.between(*self.level.files)

    def word(self) -> str:
        """Return a word of a text."""
        return self.one(WORDS)

    def line(self) -> str:
        """Return a line of a text."""
        return " ".join(self.word() for _ in range(self.between(2, 6)))

    def lines(self, of: Sequence[str] = ()) -> list[str]:
        """Return lines of a text, some of which are given."""
        count = max(self.between(*self.level.lines), len(of))
        return self.some([*of, *(self.line() for _ in range(count - len(of)))], count)

    def person(self) -> str:
        """Return a first name."""
        return self.one(FIRST)

    def name(self) -> str:
        """Return a file name without ending that no other file of the task has."""
        for tries in range(1000):
            name = self.one(NAMES)
            if self.chance(self.level.spaces):
                name += f" {self.one(WORDS)}"
            if tries > 4:
                name += f"-{self.between(1, 9 * tries)}"
            if name not in self._names:
                self._names.add(name)
                return name
        raise AssertionError("there are more names than files")

    def place(self, top: str = "") -> str:
        """Return a folder below the task's folder, or below another."""
        inner = self.some(INNER, self.between(0, self.level.depth))
        return "/".join([top or self.top, *inner])

    def add(self, path: str, text: str | Sequence[str], mode: int = 0o644) -> str:
        """Put a file there, of a text or of lines; return its path."""
        self.files[path] = file(text if isinstance(text, str) else "".join(f"{line}\n" for line in text), mode)
        return path

    def scatter(self, ending: str, count: int | None = None, needed: Sequence[str] = ()) -> list[str]:
        """Put so many files with an ending somewhere below the task's folder; the given lines stand in the first."""
        paths = []
        for number in range(self.count() if count is None else count):
            paths.append(self.add(f"{self.place()}/{self.name()}{ending}", self.lines(needed if not number else ())))
        return paths

    def distract(self, endings: Sequence[str], lines: Sequence[str] = ()) -> None:
        """Put files below the task's folder that are not asked for; some hold one of the given lines."""
        for _ in range(self.level.distractors):
            held = [self.one(lines)] if lines and self.chance(0.5) else []
            self.add(f"{self.place()}/{self.name()}{self.one(endings)}", self.lines(held))

    def text(self, path: str) -> str:
        """Return what a file holds."""
        return self.files[path].data.decode()
