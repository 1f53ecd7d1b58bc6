"""The search engine of the environment: a retriever whose failed searches are repeated.

A retriever has either `find(query, k)`, which returns passages with id, title, text and score, or `search(query, k)`,
which returns (id, score) pairs for passages of the corpus. A search that fails or takes too long is repeated;
`SearchFailed` reports the last error. Errors that repetition cannot fix, such as a rejected query, are reported at
once. The retrievers themselves are in `turncredit.tools.retrieval`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Final, Protocol, get_args, runtime_checkable

from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.processes.deadlines import DeadlinePassed, call_in_thread, wait
from turncredit.registry import suggest
from turncredit.tools.retrieval import (
    NoRetriever,
    Passage,
    Passages,
    RemoteRetriever,
    RetrievalError,
    RetrieverDown,
    SentenceModel,
    open_library,
    packaged_model,
)
from turncredit.tools.retrieval.library import Index

__all__ = ["PassageFinder", "PassageRanker", "RetrieverOptions", "SearchEngine", "SearchFailed", "open_retriever"]

_ADDRESS: Final = ("http://", "https://")
_PATIENCE: Final = 30.0  # default time limit of a service in seconds


class SearchFailed(EnvError):
    """All attempts of a search failed or timed out, or the retriever rejected the query.

    Args:
        sentence: what happened, with the URL of a service.
        told: the same for the agent, without the URL; "" if equal.
    """

    def __init__(self, sentence: str = "", *, told: str = "") -> None:
        """Keep both messages."""
        super().__init__(sentence)
        self.told = told or sentence


@dataclass(frozen=True, slots=True)
class RetrieverOptions:
    """How a retriever with a name or URL is created.

    Args:
        model: folder of a sentence encoder; None for the one of the extra `dense`.
        keep: folder in which indexes are stored; None to build them in each process.
        timeout: time limit of a service in seconds; None for 30.
    """

    model: str | None = None
    keep: str | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, retriever: object, model: str | None, keep: str | None, timeout: float | None) -> RetrieverOptions:
        """Return the options that apply to a retriever.

        Raises:
            UnknownOption: the retriever does not use a model or a stored index.
        """
        if model is not None and retriever not in ("dense", "hybrid"):
            raise UnknownOption(f"model requires retriever='dense' or 'hybrid', got {retriever!r}")
        if keep is not None and retriever not in get_args(Index):
            names = ", ".join(map(repr, get_args(Index)))
            raise UnknownOption(f"keep requires one of the retrievers {names}, got {retriever!r}")
        remote = isinstance(retriever, str) and retriever.startswith(_ADDRESS)
        return cls(model, keep, timeout if remote else None)


_PLAIN: Final = RetrieverOptions()


@runtime_checkable
class PassageFinder(Protocol):
    """Finds passages: a library or the client of a server."""

    def find(self, query: str, k: int) -> Sequence[Any]:
        """Return at most k passages with id, title, text and score, best first."""


@runtime_checkable
class PassageRanker(Protocol):
    """Ranks the passages of a corpus."""

    def search(self, query: str, k: int) -> Sequence[tuple[str, float]]:
        """Return at most k pairs (id, score), best first."""


class SearchEngine:
    """Calls a retriever and repeats failed searches.

    Args:
        find: returns the passages for (query, k).
        retries: how often a failed search is repeated.
        backoff: waiting time before the first repetition in seconds; doubles each time.
        timeout: time limit of an attempt in seconds; None for no limit. An attempt that hangs keeps running in its
            thread.
        sleep: waiting function, for tests.
    """

    def __init__(
        self,
        find: Callable[[str, int], Sequence[Passage]],
        *,
        retries: int = 2,
        backoff: float = 0.5,
        timeout: float | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise UnknownOption(f"retries must be a whole number >= 0, got {retries!r}")
        if not isinstance(backoff, int | float) or not 0 <= backoff <= 3600:
            raise UnknownOption(f"backoff must be a number of seconds in [0, 3600], got {backoff!r}")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise UnknownOption(f"timeout must be a number of seconds > 0 or None, got {timeout!r}")
        self._find, self._sleep = find, sleep
        self._retries, self._backoff, self._timeout = retries, float(backoff), timeout

    def find(self, query: str, k: int) -> list[Passage]:
        """Return at most k passages, best first.

        Raises:
            SearchFailed: all attempts failed, or one failed in a way that another cannot fix.
        """
        for tried in range(self._retries + 1):
            if tried:
                self._sleep(self._backoff * 2 ** (tried - 1))
            try:
                return list(self._timed(query, k))[:k]
            except Exception as error:  # a custom retriever may raise anything
                last = error
                if _lasting(error):
                    raise _failed("failed, and would again", error) from error
        times = "once" if not self._retries else f"{self._retries + 1} times"
        raise _failed(f"failed {times}, at last with {type(last).__name__}", last) from last

    def _timed(self, query: str, k: int) -> Sequence[Passage]:
        if self._timeout is None:
            return self._find(query, k)
        try:
            return wait(call_in_thread(partial(self._find, query, k), "turncredit-search"), self._timeout)
        except DeadlinePassed:
            raise TimeoutError(f"no answer within {self._timeout} s") from None


def _lasting(error: Exception) -> bool:
    """Return whether repeating cannot help: any retrieval error except a service that does not respond."""
    if isinstance(error, RetrieverDown):
        return isinstance(error, NoRetriever)
    return isinstance(error, RetrievalError)


def _failed(how: str, error: Exception) -> SearchFailed:
    """Return the error for a failed search."""
    at, why = (error.url, error.reason) if isinstance(error, RetrievalError) else ("", str(error))
    location = f" at {at}" if at else ""
    return SearchFailed(f"the retriever{location} {how}: {why}", told=f"the retriever {how}: {why}")


def open_retriever(
    retriever: object, corpus: Passages | None, options: RetrieverOptions = _PLAIN
) -> Callable[[str, int], list[Passage]]:
    """Return a function that finds passages.

    Args:
        retriever: "bm25", "dense", "hybrid", the URL of a service with `/retrieve`, a `PassageFinder`, a
            `PassageRanker`, or a function that returns one of these, given a corpus.
        corpus: the passages; a `PassageFinder` does not need them.
        options: options for a retriever with a name or URL.

    Raises:
        UnknownOption: it is none of these, or needs a corpus.
    """
    if isinstance(retriever, str):
        retriever = _named(retriever, corpus, options)
    # A class also has the methods of its instances, but is a function that creates one.
    if callable(retriever) and (
        isinstance(retriever, type) or not isinstance(retriever, PassageFinder | PassageRanker)
    ):
        retriever = retriever(_needed(corpus))
    if isinstance(retriever, PassageFinder):
        finder = retriever
        return lambda query, k: [_passage(passage) for passage in finder.find(query, k)]
    if isinstance(retriever, PassageRanker):
        ranker, passages = retriever, _needed(corpus)
        return lambda query, k: [_ranked(passages, id, score) for id, score in ranker.search(query, k)]
    raise UnknownOption(
        f"retriever must have find(query, k) or search(query, k), or be a name such as 'bm25', got {retriever!r}"
    )


def _named(name: str, corpus: Passages | None, options: RetrieverOptions) -> PassageFinder | PassageRanker:
    """Return the retriever with a name, or the client of a URL."""
    try:
        if name.startswith(_ADDRESS):
            # The search engine repeats failed searches.
            seconds = _PATIENCE if options.timeout is None else options.timeout
            limit = seconds if isfinite(seconds) else None
            return RemoteRetriever(name, tries=1, timeout=limit, deadline=limit)
        if name not in get_args(Index):
            raise UnknownOption(
                f"unknown retriever {name!r}{suggest(name, get_args(Index))}, or the address of a service, or an object"
            )
        model = None if name == "bm25" else _model(options.model)
        return open_library(_needed(corpus), name, model=model, keep=options.keep)
    except (RetrievalError, ImportError, OSError) as error:
        raise UnknownOption(f"cannot create the retriever {name!r}: {error}") from error


@lru_cache(maxsize=2)
def _model(folder: str | None) -> SentenceModel:
    """Return a sentence encoder, loaded once per process."""
    return packaged_model() if folder is None else SentenceModel(folder)


def _needed(corpus: Passages | None) -> Passages:
    if corpus is None:
        raise UnknownOption("a retriever with search(query, k) requires its passages: corpus=PATH")
    return corpus


def _passage(passage: Any) -> Passage:
    return Passage(str(passage.id), str(passage.title), str(passage.text), float(passage.score))


def _ranked(corpus: Passages, id: str, score: float) -> Passage:
    return replace(corpus[str(id)], score=float(score))
