"""What families build tasks with: random draws that never change between Python versions, words, and files."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final, TypeVar

from turncredit.envs.bash.filetree import FileNode, file, text_file
from turncredit.envs.bash.generator.level import BashLevel

__all__ = ["CITIES", "ENDINGS", "FOLDERS", "INNER", "TaskBuilder", "TaskDraft"]

T = TypeVar("T")
_DATA: Final[dict[str, Any]] = tomllib.loads(files(__package__).joinpath("words.toml").read_text(encoding="utf-8"))
INNER: Final[list[str]] = _DATA["inner"].split()
"""Names of folders below the task's folder."""
CITIES: Final[list[str]] = _DATA["cities"].split()
FOLDERS: Final[dict[str, list[str]]] = {split: words.split() for split, words in _DATA["folders"].items()}
"""Split -> names of the task's folder."""
ENDINGS: Final = (".txt", ".log", ".md", ".note")
_NAMES: Final[list[str]] = _DATA["names"].split()
_WORDS: Final[list[str]] = _DATA["words"].split()
_PEOPLE: Final[list[str]] = _DATA["people"].split()


@dataclass(frozen=True)
class TaskDraft:
    """What a family returns: the instruction, and how the files change. The builder holds the files at the start.

    Args:
        statement: the instruction.
        commands: shell commands that follow it.
        answer: required answer; "" if there is no question.
        made: files and folders that are new or changed at the end.
        gone: files that are removed.
        archives: paths in `made` that are tar archives.
        modes: whether file modes are compared.
    """

    statement: str
    commands: tuple[str, ...]
    answer: str = ""
    made: dict[str, FileNode] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()
    modes: bool = False

    @classmethod
    def of_lines(cls, statement: str, path: str, lines: list[str], *commands: str) -> TaskDraft:
        """Return a draft whose only change is a new file with these lines."""
        return cls(statement, commands, made={path: text_file(lines)})


class TaskBuilder:
    """Draws the words and files of one task.

    Args:
        seed: seed of all draws.
        split: split of the folder name.
        level: sizes.
    """

    def __init__(self, seed: str, split: str, level: BashLevel) -> None:
        # Python guarantees the sequence of Random.random() only, not of choice() or shuffle().
        self._uniform = random.Random(seed).random
        self.level = level
        self.files: dict[str, FileNode] = {}
        self.top = self.one(FOLDERS[split])
        self._names: set[str] = set()

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self._uniform() < probability

    def between(self, least: int, most: int) -> int:
        """Return a random whole number in [least, most]."""
        return least + int(self._uniform() * (most - least + 1))

    def one(self, things: Sequence[T]) -> T:
        """Return a random item."""
        return things[int(self._uniform() * len(things))]

    def some(self, things: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order; all of them if there are fewer."""
        pool = list(things)
        for position in range(min(count, len(pool))):
            other = position + int(self._uniform() * (len(pool) - position))
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:count]

    def variant(self, names: Sequence[T]) -> T:
        """Return a random variant of a family, among the first ones that the level allows."""
        return self.one(names[: self.level.variants or None])

    def count(self) -> int:
        """Return a random number of files."""
        return self.between(*self.level.files)

    def word(self) -> str:
        """Return a random word."""
        return self.one(_WORDS)

    def line(self) -> str:
        """Return a random line of text."""
        return " ".join(self.word() for _ in range(self.between(2, 6)))

    def lines(self, of: Sequence[str] = ()) -> list[str]:
        """Return random lines that include the given ones."""
        count = max(self.between(*self.level.lines), len(of))
        return self.some([*of, *(self.line() for _ in range(count - len(of)))], count)

    def person(self) -> str:
        """Return a random first name."""
        return self.one(_PEOPLE)

    def name(self) -> str:
        """Return a file name, without ending, that no other file of the task has."""
        for tries in range(1000):
            name = self.one(_NAMES)
            if self.chance(self.level.spaces):
                name += f" {self.word()}"
            if tries > 4:
                name += f"-{self.between(1, 9 * tries)}"
            if name not in self._names:
                self._names.add(name)
                return name
        raise AssertionError("there are more names than files")

    def place(self, top: str = "") -> str:
        """Return a random folder at or below `top`, by default the task's folder."""
        inner = self.some(INNER, self.between(0, self.level.depth))
        return "/".join([top or self.top, *inner])

    def add(self, path: str, text: str | list[str], mode: int = 0o644) -> str:
        """Add a file with a text or with lines; return its path."""
        self.files[path] = file(text, mode) if isinstance(text, str) else text_file(text)._replace(mode=mode)
        return path

    def scatter(self, ending: str, count: int | None = None, needed: Sequence[str] = ()) -> list[str]:
        """Add files with an ending below the task's folder; the first one contains the `needed` lines."""
        paths = []
        for number in range(self.count() if count is None else count):
            paths.append(self.add(f"{self.place()}/{self.name()}{ending}", self.lines(needed if not number else ())))
        return paths

    def distract(self, endings: Sequence[str], lines: Sequence[str] = ()) -> None:
        """Add files that the task is not about; about half of them contain one of the given lines."""
        for _ in range(self.level.distractors):
            held = [self.one(lines)] if lines and self.chance(0.5) else []
            self.add(f"{self.place()}/{self.name()}{self.one(endings)}", self.lines(held))

    def text(self, path: str) -> str:
        """Return the contents of a file."""
        return self.files[path].data.decode()
