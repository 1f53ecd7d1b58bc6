"""The search behind an environment: a retriever over passages, asked again where it fails.

Anything will do that has `find(query, k)` and gives passages with id, title, text and score, or that has
`search(query, k)` and gives (id, score) of passages of the corpus. Errors and slowness of a retriever are the
environment's to tell; `SearchFailed` says what the last of several tries came to. What asking
again cannot mend, such as a query that is refused, is not asked again.

Left out on purpose: retrievers. They are in `turnwise.tools.retrieval`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import isfinite
from typing import Any, Final, Protocol, get_args, runtime_checkable

from turnwise.envs.errors import EnvError, UnknownOption
from turnwise.registry import suggest
from turnwise.tools.deadlines import DeadlinePassed, call_in_thread, wait
from turnwise.tools.retrieval import (
    NoRetriever,
    Passage,
    Passages,
    Remote,
    RetrievalError,
    RetrieverDown,
    SentenceModel,
    open_library,
    packaged,
)
from turnwise.tools.retrieval.open import Index

__all__ = ["PassageFinder", "PassageRanker", "RetrieverOptions", "SearchEngine", "SearchFailed", "open_retriever"]

_ADDRESS: Final = ("http://", "https://")
_PATIENCE: Final = 30.0  # seconds for an answer of a service, where nothing is said: one that hangs must not hang a run


class SearchFailed(EnvError):
    """The retriever failed or was too slow, each time it was asked, or refused.

    Args:
        sentence: what happened, with the address of a service.
        told: the same for the agent, whom no address concerns; "" where it is the sentence.
    """

    def __init__(self, sentence: str = "", *, told: str = "") -> None:
        """Keep both."""
        super().__init__(sentence)
        self.told = told or sentence


@dataclass(frozen=True, slots=True)
class RetrieverOptions:
    """What a retriever that is named is made with.

    Args:
        model: folder of a sentence encoder; None: that of the extra `dense`.
        keep: folder in which indexes are kept; None: they are made in each process.
        timeout: seconds for an answer of a service; None: 30.
    """

    model: str | None = None
    keep: str | None = None
    timeout: float | None = None

    @classmethod
    def of(cls, retriever: object, model: str | None, keep: str | None, timeout: float | None) -> RetrieverOptions:
        """Return what of it concerns a retriever.

        Raises:
            UnknownOption: there is a model or a folder for one that has no use for it.
        """
        if model is not None and retriever not in ("dense", "hybrid"):
            raise UnknownOption(
                f"model is given, which retriever='dense' and 'hybrid' have a use for; not {retriever!r}"
            )
        if keep is not None and retriever not in get_args(Index):
            names = ", ".join(map(repr, get_args(Index)))
            raise UnknownOption(f"keep is given, and only the indexes of {names} can be kept; not {retriever!r}")
        remote = isinstance(retriever, str) and retriever.startswith(_ADDRESS)
        return cls(model, keep, timeout if remote else None)


_PLAIN: Final = RetrieverOptions()


@runtime_checkable
class PassageFinder(Protocol):
    """What finds passages by itself, such as a library or a client of a server."""

    def find(self, query: str, k: int) -> Sequence[Any]:
        """Return at most k passages with id, title, text and score, the best first."""


@runtime_checkable
class PassageRanker(Protocol):
    """What ranks the passages of a corpus."""

    def search(self, query: str, k: int) -> Sequence[tuple[str, float]]:
        """Return at most k pairs (id, score), the best first."""


class SearchEngine:
    """A retriever that is asked again, a little later, where it fails.

    Args:
        find: returns the passages for (query, k).
        retries: how many times more a failed search is tried.
        backoff: seconds before the second try, doubled before each further one.
        timeout: seconds after which a try has failed; None waits for ever. A try that hangs is left behind in its
            thread, since nothing can stop it.
        sleep: waits; for tests.
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
            raise UnknownOption(f"retries is {retries!r}; it is a whole number of 0 or more")
        if not isinstance(backoff, int | float) or not 0 <= backoff <= 3600:
            raise UnknownOption(f"backoff is {backoff!r}; it is a number of seconds from 0 to 3600")
        if timeout is not None and not (isinstance(timeout, int | float) and timeout > 0):
            raise UnknownOption(f"timeout is {timeout!r}; it is a number of seconds above 0, or None")
        self._find, self._sleep = find, sleep
        self._retries, self._backoff, self._timeout = retries, float(backoff), timeout

    def find(self, query: str, k: int) -> list[Passage]:
        """Return at most k passages, the best first.

        Raises:
            SearchFailed: every try failed, or one that will not go better.
        """
        for tried in range(self._retries + 1):
            if tried:
                self._sleep(self._backoff * 2 ** (tried - 1))
            try:
                return list(self._timed(query, k))[:k]
            except Exception as error:  # whatever a retriever of anyone's raises
                last = error
                if _lasting(error):
                    raise _failed("failed, and would again", error) from error
        times = "once" if not self._retries else f"{self._retries + 1} times"
        raise _failed(f"failed {times}, at last with {type(last).__name__}", last) from last

    def _timed(self, query: str, k: int) -> Sequence[Passage]:
        if self._timeout is None:
            return self._find(query, k)
        try:
            return wait(call_in_thread(partial(self._find, query, k), "turnwise-search"), self._timeout)
        except DeadlinePassed:
            raise TimeoutError(f"no answer within {self._timeout} s") from None


def _lasting(error: Exception) -> bool:
    """Whether asking again cannot help: whatever is wrong with a search but a service that does not answer."""
    if isinstance(error, RetrieverDown):
        return isinstance(error, NoRetriever)
    return isinstance(error, RetrievalError)


def _failed(how: str, error: Exception) -> SearchFailed:
    """Return the error that tells what became of a search."""
    at, why = (error.at, error.why) if isinstance(error, RetrievalError) else ("", str(error))
    place = f" at {at}" if at else ""
    return SearchFailed(f"the retriever{place} {how}: {why}", told=f"the retriever {how}: {why}")


def open_retriever(
    retriever: object, corpus: Passages | None, means: RetrieverOptions = _PLAIN
) -> Callable[[str, int], list[Passage]]:
    """Return the function that finds passages.

    Args:
        retriever: "bm25", "dense", "hybrid", the address of a service with `/retrieve`, a `Finder`, a `Ranker`, or a
            function that makes one of these of the corpus.
        corpus: the passages; a `Finder` needs none.
        means: what it is made with, where it is a name or an address.

    Raises:
        UnknownOption: it is none of these, or a ranker has no corpus.
    """
    if isinstance(retriever, str):
        retriever = _named(retriever, corpus, means)
    # A class has the methods of its instances, and is a function that makes one.
    if callable(retriever) and (
        isinstance(retriever, type) or not isinstance(retriever, PassageFinder | PassageRanker)
    ):
        retriever = retriever(_needed(corpus))
    if isinstance(retriever, PassageFinder):
        finder = retriever
        return lambda query, k: [_passage(one) for one in finder.find(query, k)]
    if isinstance(retriever, PassageRanker):
        ranker, passages = retriever, _needed(corpus)
        return lambda query, k: [_ranked(passages, id, score) for id, score in ranker.search(query, k)]
    raise UnknownOption(f"retriever is {retriever!r}; it needs find(query, k) or search(query, k), or is 'bm25'")


def _named(name: str, corpus: Passages | None, means: RetrieverOptions) -> PassageFinder | PassageRanker:
    """Return the retriever of a name, or the client of an address."""
    try:
        if name.startswith(_ADDRESS):
            # It is the engine that tries again.
            seconds = _PATIENCE if means.timeout is None else means.timeout
            limit = seconds if isfinite(seconds) else None
            return Remote(name, tries=1, timeout=limit, deadline=limit)
        if name not in get_args(Index):
            raise UnknownOption(
                f"unknown retriever {name!r}{suggest(name, get_args(Index))}, or the address of a service, or an object"
            )
        model = None if name == "bm25" else _model(means.model)
        return open_library(_needed(corpus), name, model=model, keep=means.keep)
    except (RetrievalError, ImportError, OSError) as error:
        raise UnknownOption(f"the retriever {name!r} cannot be made: {error}") from error


@lru_cache(maxsize=2)
def _model(folder: str | None) -> SentenceModel:
    """Return a sentence encoder, loaded once for all corpora of a process."""
    return packaged() if folder is None else SentenceModel(folder)


def _needed(corpus: Passages | None) -> Passages:
    if corpus is None:
        raise UnknownOption("a retriever that ranks ids needs the passages: corpus=PATH")
    return corpus


def _passage(found: Any) -> Passage:
    return Passage(str(found.id), str(found.title), str(found.text), float(found.score))


def _ranked(corpus: Passages, id: str, score: float) -> Passage:
    return replace(corpus[str(id)], score=float(score))
