"""A library: passages and what finds them, so that a query gives texts and not only ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from turnwise.tools.retrieval.bm25 import BM25
from turnwise.tools.retrieval.passages import Passage, Passages, scored
from turnwise.tools.retrieval.retriever import Hits, Retriever

__all__ = ["Finder", "Library"]


@runtime_checkable
class Finder(Protocol):
    """Something that gives passages for a query: a `Library`, or a `Remote` one."""

    def find(self, query: str, k: int = 3) -> list[Passage]:
        """Return at most k passages, the best first.

        Args:
            query: any text.
            k: how many, at least 1.
        """
        ...

    def find_batch(self, queries: Iterable[str], k: int = 3) -> list[list[Passage]]:
        """Return what `find` gives for each query.

        Args:
            queries: texts.
            k: how many each, at least 1.
        """
        ...


class Library:
    """Passages with a retriever.

    >>> library = Library(Passages.of([("1", '"Tea"\\nTea is a drink.'), ("2", '"Rye"\\nRye is a grass.')]))
    >>> [(found.id, found.name) for found in library.find("a hot drink", k=1)]
    [('1', 'Tea')]

    Args:
        passages: the texts.
        retriever: what finds their ids; without one BM25 over the contents, built here.
    """

    def __init__(self, passages: Passages, retriever: Retriever | None = None) -> None:
        """Take both, or build what is missing."""
        self.passages = passages
        self.retriever: Retriever = BM25.build(passages.documents()) if retriever is None else retriever

    def __len__(self) -> int:
        """Return how many passages there are."""
        return len(self.passages)

    def find(self, query: str, k: int = 3) -> list[Passage]:
        """Return at most k passages, the best first.

        Args:
            query: any text.
            k: how many, at least 1.

        Raises:
            BadQuery: the query is no str, or k is no whole number of at least 1.
            BadCorpus: the retriever is of another corpus.
        """
        return self._read(self.retriever.search(query, k))

    def find_batch(self, queries: Iterable[str], k: int = 3) -> list[list[Passage]]:
        """Return what `find` gives for each query.

        Args:
            queries: texts; one str alone is refused.
            k: how many each, at least 1.

        Raises:
            BadQuery, BadCorpus: see `find`.
        """
        return [self._read(hits) for hits in self.retriever.search_batch(queries, k)]

    def _read(self, hits: Hits) -> list[Passage]:
        return [scored(self.passages, id, score) for id, score in hits]
