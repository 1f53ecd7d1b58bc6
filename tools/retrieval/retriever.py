"""Interface of retrievers: a query in, document ids with scores out.

`BM25`, `Dense`, `Hybrid` and `RemoteRetriever` implement it, and so can any class with these two methods. Scores of
different retrievers are not comparable.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from turncredit.tools.retrieval.errors import BadQuery

__all__ = ["Hits", "Retriever", "check_count", "check_queries"]

Hits = list[tuple[str, float]]
"""Pairs (document id, score), best first."""


@runtime_checkable
class Retriever(Protocol):
    """Anything that finds documents for a query."""

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents for a query.

        Args:
            query: any text.
            k: maximum number of documents, at least 1.

        Raises:
            BadQuery: `query` is not a str, or `k` is not an integer >= 1.
        """
        ...

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return the result of `search` for each query.

        Args:
            queries: texts; a single str is refused, since it would be read as one query per character.
            k: maximum number of documents per query, at least 1.

        Raises:
            BadQuery: see `search`.
        """
        ...


def check_queries(queries: object) -> list[str]:
    """Return queries as a list.

    Raises:
        BadQuery: `queries` is a single str, not iterable, or contains something other than str.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise BadQuery(f"queries must be a list of str, got {type(queries).__name__}")
    checked = list(queries)
    for query in checked:
        if not isinstance(query, str):
            raise BadQuery(f"a query must be a str, got {type(query).__name__}")
    return checked


def check_count(count: object, name: str = "k") -> int:
    """Return a positive integer.

    Raises:
        BadQuery: `count` is not an integer >= 1.
    """
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
        raise BadQuery(f"{name} must be an integer >= 1, got {count!r}")
    return int(count)
