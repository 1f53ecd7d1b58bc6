"""The sync service: what `adb push`, `adb pull` and `adb ls` speak."""

from __future__ import annotations

import posixpath
import stat
import struct
from typing import Final

from turncredit.phone.adb.connection import AdbStream, StreamClosed
from turncredit.phone.phone import Phone
from turncredit.phone.storage import Entry, Storage, StorageError

__all__ = ["serve_sync"]

_HEAD: Final = struct.Struct("<4sI")
_STAT: Final = struct.Struct("<4sIII")
_STAT_2: Final = struct.Struct("<4sIQQIIIIQqqq")
_DENT: Final = struct.Struct("<4sIIII")
_DENT_2: Final = struct.Struct("<4sIQQIIIIQqqqI")
_LONGEST_PATH: Final = 4096
_CHUNK: Final = 64 << 10
_MOST: Final = 512 << 20
_MISSING: Final = 2  # ENOENT


async def serve_sync(phone: Phone, stream: AdbStream) -> None:
    """Answer requests until QUIT, the end, or one that is none."""
    storage = Storage(phone)
    while True:
        kind, length = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
        if kind == b"QUIT":
            return
        if length > _LONGEST_PATH:
            await _fail(stream, f"a path has at most {_LONGEST_PATH} bytes, got {length}")
            return
        path = (await stream.read_exactly(length)).decode("utf-8", "surrogateescape")
        if kind == b"STAT":
            entry = storage.find(path)
            size = min(entry.size, 0xFFFFFFFF) if entry else 0
            values = (entry.mode, size, _time(entry.modified)) if entry else (0, 0, 0)
            await stream.write(_STAT.pack(b"STAT", *values))
        elif kind in (b"STA2", b"LST2"):
            await stream.write(_STAT_2.pack(kind, *_stat_2(storage.find(path))))
        elif kind in (b"LIST", b"LIS2"):
            await _list(storage, path, stream, kind == b"LIS2")
        elif kind == b"RECV":
            await _receive(storage, path, stream)
        elif kind == b"SEND":
            await _send(storage, path, stream)
        else:
            await _fail(
                stream, f"unknown request {kind!r}; this phone has STAT, STA2, LST2, LIST, LIS2, RECV, SEND, QUIT"
            )
            return


def _time(seconds: int) -> int:
    return min(0xFFFFFFFF, max(0, seconds))


def _stat_2(entry: Entry | None) -> tuple[int, ...]:
    if entry is None:
        return (_MISSING, *[0] * 10)
    inode = hash_of(entry.path)
    return (0, 1, inode, entry.mode, 1, 0, 0, entry.size, *[entry.modified] * 3)


def hash_of(path: str) -> int:
    """Return a number for a path that is the same in every process."""
    value = 14695981039346656037
    for byte in path.encode("utf-8", "surrogateescape"):
        value = (value ^ byte) * 1099511628211 % (1 << 64)
    return value


async def _fail(stream: AdbStream, message: str) -> None:
    data = message.encode("utf-8", "replace")
    await stream.write(_HEAD.pack(b"FAIL", len(data)) + data)


async def _list(storage: Storage, path: str, stream: AdbStream, newer: bool) -> None:
    parts = []
    folder = storage.find(path)
    for name in storage.names(path) if folder and folder.directory else []:
        entry = storage.entry(posixpath.join(path, name))
        raw = name.encode("utf-8", "surrogateescape")
        if newer:
            parts.append(_DENT_2.pack(b"DNT2", *_stat_2(entry), len(raw)) + raw)
        else:
            size = min(entry.size, 0xFFFFFFFF)
            parts.append(_DENT.pack(b"DENT", entry.mode, size, _time(entry.modified), len(raw)) + raw)
    done = _DENT_2.pack(b"DONE", *[0] * 12) if newer else _DENT.pack(b"DONE", *[0] * 4)
    await stream.write(b"".join(parts) + done)


async def _receive(storage: Storage, path: str, stream: AdbStream) -> None:
    try:
        data = storage.read(path)
    except StorageError as error:
        await _fail(stream, str(error))
        return
    parts = []
    for at in range(0, len(data), _CHUNK):
        piece = data[at : at + _CHUNK]
        parts.append(_HEAD.pack(b"DATA", len(piece)) + piece)
    await stream.write(b"".join(parts) + _HEAD.pack(b"DONE", 0))


async def _send(storage: Storage, request: str, stream: AdbStream) -> None:
    """Take a file: its path and mode, chunks, and its time."""
    path, _, mode = request.rpartition(",")
    pieces, size = [], 0
    while True:
        kind, length = _HEAD.unpack(await stream.read_exactly(_HEAD.size))
        if kind == b"DONE":
            break
        if kind != b"DATA" or length > _CHUNK:
            await _fail(stream, f"expected DATA of at most {_CHUNK} bytes, got {kind!r} of {length}")
            raise StreamClosed
        data = await stream.read_exactly(length)
        size += length
        if size <= _MOST:
            pieces.append(data)
    try:
        _store(storage, path, mode, b"".join(pieces) if size <= _MOST else None, length)
    except StorageError as error:
        await _fail(stream, f"couldn't create file: {error}")
    else:
        await stream.write(_HEAD.pack(b"OKAY", 0))


def _store(storage: Storage, path: str, mode: str, data: bytes | None, modified: int) -> None:
    if data is None:
        raise StorageError("No space left on device")
    if not path or not mode.isdecimal():
        raise StorageError("Invalid argument: expected PATH,MODE")
    if stat.S_ISLNK(int(mode[:9])):
        raise StorageError("this phone has no symbolic links")
    folder = posixpath.dirname(path) or "/"
    if storage.find(folder) is None:
        storage.make_directory(folder, parents=True)
    storage.write(path, data, modified)
