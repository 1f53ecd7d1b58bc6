"""Libraries: passages with a retriever, so that a query returns texts and not only ids."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Literal, Protocol, get_args, runtime_checkable

from turncredit.registry import suggest
from turncredit.tools.retrieval.bm25 import BM25
from turncredit.tools.retrieval.dense import Dense
from turncredit.tools.retrieval.encoder import SentenceModel, packaged_model
from turncredit.tools.retrieval.errors import BadCorpus, BadIndex, BadQuery
from turncredit.tools.retrieval.hybrid import Hybrid
from turncredit.tools.retrieval.passages import Passage, Passages
from turncredit.tools.retrieval.retriever import Hits, Retriever

__all__ = ["Index", "Library", "PassageSearch", "open_library"]

Index = Literal["bm25", "dense", "hybrid"]
_NOTE = "corpus.json"


@runtime_checkable
class PassageSearch(Protocol):
    """Anything that finds passages for a query, such as a `Library` or a `RemoteRetriever`."""

    def find(self, query: str, k: int = 3) -> list[Passage]:
        """Return at most k passages, best first.

        Args:
            query: any text.
            k: maximum number of passages, at least 1.
        """
        ...

    def find_batch(self, queries: Iterable[str], k: int = 3) -> list[list[Passage]]:
        """Return the result of `find` for each query.

        Args:
            queries: texts.
            k: maximum number of passages per query, at least 1.
        """
        ...


class Library:
    """Passages with a retriever.

    >>> library = Library(Passages.of([("1", '"Tea"\\nTea is a drink.'), ("2", '"Rye"\\nRye is a grass.')]))
    >>> [(found.id, found.name) for found in library.find("a hot drink", k=1)]
    [('1', 'Tea')]

    Args:
        passages: the texts.
        retriever: finds the ids of passages; None: BM25 over their contents, built here.
    """

    def __init__(self, passages: Passages, retriever: Retriever | None = None) -> None:
        self.passages = passages
        self.retriever: Retriever = BM25.build(passages.documents()) if retriever is None else retriever

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self.passages)

    def find(self, query: str, k: int = 3) -> list[Passage]:
        """Return at most k passages, best first.

        Args:
            query: any text.
            k: maximum number of passages, at least 1.

        Raises:
            BadQuery: `query` is not a str, or `k` is not an integer >= 1.
            BadCorpus: the retriever was built for another corpus.
        """
        return self._passages(self.retriever.search(query, k))

    def find_batch(self, queries: Iterable[str], k: int = 3) -> list[list[Passage]]:
        """Return the result of `find` for each query.

        Args:
            queries: texts; a single str is refused.
            k: maximum number of passages per query, at least 1.

        Raises:
            BadQuery, BadCorpus: see `find`.
        """
        return [self._passages(hits) for hits in self.retriever.search_batch(queries, k)]

    def _passages(self, hits: Hits) -> list[Passage]:
        passages = []
        for id, score in hits:
            passage = self.passages.get(id)
            if passage is None:
                raise BadCorpus(f"the retriever was built for another corpus: it found {id!r}, which has no passage")
            passages.append(replace(passage, score=score))
        return passages


def open_library(
    corpus: str | PathLike[str] | Passages,
    index: Index | str = "bm25",
    *,
    strict: bool = True,
    keep: str | PathLike[str] | None = None,
    model: str | PathLike[str] | SentenceModel | None = None,
    progress: Callable[[str], None] = lambda message: None,
) -> Library:
    """Return a library for a corpus.

    Args:
        corpus: a file of passages (see `Passages.open`), or passages.
        index: "bm25" (words), "dense" (meaning), "hybrid" (both, by reciprocal rank fusion).
        strict: see `Passages.open`.
        keep: directory for indexes: those of this corpus are opened, missing ones are built and saved.
        model: a sentence encoder, or a directory with one; None: the model of the extra `dense`.
        progress: called with a message before each step that takes long.

    Raises:
        BadCorpus: the corpus cannot be read.
        BadQuery: no index has that name.
        BadIndex: `keep` has indexes of another corpus or model, or damaged ones.
        BadModel: the model cannot be loaded.
        ImportError: the extra `dense` is needed and not installed.
    """
    if index not in get_args(Index):
        raise BadQuery(f"unknown index {index!r}{suggest(str(index), get_args(Index))}")
    encode = None if index == "bm25" else _encoder(model)
    passages = corpus if isinstance(corpus, Passages) else Passages.open(corpus, strict=strict)
    folder = None if keep is None else _claimed(Path(keep), passages)
    retrievers: list[Retriever] = []
    if index != "dense":
        retrievers.append(_bm25(passages, folder, progress))
    if encode is not None:
        retrievers.append(_dense(passages, encode, folder, progress))
    return Library(passages, retrievers[0] if len(retrievers) == 1 else Hybrid(retrievers))


def _encoder(model: str | PathLike[str] | SentenceModel | None) -> SentenceModel:
    if isinstance(model, SentenceModel):
        return model
    return packaged_model() if model is None else SentenceModel(model)


def _bm25(passages: Passages, folder: Path | None, progress: Callable[[str], None]) -> BM25:
    path = None if folder is None else folder / "bm25"
    if path is not None and path.exists():
        return BM25.open(path)
    progress(f"indexing the words of {len(passages):,} passages")
    index = BM25.build(passages.documents())
    _save(index, path)
    return index


def _dense(passages: Passages, encode: SentenceModel, folder: Path | None, progress: Callable[[str], None]) -> Dense:
    path = None if folder is None else folder / "dense"
    if path is not None and path.exists():
        return Dense.open(path, encode, label=encode.label)
    progress(f"computing vectors of {len(passages):,} passages with {encode.label}")
    index = Dense.build(passages.documents(), encode, label=encode.label)
    _save(index, path)
    return index


def _save(index: BM25 | Dense, path: Path | None) -> None:
    """Save an index, unless another process has saved it meanwhile."""
    try:
        if path is not None:
            index.save(path)
    except OSError:
        if path is None or not path.exists():
            raise


def _claimed(folder: Path, passages: Passages) -> Path:
    """Return the directory for indexes after recording, or checking, which corpus they belong to."""
    note, expected = folder / _NOTE, {"fingerprint": passages.fingerprint, "passages": len(passages)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not note.exists() and not (folder / "bm25").exists() and not (folder / "dense").exists():
            _write(note, json.dumps(expected) + "\n")
        owner = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadIndex(f"{folder} cannot be used for indexes: {error}") from error
    if owner != expected:
        raise BadIndex(f"the indexes in {folder} belong to another corpus; use another directory, or remove it")
    return folder


def _write(path: Path, text: str) -> None:
    """Write a file atomically."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        new = Path(scratch) / path.name
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
