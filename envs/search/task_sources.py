"""Where the questions of a search environment come from: generated worlds or files; each task has its search engine.

What is read or generated is cached per process, and sources are pickled by their arguments.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from turncredit.envs.errors import NoGames, UnknownOption, UnknownTask
from turncredit.envs.search.generator import QuestionGenerator, SearchLevel
from turncredit.envs.search.generator import world as world_of
from turncredit.envs.search.questions import Question, load_questions
from turncredit.envs.search.reader_demonstrator import QuestionStep, queries
from turncredit.envs.search.search_engine import PassageFinder, PassageRanker, RetrieverOptions, open_retriever
from turncredit.registry import suggest
from turncredit.tools.retrieval import Passage, Passages, RetrievalError

__all__ = ["FILE_SPLITS", "FileSearchTasks", "GeneratedSearchTasks", "PassageHint", "SearchTask", "SearchTaskSource"]

FILE_SPLITS: Final = ("all", "train", "held_out")
_HELD_OUT: Final = 5
"""One of five questions in a file is held out, by a checksum of its id."""

Find = Callable[[str, int], list[Passage]]


@dataclass(frozen=True, slots=True)
class PassageHint:
    """How the expert finds a gold passage: its id, and queries to try."""

    id: str
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchTask:
    """A question, the search function for it, and hints for its gold passages."""

    question: Question
    find: Find
    hints: tuple[PassageHint, ...]


class SearchTaskSource(Protocol):
    """Tasks by id."""

    def ids(self, count: int | None) -> list[str]:
        """Return ids of tasks of the split."""

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id, drawn with a numpy Generator."""

    def get(self, id: str) -> SearchTask:
        """Return the task with an id."""

    def made(self) -> dict[str, object]:
        """Return what identifies this source on any machine (see `turncredit.envs.snapshot`)."""


class GeneratedSearchTasks:
    """Questions about generated worlds."""

    def __init__(
        self, split: str | None, level: SearchLevel | str, retriever: object, options: RetrieverOptions
    ) -> None:
        """Choose a split (None: "train") and a level. If indexes are stored, each world has its own folder.

        Raises:
            UnknownOption: invalid split, level or retriever.
        """
        self._made_of = split, level, retriever, options
        self._generator = QuestionGenerator(split or "train", level)
        remote = isinstance(retriever, str) and retriever.startswith("http")
        if remote or (
            isinstance(retriever, PassageFinder | PassageRanker) and not isinstance(retriever, str | type)
        ):  # str has find() as well
            raise UnknownOption(
                "generated worlds require a retriever name or a function that makes a retriever of a corpus, got "
                f"{type(retriever).__name__}"
            )
        self._retriever, self._options = retriever, options
        self._own: dict[str, Find] = {}
        if isinstance(retriever, str) or not callable(retriever):  # raises for invalid values now
            open_retriever(retriever, world_of(self._generator.split, "tiny").corpus, replace(options, keep=None))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the arguments."""
        return type(self), self._made_of

    def ids(self, count: int | None) -> list[str]:
        """Return the first ids; 1,000 for None."""
        return self._generator.ids(count)

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        return self._generator.draw(rng)

    def get(self, id: str) -> SearchTask:
        """Return the task with an id.

        Raises:
            UnknownTask: no such task.
        """
        generated = self._generator.get(id)
        hints = tuple(
            PassageHint(hop.entity.id, queries(QuestionStep(hop.relation, hop.entity.words[2]), hop.entity.name))
            for hop in generated.hops
        )
        return SearchTask(generated.question, self._find(generated.world_name, generated.world.corpus), hints)

    def made(self) -> dict[str, object]:
        """Return what identifies this source."""
        generator = self._generator
        made = {"questions": "generated", "level": generator.level.text, "split": generator.split}
        return {**made, "retriever": _kind(self._retriever, self._options)}

    def _find(self, name: str, corpus: Passages) -> Find:
        """Return the search function of a world; built-in indexes are shared within the process."""
        if isinstance(self._retriever, str):
            return _shared(self._retriever, name, self._options)
        if name not in self._own:
            while len(self._own) >= 8:
                self._own.pop(next(iter(self._own)))
            self._own[name] = open_retriever(self._retriever, corpus)
        return self._own[name]


@lru_cache(maxsize=32)
def _shared(retriever: str, name: str, options: RetrieverOptions) -> Find:
    split, level, number = name.split("/")
    if options.keep is not None:
        options = replace(options, keep=str(Path(options.keep, split, level, number)))
    return open_retriever(retriever, world_of(split, level, int(number)).corpus, options)


class FileSearchTasks:
    """Questions in a file, with passages in another file or in the retriever."""

    def __init__(
        self,
        questions: str,
        corpus: str | None,
        split: str | None,
        retriever: object,
        strict: bool,
        options: RetrieverOptions,
    ) -> None:
        """Read the files.

        Raises:
            EnvError: a file is missing or invalid, or the split does not exist.
        """
        self._made_of = questions, corpus, split, retriever, strict, options
        self._split = split or "all"
        if self._split not in FILE_SPLITS:
            raise UnknownOption(f"unknown split {split!r}{suggest(str(split), FILE_SPLITS)}")
        self._path, self._retriever, self._options = questions, retriever, options
        self._find, self.corpus = _opened(corpus, retriever, strict, _stamp(corpus), options)
        loaded, self.skipped = load_questions(questions, strict=strict)
        if not all(question.answers for question in loaded):
            raise NoGames(
                f"{questions} has queries with relevant passages but without answers, as in BEIR: load_questions and "
                "recall measure retrieval with them, and an episode needs answers"
            )
        self._questions = {item.id: item for item in loaded if _in_split(item.id, self._split)}
        if not self._questions:
            raise UnknownOption(
                f"the split {self._split!r} of {questions} is empty; the file has {len(loaded)} questions"
            )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the arguments."""
        return type(self), self._made_of

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the split's questions."""
        return list(self._questions)[:count]

    def draw(self, rng: np.random.Generator) -> str:
        """Return a random id."""
        return list(self._questions)[int(rng.integers(len(self._questions)))]

    def get(self, id: str) -> SearchTask:
        """Return the task with an id.

        Raises:
            UnknownTask: no such task.
        """
        question = self._questions.get(id)
        if question is None:
            raise UnknownTask.of(id, self._questions, f"the split {self._split!r} of {self._path}")
        hints = tuple(PassageHint(gold, (question.text, *self._titles(gold))) for gold in question.gold)
        return SearchTask(question, self._find, hints)

    def made(self) -> dict[str, object]:
        """Return what identifies this source, without paths, which differ between machines."""
        corpus = self.corpus
        passages = "the retriever's own" if corpus is None else f"{len(corpus):,} passages ({corpus.fingerprint[:16]})"
        made = {"questions": f"{len(self._questions):,} in a file", "corpus": passages, "split": self._split}
        return {**made, "retriever": _kind(self._retriever, self._options)}

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
def _indexed(path: str, strict: bool, stamp: tuple[int, int], retriever: str, options: RetrieverOptions) -> Find:
    return open_retriever(retriever, _read(path, strict, stamp), options)


def _opened(
    path: str | None, retriever: object, strict: bool, stamp: tuple[int, int], options: RetrieverOptions
) -> tuple[Find, Passages | None]:
    corpus = None if path is None else _read(path, strict, stamp)
    if path is not None and isinstance(retriever, str):
        return _indexed(path, strict, stamp, retriever, options), corpus
    return open_retriever(retriever, corpus, options), corpus


def _stamp(path: str | None) -> tuple[int, int]:
    """Return size and modification time of a file, so that a changed file is read again."""
    try:
        status = Path(path).stat() if path else None
    except (OSError, ValueError):
        status = None
    return (status.st_size, status.st_mtime_ns) if status else (0, 0)


def _kind(retriever: object, options: RetrieverOptions) -> str:
    """Return a description of a retriever without its location, which may differ between machines."""
    if isinstance(retriever, str):
        name = "a service" if retriever.startswith("http") else retriever
        return name if options.model is None else f"{name} by {Path(options.model).name}"
    return str(getattr(retriever, "__qualname__", type(retriever).__qualname__))


def _in_split(id: str, split: str) -> bool:
    held_out = zlib.crc32(id.encode(errors="replace")) % _HELD_OUT == 0
    return split == "all" or held_out == (split == "held_out")
