"""Indexes as directories: one file per array in numpy's format, and the manifest `index.json` with sizes and checksums.

`save_arrays` and `load_arrays` handle any one-dimensional arrays, `save_postings` and `load_postings` those of BM25. A
directory is written next to its destination and moved there when it is complete, so that an interrupted run leaves
nothing that looks like an index.
"""

import json
import os
import tempfile
import zlib
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from turncredit.tools.retrieval.errors import BadIndex
from turncredit.tools.retrieval.packed_strings import PackedStrings
from turncredit.tools.retrieval.postings import Postings

MANIFEST = "index.json"


@dataclass(frozen=True, slots=True)
class IndexFormat:
    """Format of an index.

    Args:
        name: recorded in the manifest.
        version: incremented when older indexes would be misread: because of their files, or of the terms of a text.
        writer: the method that writes it, for messages.
        arrays: name of each array, with its possible dtypes.
    """

    name: str
    version: int
    writer: str
    arrays: dict[str, tuple[str, ...]]


_PLAIN = {
    "starts": ("int64",),
    "documents": ("int32",),
    "counts": ("uint8", "uint16", "int32"),
    "norms": ("uint8",),
    "ranks": ("int32",),
}
Arrays: TypeAlias = dict[str, NDArray[Any]]
Notes: TypeAlias = dict[str, Any]
"""What the manifest of an index says beside its arrays; JSON values."""
_STRINGS = {"words": ("uint8",), "word_ends": ("int64",), "ids": ("uint8",), "id_ends": ("int64",)}
_BM25 = IndexFormat("turncredit BM25 index", 1, "BM25.save", {**_STRINGS, **_PLAIN})


def save_postings(path: str | PathLike[str], postings: Postings, options: Notes) -> None:
    """Save the postings of BM25 atomically.

    Args:
        path: the directory; its parents are created.
        postings: the postings.
        options: options of the index.

    Raises:
        BadIndex: the directory contains something other than an index.
    """
    words, ids = postings.words, postings.ids
    arrays: Arrays = {name: getattr(postings, name) for name in _PLAIN}
    arrays |= {"words": words.text, "word_ends": words.ends, "ids": ids.text, "id_ends": ids.ends}
    save_arrays(path, _BM25, arrays, {"options": options, "total": postings.total, "filled": postings.filled})


def load_postings(path: str | PathLike[str], *, check: bool = False) -> tuple[Postings, Notes]:
    """Return the memory-mapped postings of BM25 and its options.

    Args:
        path: the directory.
        check: compare the checksums of all files.

    Raises:
        BadIndex: the directory is missing, not an index, damaged, or of another version.
    """
    source = Path(path)
    arrays, manifest = load_arrays(source, _BM25, check=check)
    try:
        options = dict(manifest["options"])
        total, filled = int(manifest["total"]), int(manifest["filled"])
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged_manifest(source, error) from error
    words = PackedStrings(arrays["words"], arrays["word_ends"])
    ids = PackedStrings(arrays["ids"], arrays["id_ends"])
    postings = Postings(words, ids, **{name: arrays[name] for name in _PLAIN}, total=total, filled=filled)
    _check_sizes(source, postings)
    return postings, options


def save_arrays(path: str | PathLike[str], format: IndexFormat, arrays: Arrays, notes: Notes) -> None:
    """Save arrays and notes atomically.

    Args:
        path: the directory; its parents are created; an index of the same format is replaced.
        format: format of the index.
        arrays: one-dimensional arrays, as the format lists them.
        notes: further entries of the manifest.

    Raises:
        BadIndex: the directory contains something else.
    """
    target = Path(path)
    if target.is_symlink() or target.exists():
        _check_replaceable(target, format)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        new, old = Path(scratch) / "new", Path(scratch) / "old"
        new.mkdir()
        _write_files(new, format, arrays, notes)
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(new, target)
        except OSError:
            if old.exists():
                os.rename(old, target)
            raise


def load_arrays(path: str | PathLike[str], format: IndexFormat, *, check: bool = False) -> tuple[Arrays, Notes]:
    """Return the memory-mapped arrays of an index and its manifest.

    Args:
        path: the directory.
        format: expected format.
        check: compare the checksums of all files.

    Raises:
        BadIndex: the directory is missing, not an index of this format, damaged, or of another version.
    """
    source = Path(path)
    manifest = _read_manifest(source, format)
    try:
        arrays = {
            name: _map_array(source / f"{name}.npy", manifest["files"][name], dtypes, check)
            for name, dtypes in format.arrays.items()
        }
    except BadIndex:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged_manifest(source, error) from error
    return arrays, manifest


def _write_files(target: Path, format: IndexFormat, arrays: Arrays, notes: Notes) -> None:
    """Write the files of an index, the manifest last."""
    files = {}
    for name, values in arrays.items():
        file = target / f"{name}.npy"
        np.save(file, values, allow_pickle=False)
        files[name] = {"bytes": file.stat().st_size, "crc32": _checksum(file)}
    manifest = {"format": format.name, "version": format.version, **notes, "files": files}
    (target / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")


def _checksum(path: Path) -> int:
    """Return the CRC-32 of a file."""
    value = 0
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            value = zlib.crc32(piece, value)
    return value


def _check_replaceable(target: Path, format: IndexFormat) -> None:
    """Raise BadIndex unless the directory is empty or contains only an index."""
    if target.is_symlink() or not target.is_dir():
        raise BadIndex(f"cannot save an index to {target}: it is not a directory")
    names = {path.name for path in target.iterdir()}
    if names and (MANIFEST not in names or names - {MANIFEST, *(f"{name}.npy" for name in format.arrays)}):
        raise BadIndex(f"cannot save an index to {target}: the directory contains other files")


def _damaged_manifest(source: Path, error: Exception) -> BadIndex:
    return BadIndex(f"{source / MANIFEST} is damaged: {type(error).__name__} {error}")


def _read_manifest(source: Path, format: IndexFormat) -> Notes:
    if not source.is_dir():
        raise BadIndex(f"{source} is not a directory; an index is a directory written by {format.writer}")
    try:
        manifest = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadIndex(f"{source} is not an index: it has no {MANIFEST}") from None
    except (OSError, ValueError) as error:
        raise BadIndex(f"{source / MANIFEST} cannot be read: {error}") from error
    if not isinstance(manifest, dict) or manifest.get("format") != format.name:
        raise BadIndex(f"{source} is not a {format.name}: {MANIFEST} has another format")
    if (version := manifest.get("version")) != format.version:
        raise BadIndex(f"{source} has version {version!r}, expected {format.version}; build the index again")
    return manifest


def _map_array(path: Path, expected: dict[str, int], dtypes: tuple[str, ...], check: bool) -> NDArray[Any]:
    """Return one array of an index, memory-mapped unless it is empty."""
    size = path.stat().st_size if path.is_file() else None
    if size != expected["bytes"]:
        problem = "is missing" if size is None else f"has {size} bytes"
        raise BadIndex(f"the index is damaged: {path} {problem}, expected {expected['bytes']} bytes")
    if check and _checksum(path) != expected["crc32"]:
        raise BadIndex(f"the index is damaged: the checksum of {path} is wrong")
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False) if size > 128 else np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise BadIndex(f"the index is damaged: {path} is not an array ({error})") from error
    if values.ndim != 1 or str(values.dtype) not in dtypes:
        problem = f"{values.dtype} {list(values.shape)}"
        raise BadIndex(f"the index is damaged: {path} must be {' or '.join(dtypes)} [n], got {problem}")
    return np.asarray(values)


def _check_sizes(source: Path, postings: Postings) -> None:
    """Raise BadIndex unless the sizes of the arrays match."""
    strings = (postings.words, postings.ids)
    match = (
        all(len(packed.ends) and packed.ends[-1] == len(packed.text) for packed in strings)
        and len(postings.starts) == len(postings.words) + 1
        and postings.starts[-1] == len(postings.documents) == len(postings.counts)
        and len(postings.norms) == len(postings.ranks) == len(postings.ids)
        and 0 <= postings.filled <= len(postings.ids)
    )
    if not match:
        raise BadIndex(f"the index in {source} is damaged: its files do not belong together")
