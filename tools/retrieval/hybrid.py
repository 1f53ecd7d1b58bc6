"""Combine several retrievers by reciprocal rank fusion: by ranks, since their scores are not comparable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite

from turncredit.tools.retrieval.errors import BadQuery
from turncredit.tools.retrieval.retriever import Hits, Retriever, check_count, check_queries

__all__ = ["Hybrid", "fuse"]


class Hybrid:
    """Reciprocal rank fusion of retrievers over the same documents.

        score(d) = sum over the retrievers r that found d of weight(r) / (constant + rank of d in r, from 1)

    Each retriever is asked for `depth` documents, or for k if that is more. Ties are ordered by id.

    Args:
        retrievers: at least one.
        constant: larger values reduce the advantage of the first ranks; 60 in the paper.
        depth: number of documents to request from each retriever.
        weights: one per retriever, > 0; None: all 1.

    Raises:
        BadQuery: an option is invalid.

    Source: Cormack, Clarke and Buettcher 2009, "Reciprocal rank fusion outperforms Condorcet and individual rank
    learning methods" (SIGIR). The weights are an addition.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        constant: float = 60.0,
        depth: int = 100,
        weights: Sequence[float] | None = None,
    ) -> None:
        self.retrievers = tuple(retrievers)
        self.weights = tuple(1.0 for _ in self.retrievers) if weights is None else tuple(map(float, weights))
        if not self.retrievers:
            raise BadQuery("retrievers must contain at least one retriever, got none")
        if len(self.weights) != len(self.retrievers) or not all(isfinite(w) and w > 0 for w in self.weights):
            raise BadQuery(f"weights must be {len(self.retrievers)} finite numbers > 0, got {weights!r}")
        if not isfinite(constant) or constant < 0:
            raise BadQuery(f"constant must be finite and >= 0, got {constant!r}")
        self.constant, self.depth = float(constant), check_count(depth, "depth")

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents for a query; see `Retriever.search`."""
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return the result of `search` for each query; see `Retriever.search_batch`."""
        texts, k = check_queries(queries), check_count(k)
        lists = [retriever.search_batch(texts, max(k, self.depth)) for retriever in self.retrievers]
        return [fuse(several, self.weights, self.constant)[:k] for several in zip(*lists, strict=True)]


def fuse(lists: Sequence[Hits], weights: Sequence[float], constant: float = 60.0) -> Hits:
    """Combine several result lists of one query by reciprocal ranks.

    >>> fuse([[("a", 9.0), ("b", 5.0)], [("b", 0.8)]], [1, 1], constant=1)
    [('b', 0.8333333333333333), ('a', 0.5)]

    Args:
        lists: pairs (id, score), each list best first.
        weights: one per list.
        constant: see `Hybrid`.
    """
    scores: dict[str, float] = {}
    for hits, weight in zip(lists, weights, strict=True):
        for rank, (id, _) in enumerate(hits, 1):
            scores[id] = scores.get(id, 0.0) + weight / (constant + rank)
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))
