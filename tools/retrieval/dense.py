"""Documents found by vectors: those with the greatest inner product, exactly, with ties settled.

A product in single precision finds who may be among the best, and those few are scored again in double precision, each
by itself. So results do not depend on the size of blocks, on how many queries came at once, or on the library that
multiplies; of documents with one score the earlier comes first.

Left out on purpose: approximate search, and changes to an index once it is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import islice
from os import PathLike
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from turnwise.tools.retrieval.encoder import Encode
from turnwise.tools.retrieval.errors import BadCorpus, BadIndex, BadModel, BadQuery
from turnwise.tools.retrieval.folder import Kind, load, store
from turnwise.tools.retrieval.retriever import Hits, checked_number, checked_queries
from turnwise.tools.retrieval.strings import Strings

__all__ = ["Dense"]

Engine = Literal["numpy", "faiss"]

_KIND: Final = Kind(
    "turnwise vectors", 1, "Dense.save", {"vectors": ("float32",), "ids": ("uint8",), "id_ends": ("int64",)}
)
_AT_ONCE: Final = 1024  # texts that are handed to the encoder
_QUERIES: Final = 256  # of which products are held at once
BLOCK: Final = 1 << 16
"""Documents whose products are held at once."""


class Dense:
    """Documents as vectors.

        score(q, d) = sum over i of q[i] * d[i]

    which is the cosine where the encoder gives vectors of length 1. A query without any letter finds nothing.

        >>> from collections import Counter
        >>> def letters(texts):
        ...     return np.array([[text.count("a"), text.count("b")] for text in texts], dtype=np.float32)
        >>> index = Dense.build([("x", "ab"), ("y", "aab")], letters)
        >>> index.search("a", k=2)
        [('y', 2.0), ('x', 1.0)]

    Args:
        ids: what the documents are called, each once.
        vectors: float32 [documents, dimensions]; may be mapped from a file.
        encode: makes vectors of queries.
        label: says what made the vectors, for whoever opens them later.
        engine: "numpy", or "faiss" where that is installed: quicker with many cores, exact as well, except that ties
            which begin below the best 2k + 16 are settled by it.
        block: documents at once.
        longest: length of the longest vector; None: it is computed.
    """

    def __init__(
        self,
        ids: Strings,
        vectors: NDArray[np.float32],
        encode: Encode,
        *,
        label: str = "",
        engine: Engine = "numpy",
        block: int = BLOCK,
        longest: float | None = None,
    ) -> None:
        """Take vectors as they are; `build` and `open` make them."""
        if engine not in get_args(Engine):
            raise BadQuery(f"option engine must be one of {', '.join(get_args(Engine))}; came {engine!r}")
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
        """Return an index of some documents.

        Args:
            documents: pairs (id, text); ids differ.
            encode: makes vectors of documents.
            queries: makes vectors of queries; without it `encode` does.
            label, engine: see the constructor.

        Raises:
            BadCorpus: there is no document, or two have one id.
            BadModel: the encoder gives something else than one finite vector of one length a text.
        """
        ids: dict[str, None] = {}
        parts: list[NDArray[np.float32]] = []
        stream = iter(documents)
        while some := list(islice(stream, _AT_ONCE)):
            for id, _ in some:
                if id in ids:
                    raise BadCorpus(f"two documents have the id {id!r}")
                ids[id] = None
            parts.append(_vectors(encode, [text for _, text in some], parts[0].shape[1] if parts else None))
        if not parts:
            raise BadCorpus("there is no document to index; at least one is needed")
        return cls(Strings.of(ids), np.concatenate(parts), queries or encode, label=label, engine=engine)

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
        """Return an index that was saved; its files are mapped, not read.

        Args:
            path: the folder.
            encode: makes vectors of queries; must be what made those of the documents.
            label: if given, must be that of the index: vectors of another model would be nonsense.
            engine: see the constructor.
            check: reads every file once, and compares its checksum.

        Raises:
            BadIndex: the folder is missing, no index of vectors, torn, of another version or another label.
        """
        arrays, said = load(path, _KIND, check=check)
        ids, found = Strings(arrays["ids"], arrays["id_ends"]), said.get("label", "")
        if label and label != found:
            raise BadIndex(
                f"the vectors in {path} were made by {found!r}, and {label!r} is asked for: build them again"
            )
        size, longest, flat = said.get("dimensions"), said.get("longest"), arrays["vectors"]
        if (
            not isinstance(size, int)
            or size < 1
            or not isinstance(longest, float)
            or not len(ids)
            or len(flat) != size * len(ids)
        ):
            raise BadIndex(
                f"the vectors in {path} are damaged: {len(flat)} numbers for {len(ids)} ids of {size!r} each"
            )
        return cls(ids, flat.reshape(-1, size), encode, label=str(found), engine=engine, longest=longest)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the index into a folder, which then holds all of it; if writing fails, what it held before.

        Args:
            path: the folder; made if it is not there; an index of vectors that lies there is replaced.

        Raises:
            BadIndex: the folder holds something else.
        """
        arrays: dict[str, NDArray[Any]] = {
            "vectors": self._vectors.reshape(-1),
            "ids": self._ids.text,
            "id_ends": self._ids.ends,
        }
        notes = {"label": self.label, "dimensions": int(self._vectors.shape[1]), "longest": self._longest}
        store(path, _KIND, arrays, notes)

    def __len__(self) -> int:
        """Return the number of documents."""
        return len(self._ids)

    def search(self, query: str, k: int = 10) -> Hits:
        """Return the best documents for a query, the best first, of equal ones the earlier.

        Args:
            query: any text.
            k: how many, at least 1.

        Raises:
            BadQuery: the query is no str, or k is no whole number of at least 1.
            BadModel: the encoder fails on it.
        """
        return self.search_batch([query], k)[0]

    def search_batch(self, queries: Iterable[str], k: int = 10) -> list[Hits]:
        """Return what `search` gives for each query; many at once are much quicker than one by one.

        Args:
            queries: texts; one str alone is refused.
            k: how many each, at least 1.

        Raises:
            BadQuery, BadModel: see `search`.
        """
        texts, k = checked_queries(queries), min(checked_number(k), len(self))
        asked = [row for row, text in enumerate(texts) if text.strip()]
        out: list[Hits] = [[] for _ in texts]
        for start in range(0, len(asked), _QUERIES):
            rows = asked[start : start + _QUERIES]
            vectors = _vectors(self._encode, [texts[row] for row in rows], self._vectors.shape[1])
            for row, vector, among in zip(rows, vectors, self._among(vectors, k), strict=True):
                out[row] = self._ranked(vector, among, k)
        return out

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        for start in range(0, len(self._vectors), self.block):
            yield start, np.asarray(self._vectors[start : start + self.block])

    def _among(self, queries: NDArray[np.float32], k: int) -> list[NDArray[np.int64]]:
        """Return for each query the rows that can be among its k best, ascending."""
        if self._faiss is not None:
            rows = self._faiss.search(queries, min(2 * k + 16, len(self)))[1]
            return [np.sort(found[found >= 0]) for found in rows]
        rows = [np.zeros(0, dtype=np.int64) for _ in queries]
        scores = [np.zeros(0, dtype=np.float32) for _ in queries]
        # Single precision errs by at most dimensions * 2^-24 * |q| * |d|, on either side of the comparison.
        slack = _lengths(queries) * self._longest * (queries.shape[1] + 8) * 2.0**-22
        for start, block in self._blocks():
            for place, products in enumerate(queries @ block.T):
                both = np.concatenate([scores[place], products])
                good = np.flatnonzero(both >= _bar(both, k) - slack[place])
                known = len(rows[place])
                rows[place] = np.concatenate([rows[place][good[good < known]], good[good >= known] - known + start])
                scores[place] = both[good]
        return rows

    def _ranked(self, query: NDArray[np.float32], among: NDArray[np.int64], k: int) -> Hits:
        """Return the k best of some rows, scored one by one in double precision."""
        products = self._vectors[among].astype(np.float64) * query.astype(np.float64)
        scores = np.array(
            [row.sum() for row in products], dtype=np.float64
        )  # a row's sum must not depend on the others
        order = np.lexsort((among, -scores))[:k]
        return [(self._ids[int(among[place])], float(scores[place])) for place in order]


def _bar(scores: NDArray[np.float32], k: int) -> float:
    """Return the k-th best of some scores, or the least where there are fewer."""
    return float(np.partition(scores, -k)[-k]) if len(scores) > k else float(scores.min(initial=0.0))


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the length of each vector, float64 [n]."""
    squares: NDArray[np.float64] = np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64)
    return np.sqrt(squares)


def _vectors(encode: Encode, texts: list[str], size: int | None) -> NDArray[np.float32]:
    """Return what an encoder makes of texts, float32 [texts, size], or say what is wrong with it."""
    found: Any = np.asarray(encode(texts))
    wanted = f"[{len(texts)}, {size or 'dimensions'}]"
    if found.ndim != 2 or len(found) != len(texts) or found.shape[1] != (size or found.shape[1]) or not found.shape[1]:
        raise BadModel(f"an encoder must give vectors {wanted} for {len(texts)} texts; came {list(found.shape)}")
    if found.dtype.kind not in "fiu" or not np.isfinite(found).all():
        raise BadModel(f"an encoder must give finite numbers; came {found.dtype} with others among them")
    return np.ascontiguousarray(found, dtype=np.float32)


def _faiss(vectors: NDArray[np.float32]) -> Any:
    """Return faiss' exact index of the vectors."""
    try:
        faiss = import_module("faiss")
    except ImportError as missing:
        raise ImportError("faiss is not installed: pip install faiss-cpu, or choose engine='numpy'") from missing
    index = faiss.IndexFlatIP(int(vectors.shape[1]))
    index.add(np.ascontiguousarray(vectors))
    return index
