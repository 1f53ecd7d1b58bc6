"""Several retrievers as one, by the ranks that they give and not by their scores, which have no common unit.

Left out on purpose: mixtures of scores, which need a scale for each retriever and corpus.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from turnwise.tools.retrieval.errors import BadQuery
from turnwise.tools.retrieval.retriever import Hits, Retriever, checked_number, checked_queries

__all__ = ["Hybrid", "fuse"]


class Hybrid:
    """Retrievers over the same documents.

        score(d) = sum over the retrievers r that found d of weight(r) / (constant + rank of d in r, from 1)

    Each is asked for `depth` documents, or k if that is more. Of equal scores the smaller id comes first.

    Args:
        retrievers: at least one.
        constant: how little the first ranks stand out; the authors' value is 60.
        depth: how far down each list is read.
        weights: one a retriever, above 0; without them all are 1.

    Raises:
        BadQuery: an option has an impossible value.

    Source: Cormack, Clarke and Buettcher 2009, "Reciprocal rank fusion outperforms Condorcet and individual rank
    learning methods" (SIGIR); the weights are not theirs.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        constant: float = 60.0,
        depth: int = 100,
        weights: Sequence[float] | None = None,
    ) -> None:
        """Take retrievers."""
        self.retrievers = tuple(retrievers)
        self.weights = tuple(1.0 for _ in self.retrievers) if weights is None else tuple(map(float, weights))
        if not self.retrievers:
            raise BadQuery("a hybrid needs at least one retriever; came none")
        if len(self.weights) != len(self.retrievers) or not all(isfinite(w) and w > 0 for w in self.weights):
            raise BadQuery(
                f"weights must be {len(self.retrievers)} finite numbers above 0, one a retriever; came {weights!r}"
            )
        if not isfinite(constant) or constant < 0:
            raise BadQuery(f"option constant must be a finite number of at least 0; came {constant!r}")
        self.constant, self.depth = float(constant), checked_number(depth)

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents of all lists together.

        Args:
            query: any text.
            k: how many, at least 1.

        Raises:
            BadQuery: the query is no str, or k is no whole number of at least 1.
        """
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return what `search` gives for each query.

        Args:
            queries: texts; one str alone is refused.
            k: how many each, at least 1.

        Raises:
            BadQuery: see `search`.
        """
        texts, k = checked_queries(queries), checked_number(k)
        lists = [retriever.search_batch(texts, max(k, self.depth)) for retriever in self.retrievers]
        return [fuse(several, self.weights, self.constant)[:k] for several in zip(*lists, strict=True)]


def fuse(lists: Sequence[Hits], weights: Sequence[float], constant: float = 60.0) -> Hits:
    """Return several lists of one query as one, by reciprocal ranks.

    >>> fuse([[("a", 9.0), ("b", 5.0)], [("b", 0.8)]], [1, 1], constant=1)
    [('b', 0.8333333333333333), ('a', 0.5)]

    Args:
        lists: pairs (id, score), each list with the best first.
        weights: one a list.
        constant: see `Hybrid`.
    """
    scores: dict[str, float] = {}
    for hits, weight in zip(lists, weights, strict=True):
        for rank, (id, _) in enumerate(hits, 1):
            scores[id] = scores.get(id, 0.0) + weight / (constant + rank)
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
