"""Build postings: for each word, the documents that contain it and how often.

Documents are streamed; each leaves a few bytes per distinct word. They are collected in blocks, each block is sorted by
word and document, and finally the blocks are merged in two passes without sorting all postings.

Not included: positions of words, deletion, and more than 2^31 - 1 documents.
"""

from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turncredit.tools.retrieval.english import term
from turncredit.tools.retrieval.errors import BadCorpus
from turncredit.tools.retrieval.packed_strings import PackedStrings
from turncredit.tools.retrieval.tokens import tokenize

Counts = NDArray[np.integer[Any]]

BLOCK = 1 << 20
"""Tokens in a block."""

CACHE_SIZE = 1 << 18
"""Maximum number of cached tokens with their words."""

_STOP = -1


def _length_table() -> NDArray[np.int64]:
    """Return the 256 lengths that fit into a byte: 0 to 39, then values with four significant bits."""
    code = np.arange(256 - 24)
    shift = np.maximum((code >> 3) - 1, 0)
    return np.concatenate([np.arange(24), 24 + (np.where(code < 8, code & 7, (code & 7) | 8) << shift)])


LENGTHS = _length_table()
"""int64 [256], the length that each byte represents: Lucene's SmallFloat."""


def quantised(length: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Round lengths down to values of `LENGTHS` and return their bytes, uint8 [n].

    >>> LENGTHS[quantised(np.array([0, 39, 40, 41, 42, 1000]))].tolist()
    [0, 39, 40, 40, 42, 984]

    Args:
        length: int64 [n], numbers of words.

    Source: Apache Lucene 9.5, SmallFloat.intToByte4.
    """
    return (np.searchsorted(LENGTHS, length, side="right") - 1).astype(np.uint8)


@dataclass(frozen=True, slots=True)
class Postings:
    """Postings of V words and N documents.

    Attributes:
        words: the distinct words, ascending.
        ids: ids of the documents, in their order.
        starts: int64 [V + 1], start of the postings of each word, and the end of the last.
        documents: int32 [P], the documents with each word, ascending.
        counts: uint8, uint16 or int32 [P], how often each of them contains the word.
        norms: uint8 [N], the quantised length of each document in words, without stop words.
        ranks: int32 [N], the rank of each document by ascending id.
        total: sum of all lengths, not quantised.
        filled: number of documents with at least one word.
    """

    words: PackedStrings
    ids: PackedStrings
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    counts: Counts
    norms: NDArray[np.uint8]
    ranks: NDArray[np.int32]
    total: int
    filled: int


class _Vocabulary(dict[str, int]):
    """Number of the word of each token, computed on demand; the cache is emptied when it is full."""

    def __init__(self) -> None:
        super().__init__()
        self.words: dict[str, int] = {"": _STOP}

    def __missing__(self, token: str) -> int:
        if len(self) >= CACHE_SIZE:
            self.clear()
        number = self.words.setdefault(term(token), len(self.words) - 1)
        self[token] = number
        return number


@dataclass(frozen=True, slots=True)
class _Block:
    """Postings of some documents, sorted by word, then by document."""

    word: NDArray[np.int32]
    size: NDArray[np.int64]
    documents: NDArray[np.int32]
    counts: Counts


def _narrow(counts: NDArray[np.int64]) -> Counts:
    """Return the counts in the smallest sufficient type."""
    largest = int(counts.max(initial=0))
    return counts.astype(np.uint8 if largest < 1 << 8 else np.uint16 if largest < 1 << 16 else np.int32)


def _block(word: NDArray[np.int32], document: NDArray[np.int64]) -> _Block:
    """Return the block of tokens with these words (int32 [t]) and documents (int64 [t])."""
    key = np.sort((word.astype(np.int64) << 32) | document)
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1])) if len(key) else np.zeros(0, dtype=np.int64)
    counts = np.diff(np.append(first, len(key)))
    words, sizes = np.unique(key[first] >> 32, return_counts=True)
    return _Block(words.astype(np.int32), sizes, (key[first] & 0x7FFFFFFF).astype(np.int32), _narrow(counts))


class _PostingsBuilder:
    """Collects documents and builds their postings."""

    def __init__(self) -> None:
        self._vocabulary = _Vocabulary()
        self._ids: dict[str, None] = {}
        self._blocks: list[_Block] = []
        self._lengths: list[NDArray[np.int64]] = []
        self._tokens, self._ends = array("i"), array("q")

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._ids)

    def add(self, document: object) -> None:
        """Add a document."""
        name, text = _checked(document, len(self._ids))
        if name in self._ids:
            raise BadCorpus(f"documents[{len(self._ids)}] has the id {name!r} of an earlier document")
        self._ids[name] = None
        self._tokens.extend(map(self._vocabulary.__getitem__, tokenize(text)))
        self._ends.append(len(self._tokens))
        if len(self._tokens) >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        """Make a block of the documents since the last one."""
        word = np.array(self._tokens, dtype=np.int32)
        ends = np.array([0, *self._ends], dtype=np.int64)
        size = ends[1:] - ends[:-1]
        document, counted = np.repeat(np.arange(len(size)), size), word != _STOP
        before = len(self._ids) - len(size)
        self._lengths.append(np.bincount(document[counted], minlength=len(size)))
        self._blocks.append(_block(word[counted], before + document[counted]))
        self._tokens, self._ends = array("i"), array("q")

    def postings(self) -> Postings:
        """Return the postings; the builder cannot be used afterwards."""
        self._flush()
        del self._vocabulary.words[""]
        words, length = self._vocabulary.words, np.concatenate(self._lengths)
        starts, documents, counts = _merged(self._blocks, _ranks(list(words)))
        total, filled = int(length.sum()), int((length > 0).sum())
        ranks, packed = _ranks(list(self._ids)).astype(np.int32), PackedStrings.of(sorted(words))
        ids, norms = PackedStrings.of(self._ids), quantised(length)
        return Postings(packed, ids, starts, documents, counts, norms, ranks, total, filled)


def _ranks(strings: list[str]) -> NDArray[np.int64]:
    """Return the rank of each string in sorted order, int64 [n]."""
    ranks = np.empty(len(strings), dtype=np.int64)
    ranks[sorted(range(len(strings)), key=strings.__getitem__)] = np.arange(len(strings))
    return ranks


def _merged(blocks: list[_Block], rank: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int32], Counts]:
    """Merge blocks, consuming them; return starts, documents and counts, with word w in row rank[w]."""
    starts = np.zeros(len(rank) + 1, dtype=np.int64)
    for block in blocks:
        starts[1 + rank[block.word]] += block.size
    np.cumsum(starts, out=starts)
    documents = np.empty(starts[-1], dtype=np.int32)
    counts = np.empty(starts[-1], dtype=np.result_type(np.uint8, *(block.counts.dtype for block in blocks)))
    free = starts[:-1].copy()
    for block in iter(lambda: blocks.pop(0) if blocks else None, None):
        row = rank[block.word]
        into = np.repeat(free[row] - np.cumsum(block.size) + block.size, block.size) + np.arange(len(block.documents))
        documents[into], counts[into] = block.documents, block.counts
        free[row] += block.size
    return starts, documents, counts


def _checked(document: object, number: int) -> tuple[str, str]:
    """Return id and text of a document.

    Raises:
        BadCorpus: it is not a pair of str.
    """
    if not isinstance(document, tuple | list) or len(document) != 2:
        raise BadCorpus(f"documents[{number}] must be a pair (id, text), got {document!r:.80}")
    for part, value in zip(("id", "text"), document, strict=True):
        if not isinstance(value, str):
            raise BadCorpus(f"the {part} of documents[{number}] must be a str, got {type(value).__name__}")
    return document[0], document[1]


def build_postings(documents: Iterable[tuple[str, str]]) -> Postings:
    """Build the postings of documents, which are read once.

    Args:
        documents: fewer than 2^31 pairs (id, text).

    Raises:
        BadCorpus: there is no document, an id is used twice, or a document is not a pair of str.
    """
    if isinstance(documents, str | bytes) or not isinstance(documents, Iterable):
        raise BadCorpus(f"documents must be an iterable of pairs (id, text), got {type(documents).__name__}")
    builder = _PostingsBuilder()
    for document in documents:
        builder.add(document)
    if not len(builder):
        raise BadCorpus("documents must contain at least one document, got none")
    return builder.postings()
