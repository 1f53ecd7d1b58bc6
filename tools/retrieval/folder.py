"""An index as a folder: one file an array, in numpy's format, and `index.json`, which says what belongs to it.

`store` and `load` do that for any arrays of one dimension; `write` and `read` for the postings of BM25.

The folder is written beside its place and moved there when it is whole, so that a run that dies leaves nothing that
looks like an index.
"""

import json
import os
import tempfile
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnwise.tools.retrieval.errors import BadIndex
from turnwise.tools.retrieval.postings import Postings
from turnwise.tools.retrieval.strings import Strings

FORMAT = "turnwise BM25 index"
VERSION = 1
"""Counted up whenever an older index would be read wrongly: by its files, or by the words that a text has."""

MANIFEST = "index.json"

_KINDS = {
    "words": ("uint8",),
    "word_ends": ("int64",),
    "ids": ("uint8",),
    "id_ends": ("int64",),
    "starts": ("int64",),
    "documents": ("int32",),
    "counts": ("uint8", "uint16", "int32"),
    "norms": ("uint8",),
    "ranks": ("int32",),
}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of index is called and made of.

    Args:
        format: its name in the manifest.
        version: counted up whenever an older index would be read wrongly.
        maker: what writes it, for a sentence.
        arrays: the names of its files, each with the types that it may have.
    """

    format: str
    version: int
    maker: str
    arrays: dict[str, tuple[str, ...]]


_BM25 = Kind(FORMAT, VERSION, "BM25.save", _KINDS)

_PLAIN = ("starts", "documents", "counts", "norms", "ranks")


def _arrays(postings: Postings) -> dict[str, NDArray[Any]]:
    """Return the arrays of an index by the names of their files."""
    words, ids = postings.words, postings.ids
    strings = {"words": words.text, "word_ends": words.ends, "ids": ids.text, "id_ends": ids.ends}
    rest = {name: getattr(postings, name) for name in _PLAIN}
    return {**strings, **rest}


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    value = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            value = zlib.crc32(piece, value)
    return value


def write(path: str | PathLike[str], postings: Postings, options: dict[str, Any]) -> None:
    """Write an index, in one move at the end.

    Args:
        path: the folder; its parents are made.
        postings: what to write.
        options: those of the index: numbers and words.

    Raises:
        BadIndex: something else than an index lies there.
    """
    said = {"options": options, "total": postings.total, "filled": postings.filled}
    store(path, _BM25, _arrays(postings), said)


def store(path: str | PathLike[str], kind: Kind, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
    """Write arrays and notes, in one move at the end.

    Args:
        path: the folder; its parents are made; an index of the same kind that lies there is replaced.
        kind: what it is.
        arrays: those of the kind, each of one dimension.
        notes: what else the manifest says.

    Raises:
        BadIndex: something else lies there.
    """
    target = Path(path)
    if target.is_symlink() or target.exists():
        _check_replaceable(target, kind)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        new = Path(scratch) / "new"
        new.mkdir()
        _fill(new, kind, arrays, notes)
        old = Path(scratch) / "old"
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            if old.exists():
                os.rename(old, target)
            raise


def _fill(target: Path, kind: Kind, arrays: dict[str, NDArray[Any]], notes: dict[str, Any]) -> None:
    """Write the files of an index, the manifest last."""
    files = {}
    for name, values in arrays.items():
        file = target / f"{name}.npy"
        np.save(file, values, allow_pickle=False)
        files[name] = {"bytes": file.stat().st_size, "crc32": _checksum(file)}
    said = {"format": kind.format, "version": kind.version, **notes, "files": files}
    (target / MANIFEST).write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _check_replaceable(target: Path, kind: Kind) -> None:
    """Raise BadIndex unless the folder is empty or holds an index and nothing else."""
    if target.is_symlink() or not target.is_dir():
        raise BadIndex(f"{target} is no folder, so no index can be written there")
    names = {path.name for path in target.iterdir()}
    if names and (MANIFEST not in names or names - {MANIFEST, *(f"{name}.npy" for name in kind.arrays)}):
        raise BadIndex(f"{target} holds other files than an index, and is not overwritten")


def read(path: str | PathLike[str], *, check: bool = False) -> tuple[Postings, dict[str, Any]]:
    """Return the postings of a folder, mapped, and the options.

    Args:
        path: the folder.
        check: also compares the checksums of all files.

    Raises:
        BadIndex: the folder is missing, no index, torn, or of another version.
    """
    source = Path(path)
    arrays, said = load(source, _BM25, check=check)
    try:
        options = dict(said["options"])
        total, filled = int(said["total"]), int(said["filled"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadIndex(f"{source / MANIFEST} is damaged: {type(error).__name__} {error}") from error
    words, ids = Strings(arrays["words"], arrays["word_ends"]), Strings(arrays["ids"], arrays["id_ends"])
    rest = {name: arrays[name] for name in _PLAIN}
    postings = Postings(words, ids, **rest, total=total, filled=filled)
    _check_sizes(source, postings)
    return postings, options


def load(
    path: str | PathLike[str], kind: Kind, *, check: bool = False
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Return the arrays of a folder, mapped, and its manifest.

    Args:
        path: the folder.
        kind: what it must be.
        check: also compares the checksums of all files.

    Raises:
        BadIndex: the folder is missing, no index of the kind, torn, or of another version.
    """
    source = Path(path)
    said = _manifest(source, kind)
    try:
        arrays = {
            name: _mapped(source / f"{name}.npy", said["files"][name], types, check)
            for name, types in kind.arrays.items()
        }
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadIndex):
            raise
        raise BadIndex(f"{source / MANIFEST} is damaged: {type(error).__name__} {error}") from error
    return arrays, said


def _manifest(source: Path, kind: Kind) -> dict[str, Any]:
    """Return what the manifest says."""
    if not source.is_dir():
        raise BadIndex(f"{source} is no folder; an index is a folder that {kind.maker} wrote")
    try:
        said = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadIndex(f"{source} is no index: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise BadIndex(f"{source / MANIFEST} cannot be read: {error}") from error
    if not isinstance(said, dict) or said.get("format") != kind.format:
        raise BadIndex(f"{source} is no index of ours: {MANIFEST} does not say {kind.format!r}")
    if said.get("version") != kind.version:
        came = said.get("version")
        raise BadIndex(f"{source} is an index of version {came!r}, and this is version {kind.version}: build it again")
    return said


def _mapped(path: Path, said: dict[str, int], kinds: tuple[str, ...], check: bool) -> NDArray[Any]:
    """Return one array of an index, mapped unless it is empty."""
    size = path.stat().st_size if path.is_file() else None
    if size != said["bytes"]:
        came = "is missing" if size is None else f"has {size} bytes"
        raise BadIndex(f"the index is torn: {path} {came}, and should have {said['bytes']}")
    if check and _checksum(path) != said["crc32"]:
        raise BadIndex(f"the index is damaged: the checksum of {path} is wrong")
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False) if size > 128 else np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadIndex(f"the index is damaged: {path} is no array ({error})") from error
    if values.ndim != 1 or str(values.dtype) not in kinds:
        raise BadIndex(
            f"the index is damaged: {path} holds {values.dtype} {list(values.shape)}, not {' or '.join(kinds)} [n]"
        )
    return np.asarray(values)


def _check_sizes(source: Path, postings: Postings) -> None:
    """Raise BadIndex unless the arrays fit each other."""
    ends = [strings.ends[-1] == len(strings.text) for strings in (postings.words, postings.ids) if len(strings.ends)]
    fit = len(ends) == 2 and all(ends) and len(postings.starts) == len(postings.words) + 1
    fit = fit and postings.starts[-1] == len(postings.documents) == len(postings.counts)
    if (
        not fit
        or not len(postings.norms) == len(postings.ranks) == len(postings.ids)
        or not 0 <= postings.filled <= len(postings.ids)
    ):
        raise BadIndex(f"the index in {source} is damaged: its files do not belong together")
