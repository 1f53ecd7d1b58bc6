"""A file of compressed records with an index: the disk cache of game libraries.

Layout: magic, records (zlib), index (JSON, zlib), trailer (offset, length and BLAKE2b digest of the index). Files are
written under a temporary name and renamed, so that readers see the old file or the new one. A damaged file has no valid
trailer and counts as absent. If no file can be written, the records stay in memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MAGIC = b"turncredit household 1\n"
_TRAILER = struct.Struct("<QQ16s")
_LEVEL = 1  # records are read more often than written, and very redundant


@dataclass(frozen=True, slots=True)
class RecordFile:
    """Records in a file, or in `memory`. `entries[i]` is (meta, offset, length) of record i; `head` describes all."""

    path: Path | None
    head: dict[str, Any]
    entries: list[tuple[list[Any], int, int]]
    memory: bytes = b""
    dictionary: bytes = b""

    def read(self, number: int) -> bytes:
        """Return a record.

        Raises:
            OSError: the file is missing or was changed.
        """
        _, offset, length = self.entries[number]
        if self.path is None:
            data = self.memory[offset : offset + length]
        else:
            with self.path.open("rb") as file:
                data = os.pread(file.fileno(), length, offset)
        try:
            unpacker = zlib.decompressobj(zdict=self.dictionary) if self.dictionary else zlib.decompressobj()
            return unpacker.decompress(data) + unpacker.flush()
        except zlib.error as error:
            raise OSError(f"{self.path}: the record of {self.entries[number][0]} is damaged ({error})") from error


def open_records(path: Path, key: str) -> RecordFile | None:
    """Return the records of a file if it is intact and was written with this key, else None."""
    try:
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return None
            end = file.seek(-_TRAILER.size, os.SEEK_END)
            offset, length, digest = _TRAILER.unpack(file.read(_TRAILER.size))
            if offset + length != end:
                return None
            file.seek(offset)
            packed = file.read(length)
        if hashlib.blake2b(packed, digest_size=16).digest() != digest:
            return None
        index = json.loads(zlib.decompress(packed))
    except (OSError, ValueError, zlib.error, struct.error):
        return None
    if index["key"] != key:
        return None
    return RecordFile(path, index["head"], index["entries"], dictionary=index["dictionary"].encode())


def write_records(
    path: Path, key: str, records: Iterable[tuple[list[object], bytes]], head: dict[str, object]
) -> RecordFile:
    """Write records to a file and return them; keep them in memory if the file cannot be written.

    Args:
        path: the file; its folder is created if needed.
        key: the key that `open_records` must be given.
        records: (meta, content) pairs, with JSON-compatible meta. `head` may be filled while they are produced.
        head: JSON-compatible data about all records.
    """
    chunks: list[bytes] = []
    entries: list[tuple[list[object], int, int]] = []
    dictionary = b""
    offset = len(_MAGIC)
    for meta, content in records:
        if not entries:
            dictionary = content[-32768:].decode("utf-8", "ignore").encode()  # later games resemble the first
        packer = zlib.compressobj(_LEVEL, zdict=dictionary) if dictionary else zlib.compressobj(_LEVEL)
        data = packer.compress(content) + packer.flush()
        chunks.append(data)
        entries.append((meta, offset, len(data)))
        offset += len(data)
    index = {"key": key, "head": head, "entries": entries, "dictionary": dictionary.decode()}
    packed = zlib.compress(json.dumps(index).encode(), 1)
    trailer = _TRAILER.pack(offset, len(packed), hashlib.blake2b(packed, digest_size=16).digest())
    try:
        _replace(path, [_MAGIC, *chunks, packed, trailer])
    except OSError:
        return RecordFile(None, head, entries, _MAGIC + b"".join(chunks), dictionary)
    return RecordFile(path, head, entries, dictionary=dictionary)


def _replace(path: Path, chunks: list[bytes]) -> None:
    """Write a file under a temporary name, flush it to disk, and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
