"""What every retriever is: a query in, ids of documents with scores out, the best first.

`BM25`, `Dense`, `Hybrid` and `Remote` are retrievers; so is anything of a user's with these two methods. What a score
means is the retriever's own affair; only the order is shared.
"""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np

from turnwise.tools.retrieval.errors import BadQuery

__all__ = ["Hits", "Retriever", "checked_number", "checked_queries", "checked_query"]

Hits = list[tuple[str, float]]
"""Pairs (id, score), the best first."""


@runtime_checkable
class Retriever(Protocol):
    """Something that finds documents."""

    def search(self, query: str, k: int = 10) -> Hits:
        """Return at most k pairs (id, score), the best first, no id twice.

        Args:
            query: any text.
            k: how many, at least 1.

        Raises:
            BadQuery: the query is no str, or k is no whole number of at least 1.
        """
        ...

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return what `search` gives for each query.

        Args:
            queries: texts; one str alone is refused, since its letters would be taken for queries.
            k: how many each, at least 1.

        Raises:
            BadQuery: see `search`.
        """
        ...


def checked_query(query: object) -> str:
    """Return a query, or say what is wrong with it.

    Raises:
        BadQuery: it is no str.
    """
    if not isinstance(query, str):
        raise BadQuery(f"a query must be a str; came {type(query).__name__}")
    return query


def checked_queries(queries: object) -> list[str]:
    """Return queries as a list, or say what is wrong with them.

    Raises:
        BadQuery: they are one str, nothing that can be gone through, or hold something else than str.
    """
    if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
        raise BadQuery(f"queries must be a list of str; came one {type(queries).__name__}")
    return [checked_query(query) for query in queries]


def checked_number(k: object) -> int:
    """Return a number of results, or say what is wrong with it.

    Raises:
        BadQuery: it is no whole number of at least 1.
    """
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise BadQuery(f"k, the number of results, must be a whole number of at least 1; came {k!r}")
    return int(k)
