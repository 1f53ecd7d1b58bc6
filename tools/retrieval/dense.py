"""Search by vectors: the documents with the largest inner products, exactly, with deterministic ties.

A matrix product in single precision selects candidates, which are then scored one by one in double precision. Results
therefore do not depend on the block size, the number of queries at a time, or the linear algebra library. Ties are
ordered by document.

Not included: approximate search, and changes to an existing index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from os import PathLike
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turncredit.installation import MissingPackage
from turncredit.registry import suggest
from turncredit.tools.retrieval.encoder import Encode
from turncredit.tools.retrieval.errors import BadCorpus, BadIndex, BadModel, BadQuery
from turncredit.tools.retrieval.index_files import IndexFormat, load_arrays, save_arrays
from turncredit.tools.retrieval.packed_strings import PackedStrings
from turncredit.tools.retrieval.retriever import Hits, check_count, check_queries

__all__ = ["Dense"]

Engine = Literal["numpy", "faiss"]

_FORMAT: Final = IndexFormat(
    "turncredit vectors", 1, "Dense.save", {"vectors": ("float32",), "ids": ("uint8",), "id_ends": ("int64",)}
)
_TEXTS: Final = 1024  # per call of the encoder
_QUERIES: Final = 256  # per matrix product
BLOCK: Final = 1 << 16
"""Documents per matrix product."""


class Dense:
    """An index of documents for search by vectors.

        score(q, d) = sum over i of q[i] * d[i]

    This is the cosine if the encoder returns vectors of length 1. An empty query finds nothing.

        >>> from collections import Counter
        >>> def letters(texts):
        ...     return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)
        >>> index = Dense.build([("x", "ab"), ("y", "aab")], letters)
        >>> index.search("a", k=2)
        [('y', 2.0), ('x', 1.0)]

    Args:
        ids: unique ids of the documents.
        vectors: float32 [documents, dimensions]; may be memory-mapped.
        encode: computes vectors of queries.
        label: name of the model, saved with the index.
        engine: "numpy", or "faiss" if that is installed: faster with many cores, and exact except for ties below the
            best 2k + 16.
        block: documents per matrix product.
        longest: length of the longest vector; None: compute it.

    Raises:
        BadQuery: no engine has that name.
        ImportError: faiss is not installed.
    """

    def __init__(
        self,
        ids: PackedStrings,
        vectors: NDArray[np.float32],
        encode: Encode,
        *,
        label: str = "",
        engine: Engine = "numpy",
        block: int = BLOCK,
        longest: float | None = None,
    ) -> None:
        if engine not in get_args(Engine):
            raise BadQuery(f"unknown engine {engine!r}{suggest(str(engine), get_args(Engine))}")
        self._ids, self._vectors, self._encode = ids, vectors, encode
        self.label, self.block = label, block
        if longest is None:
            longest = max((float(_lengths(part).max()) for _, part in self._blocks()), default=0.0)
        self._longest = longest
        self._faiss = _faiss(vectors) if engine == "faiss" else None

    @classmethod
    def build(
        cls,
        documents: Iterable[tuple[str, str]],
        encode: Encode,
        *,
        queries: Encode | None = None,
        label: str = "",
        engine: Engine = "numpy",
    ) -> Dense:
        """Build an index.

        Args:
            documents: pairs (id, text) with unique ids.
            encode: computes vectors of documents.
            queries: computes vectors of queries; None: `encode`.
            label, engine: see the class.

        Raises:
            BadCorpus: there is no document, or an id is used twice.
            BadModel: the encoder does not return one finite vector per text, all of the same size.
        """
        ids: dict[str, None] = {}
        parts: list[NDArray[np.float32]] = []
        stream = iter(documents)
        while some := list(islice(stream, _TEXTS)):
            for id, _ in some:
                if id in ids:
                    raise BadCorpus(f"documents[{len(ids)}] has the id {id!r} of an earlier document")
                ids[id] = None
            parts.append(_encoded(encode, [text for _, text in some], parts[0].shape[1] if parts else None))
        if not parts:
            raise BadCorpus("documents must contain at least one document, got none")
        return cls(PackedStrings.of(ids), np.concatenate(parts), queries or encode, label=label, engine=engine)

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        encode: Encode,
        *,
        label: str = "",
        engine: Engine = "numpy",
        check: bool = False,
    ) -> Dense:
        """Open a saved index; the files are memory-mapped.

        Args:
            path: the directory.
            encode: computes vectors of queries, with the model of the documents.
            label: expected label of the index; "": any.
            engine: see the class.
            check: read all files and compare their checksums.

        Raises:
            BadIndex: the directory is missing, not an index of vectors, damaged, or of another version or label.
        """
        arrays, manifest = load_arrays(path, _FORMAT, check=check)
        ids, recorded = PackedStrings(arrays["ids"], arrays["id_ends"]), manifest.get("label", "")
        if label and label != recorded:
            raise BadIndex(f"the vectors in {path} were computed by {recorded!r}, not {label!r}; build the index again")
        size, longest, flat = manifest.get("dimensions"), manifest.get("longest"), arrays["vectors"]
        valid = isinstance(longest, float) and len(ids) > 0
        if not valid or not isinstance(size, int) or size < 1 or len(flat) != size * len(ids):
            raise BadIndex(
                f"the index in {path} is damaged: {len(flat)} numbers for {len(ids)} vectors of {size!r} dimensions"
            )
        return cls(ids, flat.reshape(-1, size), encode, label=str(recorded), engine=engine, longest=longest)

    def save(self, path: str | PathLike[str]) -> None:
        """Save the index to a directory atomically.

        Args:
            path: the directory; created if missing; an existing index of vectors is replaced.

        Raises:
            BadIndex: the directory contains something else.
        """
        arrays: dict[str, NDArray[Any]] = {
            "vectors": self._vectors.reshape(-1),
            "ids": self._ids.text,
            "id_ends": self._ids.ends,
        }
        notes = {"label": self.label, "dimensions": int(self._vectors.shape[1]), "longest": self._longest}
        save_arrays(path, _FORMAT, arrays, notes)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._ids)

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents for a query; see `Retriever.search`.

        Raises:
            BadQuery: `query` is not a str, or `k` is not an integer >= 1.
            BadModel: the encoder does not return a valid vector.
        """
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return the result of `search` for each query; much faster than one query at a time."""
        texts, k = check_queries(queries), min(check_count(k), len(self))
        non_empty = [row for row, text in enumerate(texts) if text.strip()]
        out: list[Hits] = [[] for _ in texts]
        for start in range(0, len(non_empty), _QUERIES):
            rows = non_empty[start : start + _QUERIES]
            vectors = _encoded(self._encode, [texts[row] for row in rows], self._vectors.shape[1])
            for row, vector, candidates in zip(rows, vectors, self._candidates(vectors, k), strict=True):
                out[row] = self._ranked(vector, candidates, k)
        return out

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for start in range(0, len(self._vectors), self.block):
            yield start, np.asarray(self._vectors[start : start + self.block])

    def _candidates(self, queries: NDArray[np.float32], k: int) -> list[NDArray[np.int64]]:
        """Return for each query the rows that can be among its k best, ascending."""
        if self._faiss is not None:
            rows = self._faiss.search(queries, min(2 * k + 16, len(self)))[1]
            return [np.sort(candidates[candidates >= 0]) for candidates in rows]
        rows = [np.zeros(0, dtype=np.int64) for _ in queries]
        scores = [np.zeros(0, dtype=np.float32) for _ in queries]
        # The error of single precision is at most dimensions * 2^-24 * |q| * |d|, on either side of the comparison.
        slack = _lengths(queries) * self._longest * (queries.shape[1] + 8) * 2.0**-22
        for start, block in self._blocks():
            for row, products in enumerate(queries @ block.T):
                both = np.concatenate([scores[row], products])
                good = np.flatnonzero(both >= _bar(both, k) - slack[row])
                previous = len(rows[row])
                rows[row] = np.concatenate(
                    [rows[row][good[good < previous]], good[good >= previous] - previous + start]
                )
                scores[row] = both[good]
        return rows

    def _ranked(self, query: NDArray[np.float32], rows: NDArray[np.int64], k: int) -> Hits:
        """Return the k best of some rows, scored in double precision."""
        products = self._vectors[rows].astype(np.float64) * query.astype(np.float64)
        scores = np.array([row.sum() for row in products])  # one by one, so that a sum does not depend on other rows
        order = np.lexsort((rows, -scores))[:k]
        return [(self._ids[int(rows[rank])], float(scores[rank])) for rank in order]


def _bar(scores: NDArray[np.float32], k: int) -> float:
    """Return the k-th best score, or the lowest if there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) > k else float(scores.min(initial=0.0))


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the length of each vector, float64 [n]."""
    squares: NDArray[np.float64] = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    return np.sqrt(squares)


def _encoded(encode: Encode, texts: list[str], size: int | None) -> NDArray[np.float32]:
    """Return the vectors of texts, float32 [texts, size].

    Raises:
        BadModel: the encoder returns something else.
    """
    vectors: Any = np.asarray(encode(texts))
    expected = f"[{len(texts)}, {size or 'dimensions'}]"
    if (
        vectors.ndim != 2
        or len(vectors) != len(texts)
        or vectors.shape[1] != (size or vectors.shape[1])
        or not vectors.shape[1]
    ):
        raise BadModel(f"the encoder must return vectors of shape {expected}, got {list(vectors.shape)}")
    if vectors.dtype.kind not in "fiu" or not np.isfinite(vectors).all():
        raise BadModel(f"the encoder must return finite numbers, got {vectors.dtype} with invalid values")
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _faiss(vectors: NDArray[np.float32]) -> Any:
    """Return an exact faiss index of the vectors."""
    try:
        faiss = import_module("faiss")
    except ImportError as missing:
        raise MissingPackage("engine='faiss' needs faiss: pip install faiss-cpu, or use engine='numpy'") from missing
    index = faiss.IndexFlatIP(int(vectors.shape[1]))
    index.add(np.ascontiguousarray(vectors))
    return index
