"""BM25 as Apache Lucene computes it, to the last bit of its single precision where ties depend on it.

Left out on purpose: fields, phrases, filters, and changes to an index once built.
"""

from collections import Counter
from collections.abc import Iterable
from math import isfinite, log
from os import PathLike
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turnwise.tools.retrieval import folder
from turnwise.tools.retrieval.english import analyse
from turnwise.tools.retrieval.errors import BadIndex, BadQuery
from turnwise.tools.retrieval.postings import LENGTHS, MEMORY, Postings, gather

Hits = list[tuple[str, float]]
Ties = Literal["id", "document"]

_ONE = np.float32(1.0)
_LEAST = np.float32(1e-45)  # a match that rounding would score zero
_LOOKED_UP = 4
"""How many times more documents a word has than those before it, where it may pay to look it up in these alone."""


class BM25:
    """Documents that can be searched for words.

        score(q, d) = sum over the words w of q of n(w, q) * idf(w) * (1 - 1 / (1 + f(w, d) / K(d)))
        idf(w) = ln(1 + (N - df(w) + 0.5) / (df(w) + 0.5))
        K(d) = k1 * (1 - b + b * length(d) / mean length)

    where n(w, q) and f(w, d) count the word in query and document, df(w) the documents that have it, N the documents
    that have any word; length(d) is exact below 40 words and has four significant bits above, the mean length is exact.
    Words are what `analyse` makes of a text.

        >>> index = BM25.build([("a", "Red shoes"), ("b", "Blue shoes, red laces"), ("c", "A hat")])
        >>> [(name, round(score, 4)) for name, score in index.search("the red shoe", k=2)]
        [('a', 0.5085), ('b', 0.4358)]

    Source: Robertson and Zaragoza 2009; Apache Lucene 9.5, BM25Similarity; the values of k1 and b are Anserini's.
    """

    def __init__(self, postings: Postings, *, k1: float = 0.9, b: float = 0.4, ties: Ties = "id") -> None:
        """Take postings as they are; `build` and `open` make them.

        Args:
            postings: words and documents.
            k1: at least 0: how much a word's second occurrence adds; at 0 nothing.
            b: in [0, 1]: how much a long document is discounted.
            ties: of documents with equal scores, "id" puts the smaller id first, as Anserini does, "document" the
                earlier document, as Lucene itself does.

        Raises:
            BadQuery: an option has an impossible value.
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
        """Return an index of some documents, which are read once, one by one.

        Args:
            documents: pairs (id, text); ids differ; a text may be empty, and is then never found.
            k1, b, ties: see the constructor.

        Raises:
            BadCorpus: there is no document; two have one id; something is no pair of two str.
            BadQuery: an option has an impossible value.
        """
        _check_options(k1, b, ties)  # before an hour of reading
        return cls(gather(documents), k1=k1, b=b, ties=ties)

    @classmethod
    def open(cls, path: str | PathLike[str], *, check: bool = False) -> "BM25":
        """Return an index that was saved; its files are mapped, not read, so this takes milliseconds at any size.

        Args:
            path: the folder.
            check: reads every file once, and compares its checksum.

        Raises:
            BadIndex: the folder is missing, no index, torn, or of another version.
        """
        postings, options = folder.read(path, check=check)
        try:
            return cls(postings, **options)
        except (BadQuery, TypeError) as error:
            raise BadIndex(f"the index in {path} is damaged: {error}") from error

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index into a folder, which then holds all of it; if writing fails, what it held before.

        Args:
            path: the folder; made if it is not there; an index that lies there is replaced.

        Raises:
            BadIndex: the folder holds something else than an index.
        """
        folder.write(path, self._postings, {"k1": self.k1, "b": self.b, "ties": self.ties})

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._postings.ids)

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents for a query, the best first, equal ones as `ties` says.

        Args:
            query: any text; a word that stands in it twice counts twice.
            k: how many, at least 1.

        Returns:
            At most k pairs (id, score); only documents that have a word of the query; [] if none has.

        Raises:
            BadQuery: the query is no str, or k is no whole number of at least 1.
        """
        if not isinstance(query, str):
            raise BadQuery(f"a query must be a str; came {type(query).__name__}")
        if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
            raise BadQuery(f"k, the number of results, must be a whole number of at least 1; came {k!r}")
        documents, scores = self._best(self._weights(query), int(k))
        return [(self._name(row), score) for row, score in zip(documents.tolist(), scores.tolist(), strict=True)]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return what `search` gives for each query.

        Args:
            queries: texts.
            k: how many each, at least 1.

        Raises:
            BadQuery: see `search`; one str alone is refused, since its letters would be taken for queries.
        """
        if isinstance(queries, str | bytes) or not isinstance(queries, Iterable):
            raise BadQuery(f"queries must be a list of str; came one {type(queries).__name__}")
        return [self.search(query, k) for query in queries]

    def _weights(self, query: str) -> list[tuple[int, np.float32]]:
        """Return row and weight n(w, q) * idf(w) of each known word of a query, rare words first."""
        known = [(self._row(word), number) for word, number in Counter(analyse(query)).items()]
        rows = [(self._frequency(row), row, number) for row, number in known if row is not None]
        filled = self._postings.filled
        return [
            (row, np.float32(n) * np.float32(log(1 + (filled - df + 0.5) / (df + 0.5)))) for df, row, n in sorted(rows)
        ]

    def _frequency(self, row: int) -> int:
        """Return how many documents have a word."""
        return int(self._postings.starts[row + 1] - self._postings.starts[row])

    def _scores(
        self, row: int, weight: np.float32, among: NDArray[np.int32] | None
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the documents of a word, and what it adds to each of them: all, or those among some ascending ones."""
        part = slice(self._postings.starts[row], self._postings.starts[row + 1])
        documents, counts = self._postings.documents[part], self._postings.counts[part]
        if among is not None:
            places = np.minimum(np.searchsorted(documents, among), len(documents) - 1)
            places = places[documents[places] == among]
            documents, counts = documents[places], counts[places]
        ratio = self._inverse[self._postings.norms[documents]] * counts.astype(np.float32)
        return documents, np.maximum(weight - weight / (_ONE + ratio), _LEAST)

    def _best(
        self, weights: list[tuple[int, np.float32]], k: int
    ) -> tuple[NDArray[np.integer[Any]], NDArray[np.float32]]:
        """Return the k best documents, and their scores, in their order."""
        total = np.zeros(len(self), dtype=np.float64)
        parts = [np.zeros(0, dtype=np.int32)]
        to_come = sum(float(weight) for _, weight in weights)
        left: NDArray[np.int32] | None = None  # the documents that can be among the best, once that is known
        for row, weight in weights:
            if left is None and _LOOKED_UP * sum(map(len, parts)) < self._frequency(row):
                left = _contenders(total, parts, k, to_come)
            documents, scores = self._scores(row, weight, left)
            total[documents] += scores
            parts.append(documents)
            to_come -= float(weight)
        found = _found(total, parts) if left is None else left
        values = total[found].astype(np.float32)
        if len(found) > k:
            good = values >= np.partition(values, -k)[-k]
            found, values = found[good], values[good]
        first = self._postings.ranks[found] if self.ties == "id" else found
        order = np.lexsort((first, -values))[:k]
        return found[order], values[order]

    def _row(self, word: str) -> int | None:
        """Return the row of a word, remembered."""
        remembered = self._rows
        if word in remembered:
            return remembered[word]
        if len(self._rows) >= MEMORY:
            self._rows = {}  # a new one: other threads may be reading the old
        self._rows[word] = found = self._postings.words.find(word)
        return found

    def _name(self, document: int) -> str:
        """Return the id of a document, remembered."""
        if name := self._names.get(document):
            return name
        if len(self._names) >= MEMORY:
            self._names = {}
        self._names[document] = name = self._postings.ids[document]
        return name


def _found(total: NDArray[np.float64], parts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """Return the documents of some words, ascending: by sorting, or from the scores so far where that is quicker."""
    many = 8 * sum(map(len, parts)) > len(total)
    return np.flatnonzero(total).astype(np.int32) if many else np.unique(np.concatenate(parts))


def _contenders(
    total: NDArray[np.float64], parts: list[NDArray[np.int32]], k: int, to_come: float
) -> NDArray[np.int32] | None:
    """Return the documents that can be among the k best, ascending; None while others can.

    No document gains more than the weights of the words to come. Once k documents score more than that by the rarer
    words before, nothing that has only the others is among the best, and what is too far behind is not either.

    Args:
        total: scores so far.
        parts: the documents of the words so far.
        k: how many are wanted.
        to_come: sum of the weights of the other words.
    """
    found = _found(total, parts)
    if len(found) < k:
        return None
    scores = total[found]
    bar = float(np.partition(scores, -k)[-k]) * (1 - 1e-6)  # rounding to single precision must not make a tie
    return found[scores + to_come >= bar] if to_come < bar else None


def _inverses(postings: Postings, k1: float, b: float) -> NDArray[np.float32]:
    """Return 1 / K for each quantised length, float32 [256]; infinite where K is zero."""
    mean = np.float32(postings.total / max(postings.filled, 1)) or _ONE
    ratio = np.float32(b) * LENGTHS.astype(np.float32) / mean
    with np.errstate(divide="ignore", over="ignore"):
        return _ONE / (np.float32(min(k1, 1e38)) * ((_ONE - np.float32(b)) + ratio))


def _check_options(k1: object, b: object, ties: object) -> None:
    """Raise BadQuery unless the options are possible."""
    for name, value, most in (("k1", k1, float("inf")), ("b", b, 1.0)):
        good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
        if not good or not isfinite(value) or not 0.0 <= value <= most:  # type: ignore[arg-type, operator]
            reach = "of at least 0" if most == float("inf") else f"from 0 to {most:g}"
            raise BadQuery(f"option {name} must be a finite number {reach}; came {value!r}")
    if ties not in get_args(Ties):
        raise BadQuery(f"option ties must be one of {', '.join(get_args(Ties))}; came {ties!r}")
