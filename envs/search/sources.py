"""Where questions and passages come from: generated worlds, or files.

A source is a value: the fields of `GeneratedQuestions` and `QuestionFiles` are the arguments that belong to that kind,
and the retriever with what it needs. `SOURCES` reads it from the plain keys that run files and the command line use.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.search.generator import SearchLevel
from turncredit.envs.search.search_engine import RetrieverOptions, SearchEngine
from turncredit.envs.search.task_sources import FileSearchTasks, GeneratedSearchTasks, SearchTaskSource
from turncredit.envs.sources import SourceKinds
from turncredit.envs.validation import flag

__all__ = ["SOURCES", "GeneratedQuestions", "QuestionFiles"]


@dataclass(frozen=True, slots=True)
class GeneratedQuestions:
    """Questions about generated worlds, which have their own passages.

    Attributes:
        level: size and difficulty: a preset of `SearchLevel`, a text such as "small+hops=2-2", or a `SearchLevel`.
        split: "train" or "held_out"; None for "train".
        retriever: "bm25", "dense", "hybrid", or a function that returns an object with `find(query, k)` or
            `search(query, k)` (see `search_engine`), given a corpus.
        model: folder of the sentence encoder of "dense" and "hybrid"; None for the one of the extra `dense`.
        keep: folder in which indexes of "bm25", "dense" and "hybrid" are stored; None to build them in each process.
        retries, backoff, timeout: how often a failed search is repeated, and waiting time and time limit in seconds
            (see `SearchEngine`). With timeout=None, services have 30 seconds and other retrievers no limit.

    Raises:
        UnknownOption: a field is invalid.
    """

    level: str | SearchLevel = "small"
    split: str | None = None
    retriever: object = "bm25"
    model: str | os.PathLike[str] | None = None
    keep: str | os.PathLike[str] | None = None
    retries: int = 2
    backoff: float = 0.5
    timeout: float | None = None

    read_level = SearchLevel.parse

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_split(self.split)
        SearchLevel.of(self.level)
        _check_retriever(self)

    def open(self) -> SearchTaskSource:
        """Return the tasks.

        Raises:
            UnknownOption: invalid split or retriever.
        """
        return GeneratedSearchTasks(self.split, SearchLevel.of(self.level), self.retriever, _options(self))


@dataclass(frozen=True, slots=True)
class QuestionFiles:
    """Questions in a file, with passages in another file or in the retriever.

    Attributes:
        questions: path of questions in FlashRAG's format, or another that `load_questions` reads.
        corpus: path of their passages; None if the retriever has its own.
        split: "all", "train" or "held_out", which is a fifth of the questions; None for "all".
        retriever: a name as for generated questions, the URL of a service such as `turncredit serve search`, an object
            with `find(query, k)` or `search(query, k)`, or a function that returns one, given the corpus.
        model, keep, retries, backoff, timeout: see `GeneratedQuestions`.
        strict: raise for an invalid record in a file; False skips it.

    Raises:
        UnknownOption: a field is invalid.
    """

    questions: str | os.PathLike[str]
    corpus: str | os.PathLike[str] | None = None
    split: str | None = None
    retriever: object = "bm25"
    model: str | os.PathLike[str] | None = None
    keep: str | os.PathLike[str] | None = None
    strict: bool = True
    retries: int = 2
    backoff: float = 0.5
    timeout: float | None = None

    def __post_init__(self) -> None:
        """Check the fields; files are looked at when they are opened."""
        _check_split(self.split)
        flag("strict", self.strict)
        _path("questions", self.questions)
        _optional_path("corpus", self.corpus)
        _check_retriever(self)

    def open(self) -> SearchTaskSource:
        """Return the tasks.

        Raises:
            EnvError: a file is missing or invalid, or the split does not exist.
        """
        questions, corpus = _path("questions", self.questions), _optional_path("corpus", self.corpus)
        return FileSearchTasks(questions, corpus, self.split, self.retriever, self.strict, _options(self))


SOURCES: Final = SourceKinds(
    GeneratedQuestions,
    QuestionFiles,
    {"corpus": "needs questions as well: the path of a file of questions about its passages"},
    {"strict": flag},
)
"""The kinds of sources, and their plain keys."""


def _check_retriever(source: GeneratedQuestions | QuestionFiles) -> None:
    """Raise UnknownOption for invalid options of the retriever now, not at the first search."""
    SearchEngine(lambda query, k: (), retries=source.retries, backoff=source.backoff, timeout=source.timeout)
    _options(source)


def _options(source: GeneratedQuestions | QuestionFiles) -> RetrieverOptions:
    """Return the retriever's options.

    Raises:
        UnknownOption: they do not fit the retriever.
    """
    encoder, folder = _optional_path("model", source.model, "folder"), _optional_path("keep", source.keep, "folder")
    return RetrieverOptions.of(source.retriever, encoder, folder, source.timeout)


def _check_split(split: object) -> None:
    if split is not None and not isinstance(split, str):
        raise UnknownOption(f"split must be a str such as 'train', got {split!r}")


def _optional_path(name: str, path: object, kind: str = "file") -> str | None:
    return None if path is None else _path(name, path, kind)


def _path(name: str, path: object, kind: str = "file") -> str:
    if not isinstance(path, str | os.PathLike) or not path or isinstance(os.fspath(path), bytes):
        raise UnknownOption(f"{name} must be the path of a {kind} or None, got {path!r}")
    return os.path.abspath(os.path.expanduser(os.fspath(path)))
