"""Where the questions of an environment come from: generated worlds, or files; each task with its search engine.

What is read or made is kept once in a process, and a pickled source travels as the recipe. Left out on purpose: how
files are read (`questions`, `turnwise.tools.retrieval`), and how worlds are made (`generator`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Protocol

from turnwise.envs.errors import NoGames, UnknownOption, UnknownTask
from turnwise.envs.search.generator import QuestionGenerator, SearchLevel
from turnwise.envs.search.generator import world as world_of
from turnwise.envs.search.questions import Question, load_questions
from turnwise.envs.search.reader_demonstrator import QuestionStep, queries
from turnwise.envs.search.search_engine import PassageFinder, PassageRanker, RetrieverOptions, open_retriever
from turnwise.registry import suggest
from turnwise.tools.retrieval import Passage, Passages, RetrievalError

__all__ = ["FILE_SPLITS", "FileSearchTasks", "GeneratedSearchTasks", "PassageHint", "SearchTask", "SearchTaskSource"]

FILE_SPLITS: Final = ("all", "train", "held_out")
_HELD_OUT: Final = 5
"""One question in so many of a file is held out, by a checksum of its id."""

Find = Callable[[str, int], list[Passage]]


@dataclass(frozen=True, slots=True)
class PassageHint:
    """How an expert comes to one of the gold passages: its id, and queries to try."""

    id: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A question, the search that belongs to it, and the way to its answer."""

    question: Question
    find: Find
    hints: tuple[PassageHint, ...]


class SearchTaskSource(Protocol):
    """Where an environment takes its tasks from."""

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the tasks of the split."""

    def draw(self, rng: Any) -> str:
        """Return the id of a task that `rng` (a numpy Generator) draws."""

    def get(self, id: str) -> SearchTask:
        """Return the task of an id."""

    def made(self) -> dict[str, Any]:
        """Return what tells this source from others, on any machine (see `turnwise.envs.snapshot`)."""


class GeneratedSearchTasks:
    """Questions about generated worlds."""

    def __init__(self, split: str | None, level: SearchLevel | str, retriever: object, means: RetrieverOptions) -> None:
        """Take a split (None: "train") of a level; where indexes are kept, each world has a folder of its own.

        Raises:
            UnknownOption: no such split or level, or no such retriever.
        """
        self._made_of = split, level, retriever, means
        self._puzzles = QuestionGenerator(split or "train", level)
        remote = isinstance(retriever, str) and retriever.startswith("http")
        if remote or (
            isinstance(retriever, PassageFinder | PassageRanker) and not isinstance(retriever, str | type)
        ):  # a str has find()
            raise UnknownOption(
                "generated worlds have passages of their own: give the retriever as a function of a corpus, not as "
                f"{type(retriever).__name__}"
            )
        self._retriever, self._means = retriever, means
        self._own: dict[str, Find] = {}
        if isinstance(retriever, str) or not callable(retriever):  # refuses now what makes no sense
            open_retriever(retriever, world_of(self._puzzles.split, "tiny").corpus, replace(means, keep=None))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the recipe."""
        return type(self), self._made_of

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the first tasks, 1,000 if no count is given."""
        return self._puzzles.ids(count)

    def draw(self, rng: Any) -> str:
        """Return the id of a task."""
        return self._puzzles.draw(rng)

    def get(self, id: str) -> SearchTask:
        """Return the task of an id.

        Raises:
            UnknownTask: there is none.
        """
        puzzle = self._puzzles.get(id)
        hints = tuple(
            PassageHint(hop.thing.id, queries(QuestionStep(hop.relation, hop.thing.words[2]), hop.thing.name))
            for hop in puzzle.hops
        )
        return SearchTask(puzzle.question, self._find(puzzle.world_name, puzzle.world.corpus), hints)

    def made(self) -> dict[str, Any]:
        """Return what tells this source from others."""
        puzzles = self._puzzles
        made = {"questions": "generated", "level": puzzles.level.text, "split": puzzles.split}
        return {**made, "retriever": _kind(self._retriever, self._means)}

    def _find(self, name: str, corpus: Passages) -> Find:
        """Return the search in a world; indexes of our own kind are shared in the process."""
        if isinstance(self._retriever, str):
            return _shared(self._retriever, name, self._means)
        if name not in self._own:
            while len(self._own) >= 8:
                self._own.pop(next(iter(self._own)))
            self._own[name] = open_retriever(self._retriever, corpus)
        return self._own[name]


@lru_cache(maxsize=32)
def _shared(retriever: str, name: str, means: RetrieverOptions) -> Find:
    split, level, number = name.split("/")
    if means.keep is not None:
        means = replace(means, keep=str(Path(means.keep, split, level, number)))
    return open_retriever(retriever, world_of(split, level, int(number)).corpus, means)


class FileSearchTasks:
    """Questions of a file, about the passages of another one or of a retriever that has its own."""

    def __init__(
        self,
        questions: str,
        corpus: str | None,
        split: str | None,
        retriever: object,
        strict: bool,
        means: RetrieverOptions,
    ) -> None:
        """Read the files.

        Raises:
            EnvError: a file is missing or broken, or there is no such split.
        """
        self._made_of = questions, corpus, split, retriever, strict, means
        self._split = split or "all"
        if self._split not in FILE_SPLITS:
            raise UnknownOption(f"a file of questions has no split {split!r}{suggest(str(split), FILE_SPLITS)}")
        self._path, self._retriever, self._means = questions, retriever, means
        self._find, self.corpus = _opened(corpus, retriever, strict, _stamp(corpus), means)
        found, self.skipped = load_questions(questions, strict=strict)
        self._questions = {one.id: one for one in found if _in_split(one.id, self._split)}
        if not self._questions:
            raise UnknownOption(f"no question of {questions} is in the split {self._split!r}; there are {len(found)}")

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel as the recipe."""
        return type(self), self._made_of

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the questions of the split."""
        return list(self._questions)[:count]

    def draw(self, rng: Any) -> str:
        """Return the id of a question."""
        return list(self._questions)[int(rng.integers(len(self._questions)))]

    def get(self, id: str) -> SearchTask:
        """Return the task of an id.

        Raises:
            UnknownTask: there is none.
        """
        question = self._questions.get(id)
        if question is None:
            raise UnknownTask.of(id, self._questions, f"the split {self._split!r} of {self._path}")
        hints = tuple(PassageHint(gold, (question.text, *self._titles(gold))) for gold in question.gold)
        return SearchTask(question, self._find, hints)

    def made(self) -> dict[str, Any]:
        """Return what tells this source from others: not the paths, which differ between machines."""
        corpus = self.corpus
        known = "the retriever's own" if corpus is None else f"{len(corpus):,} passages ({corpus.fingerprint[:16]})"
        made = {"questions": f"{len(self._questions):,} in a file", "corpus": known, "split": self._split}
        return {**made, "retriever": _kind(self._retriever, self._means)}

    def _titles(self, gold: str) -> tuple[str, ...]:
        try:
            passage = None if self.corpus is None else self.corpus.get(gold)
        except RetrievalError as error:
            raise NoGames(str(error)) from error
        return () if passage is None else (passage.name,)


@lru_cache(maxsize=4)
def _read(path: str, strict: bool, stamp: tuple[int, int]) -> Passages:
    try:
        return Passages.open(path, strict=strict)
    except RetrievalError as error:
        raise NoGames(str(error)) from error


@lru_cache(maxsize=4)
def _indexed(path: str, strict: bool, stamp: tuple[int, int], retriever: str, means: RetrieverOptions) -> Find:
    return open_retriever(retriever, _read(path, strict, stamp), means)


def _opened(
    path: str | None, retriever: object, strict: bool, stamp: tuple[int, int], means: RetrieverOptions
) -> tuple[Find, Passages | None]:
    corpus = None if path is None else _read(path, strict, stamp)
    if path is not None and isinstance(retriever, str):
        return _indexed(path, strict, stamp, retriever, means), corpus
    return open_retriever(retriever, corpus, means), corpus


def _stamp(path: str | None) -> tuple[int, int]:
    """Return size and time of change of a file, so that one that changed is read anew."""
    try:
        status = Path(path).stat() if path else None
    except (OSError, ValueError):
        status = None
    return (status.st_size, status.st_mtime_ns) if status else (0, 0)


def _kind(retriever: object, means: RetrieverOptions) -> str:
    """Return what a retriever is, but not where: a service may have another address elsewhere, a model another path."""
    if isinstance(retriever, str):
        name = "a service" if retriever.startswith("http") else retriever
        return name if means.model is None else f"{name} by {Path(means.model).name}"
    return str(getattr(retriever, "__qualname__", type(retriever).__qualname__))


def _in_split(id: str, split: str) -> bool:
    held_out = zlib.crc32(id.encode(errors="replace")) % _HELD_OUT == 0
    return split == "all" or held_out == (split == "held_out")
