"""From a file of passages to a library: the index is built, or opened from a folder where it was kept."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Literal, get_args

from turnwise.tools.retrieval.bm25 import BM25
from turnwise.tools.retrieval.dense import Dense
from turnwise.tools.retrieval.encoder import SentenceModel, packaged
from turnwise.tools.retrieval.errors import BadIndex, BadQuery
from turnwise.tools.retrieval.hybrid import Hybrid
from turnwise.tools.retrieval.library import Library
from turnwise.tools.retrieval.passages import Passages
from turnwise.tools.retrieval.retriever import Retriever

__all__ = ["Index", "open_library"]

Index = Literal["bm25", "dense", "hybrid"]
_NOTE = "corpus.json"


def open_library(
    corpus: str | PathLike[str] | Passages,
    index: Index | str = "bm25",
    *,
    strict: bool = True,
    keep: str | PathLike[str] | None = None,
    model: str | PathLike[str] | SentenceModel | None = None,
    progress: Callable[[str], None] = lambda sentence: None,
) -> Library:
    """Return a library over a corpus.

    Args:
        corpus: a file of passages (see `Passages.open`), or passages.
        index: "bm25" (words), "dense" (meaning), "hybrid" (both, by reciprocal ranks).
        strict: see `Passages.open`.
        keep: a folder for indexes; what lies there of this corpus is opened, what does not is built and kept.
        model: a folder with a sentence encoder, or one that is loaded; without it that of the extra `dense`.
        progress: is told what takes long.

    Raises:
        BadCorpus: the corpus cannot be read.
        BadQuery: there is no index of that name.
        BadIndex: the folder holds indexes of another corpus or model, or damaged ones.
        BadModel: the model cannot be loaded.
        ImportError: the extra `dense` is not installed, and needed.
    """
    if index not in get_args(Index):
        raise BadQuery(f"option index must be one of {', '.join(get_args(Index))}; came {index!r}")
    encode = None if index == "bm25" else _model(model)
    passages = corpus if isinstance(corpus, Passages) else Passages.open(corpus, strict=strict)
    folder = None if keep is None else _claimed(Path(keep), passages)
    found: list[Retriever] = []
    if index != "dense":
        found.append(_bm25(passages, folder, progress))
    if encode is not None:
        found.append(_dense(passages, encode, folder, progress))
    return Library(passages, found[0] if len(found) == 1 else Hybrid(found))


def _model(model: str | PathLike[str] | SentenceModel | None) -> SentenceModel:
    if isinstance(model, SentenceModel):
        return model
    return packaged() if model is None else SentenceModel(model)


def _bm25(passages: Passages, folder: Path | None, progress: Callable[[str], None]) -> BM25:
    place = None if folder is None else folder / "bm25"
    if place is not None and place.exists():
        return BM25.open(place)
    progress(f"indexing the words of {len(passages):,} passages")
    built = BM25.build(passages.documents())
    _save(built, place)
    return built


def _dense(passages: Passages, encode: SentenceModel, folder: Path | None, progress: Callable[[str], None]) -> Dense:
    place = None if folder is None else folder / "dense"
    if place is not None and place.exists():
        return Dense.open(place, encode, label=encode.label)
    progress(f"making vectors of {len(passages):,} passages with {encode.label}")
    built = Dense.build(passages.documents(), encode, label=encode.label)
    _save(built, place)
    return built


def _save(built: BM25 | Dense, place: Path | None) -> None:
    """Keep an index, unless another process has done so meanwhile."""
    try:
        if place is not None:
            built.save(place)
    except OSError:
        if place is None or not place.exists():
            raise


def _claimed(folder: Path, passages: Passages) -> Path:
    """Return the folder for indexes of these passages, marked as theirs."""
    note, said = folder / _NOTE, {"fingerprint": passages.fingerprint, "passages": len(passages)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not note.exists() and not (folder / "bm25").exists() and not (folder / "dense").exists():
            _write(note, json.dumps(said) + "\n")
        known = json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadIndex(f"{folder} cannot hold indexes: {error}") from error
    if known != said:
        raise BadIndex(f"the indexes in {folder} are of another corpus: choose another folder, or remove it")
    return folder


def _write(path: Path, text: str) -> None:
    """Write a file in one move, so that no other process reads a part of it."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
        new = Path(scratch) / path.name
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
