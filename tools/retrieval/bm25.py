"""BM25 as in Apache Lucene, with the same single-precision arithmetic, since ties depend on it.

Not included: fields, phrases, filters, and changes to an existing index.
"""

from collections import Counter
from collections.abc import Iterable
from math import isfinite, log
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turncredit.registry import suggest
from turncredit.tools.retrieval.english import analyse
from turncredit.tools.retrieval.errors import BadIndex, BadQuery
from turncredit.tools.retrieval.index_files import load_postings, save_postings
from turncredit.tools.retrieval.postings import CACHE_SIZE, LENGTHS, Postings, build_postings
from turncredit.tools.retrieval.retriever import Hits, check_count, check_queries

Ties = Literal["id", "document"]

_ONE = np.float32(1.0)
_SMALLEST = np.float32(1e-45)  # score of a match that would round to zero
_LOOKUP_FACTOR = 4  # a word this many times more frequent than those before may be looked up only in the candidates


class BM25:
    """An index of documents for search by words.

        score(q, d) = sum over the words w of q of n(w, q) * idf(w) * (1 - 1 / (1 + f(w, d) / K(d)))
        idf(w) = ln(1 + (N - df(w) + 0.5) / (df(w) + 0.5))
        K(d) = k1 * (1 - b + b * length(d) / mean length)

    where n(w, q) and f(w, d) count the word in query and document, df(w) is the number of documents with the word, and
    N the number of documents with any word. length(d) is exact below 40 words and has four significant bits above; the
    mean length is exact. Words are the terms of `analyse`.

        >>> index = BM25.build([("a", "Red shoes"), ("b", "Blue shoes, red laces"), ("c", "A hat")])
        >>> [(name, round(score, 4)) for name, score in index.search("the red shoe", k=2)]
        [('a', 0.5085), ('b', 0.4358)]

    Source: Robertson and Zaragoza 2009; Apache Lucene 9.5, BM25Similarity; the values of k1 and b are Anserini's.
    """

    def __init__(self, postings: Postings, *, k1: float = 0.9, b: float = 0.4, ties: Ties = "id") -> None:
        """Create an index from postings; usually `build` or `open` does that.

        Args:
            postings: words and documents.
            k1: >= 0: weight of repeated occurrences of a word; 0: none.
            b: in [0, 1]: how much long documents are discounted.
            ties: order of documents with equal scores: "id" (smaller id first, as in Anserini), or "document" (earlier
                document first, as in Lucene).

        Raises:
            BadQuery: an option is invalid.
        """
        _check_options(k1, b, ties)
        self.k1, self.b, self.ties = float(k1), float(b), ties
        self._postings = postings
        self._rows: dict[str, int | None] = {}
        self._names: dict[int, str] = {}
        self._inverse = _inverses(postings, self.k1, self.b)

    @classmethod
    def build(
        cls, documents: Iterable[tuple[str, str]], *, k1: float = 0.9, b: float = 0.4, ties: Ties = "id"
    ) -> "BM25":
        """Build an index; the documents are read once, one by one.

        Args:
            documents: pairs (id, text) with unique ids; documents with an empty text are never found.
            k1, b, ties: see the constructor.

        Raises:
            BadCorpus: there is no document, an id is used twice, or a document is not a pair of str.
            BadQuery: an option is invalid.
        """
        _check_options(k1, b, ties)  # before reading many documents
        return cls(build_postings(documents), k1=k1, b=b, ties=ties)

    @classmethod
    def open(cls, path: str | PathLike[str], *, check: bool = False) -> "BM25":
        """Open a saved index; the files are memory-mapped, so this takes milliseconds at any size.

        Args:
            path: the directory.
            check: read all files and compare their checksums.

        Raises:
            BadIndex: the directory is missing, not an index, damaged, or of another version.
        """
        postings, options = load_postings(path, check=check)
        try:
            return cls(postings, **options)
        except (BadQuery, TypeError) as error:
            raise BadIndex(f"the index in {path} is damaged: {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Save the index to a directory atomically.

        Args:
            path: the directory; created if missing; an existing index is replaced.

        Raises:
            BadIndex: the directory contains other files.
        """
        save_postings(path, self._postings, {"k1": self.k1, "b": self.b, "ties": self.ties})

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._postings.ids)

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents for a query.

        Args:
            query: any text; repeated words count repeatedly.
            k: maximum number of documents, at least 1.

        Returns:
            Pairs (id, score), best first, of documents that contain a word of the query.

        Raises:
            BadQuery: `query` is not a str, or `k` is not an integer >= 1.
        """
        check_queries([query])
        documents, scores = self._best(self._weights(query), check_count(k))
        return [(self._name(row), score) for row, score in zip(documents.tolist(), scores.tolist(), strict=True)]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return the result of `search` for each query; see `Retriever.search_batch`."""
        return [self.search(query, k) for query in check_queries(queries)]

    def _weights(self, query: str) -> list[tuple[int, np.float32]]:
        """Return row and weight n(w, q) * idf(w) of each known word of a query, rare words first."""
        counts = [(self._row(word), number) for word, number in Counter(analyse(query)).items()]
        rows = [(self._frequency(row), row, number) for row, number in counts if row is not None]
        filled = self._postings.filled
        return [
            (row, np.float32(n) * np.float32(log(1 + (filled - df + 0.5) / (df + 0.5)))) for df, row, n in sorted(rows)
        ]

    def _frequency(self, row: int) -> int:
        """Return the number of documents with a word."""
        return int(self._postings.starts[row + 1] - self._postings.starts[row])

    def _scores(
        self, row: int, weight: np.float32, among: NDArray[np.int32] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the documents with a word and its contribution to their scores; `among` restricts the documents."""
        part = slice(self._postings.starts[row], self._postings.starts[row + 1])
        documents, counts = self._postings.documents[part], self._postings.counts[part]
        if among is not None:
            places = np.minimum(np.searchsorted(documents, among), len(documents) - 1)
            places = places[documents[places] == among]
            documents, counts = documents[places], counts[places]
        ratio = self._inverse[self._postings.norms[documents]] * counts.astype(np.float32)
        return documents, np.maximum(weight - weight / (_ONE + ratio), _SMALLEST)

    def _best(
        self, weights: list[tuple[int, np.float32]], k: int
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.float32]]:
        """Return the k best documents in order, and their scores."""
        total = np.zeros(len(self), dtype=np.float64)
        parts = [np.zeros(0, dtype=np.int32)]
        remaining = sum(float(weight) for _, weight in weights)
        candidates: NDArray[np.int32] | None = None  # documents that can be among the best; None: unknown yet
        for row, weight in weights:
            if candidates is None and _LOOKUP_FACTOR * sum(map(len, parts)) < self._frequency(row):
                candidates = _candidates(total, parts, k, remaining)
            documents, scores = self._scores(row, weight, candidates)
            total[documents] += scores
            parts.append(documents)
            remaining -= float(weight)
        matches = _matches(total, parts) if candidates is None else candidates
        values = total[matches].astype(np.float32)
        if len(matches) > k:
            good = values >= np.partition(values, -k)[-k]
            matches, values = matches[good], values[good]
        first = self._postings.ranks[matches] if self.ties == "id" else matches
        order = np.lexsort((first, -values))[:k]
        return matches[order], values[order]

    def _row(self, word: str) -> int | None:
        """Return the row of a word, cached."""
        rows = self._rows
        if word in rows:
            return rows[word]
        if len(rows) >= CACHE_SIZE:
            self._rows = {}  # a new dict: other threads may be reading the old one
        self._rows[word] = number = self._postings.words.find(word)
        return number

    def _name(self, document: int) -> str:
        """Return the id of a document, cached."""
        if name := self._names.get(document):
            return name
        if len(self._names) >= CACHE_SIZE:
            self._names = {}
        self._names[document] = name = self._postings.ids[document]
        return name


def _matches(total: NDArray[np.float64], parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Return the documents with any of the words so far, ascending."""
    many = 8 * sum(map(len, parts)) > len(total)
    return np.flatnonzero(total).astype(np.int32) if many else np.unique(np.concatenate(parts))


def _candidates(
    total: NDArray[np.float64], parts: list[NDArray[np.int32]], k: int, remaining: float
) -> NDArray[np.int32] | None:
    """Return the documents that can be among the k best, ascending; None if that can be any document.

    A document gains at most `remaining` from the other words. Once k documents score more than that, documents without
    the words so far are out, and so are documents that cannot catch up.

    Args:
        total: scores so far.
        parts: documents with each of the words so far.
        k: number of results.
        remaining: sum of the weights of the other words.
    """
    matches = _matches(total, parts)
    if len(matches) < k:
        return None
    scores = total[matches]
    bar = float(np.partition(scores, -k)[-k]) * (1 - 1e-6)  # so that rounding to single precision makes no tie
    return matches[scores + remaining >= bar] if remaining < bar else None


def _inverses(postings: Postings, k1: float, b: float) -> NDArray[np.float32]:
    """Return 1 / K for each quantised length, float32 [256]; infinite if K is zero."""
    mean = np.float32(postings.total / max(postings.filled, 1)) or _ONE
    ratio = np.float32(b) * LENGTHS.astype(np.float32) / mean
    with np.errstate(divide="ignore", over="ignore"):
        return _ONE / (np.float32(min(k1, 1e38)) * ((_ONE - np.float32(b)) + ratio))


def _check_options(k1: object, b: object, ties: object) -> None:
    for name, value, most in (("k1", k1, float("inf")), ("b", b, 1.0)):
        number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not number or not isfinite(value) or not 0.0 <= value <= most:  # type: ignore[arg-type, operator]
            expected = "finite and >= 0" if most == float("inf") else f"from 0 to {most:g}"
            raise BadQuery(f"{name} must be {expected}, got {value!r}")
    if ties not in get_args(Ties):
        raise BadQuery(f"unknown ties {ties!r}{suggest(str(ties), get_args(Ties))}")
