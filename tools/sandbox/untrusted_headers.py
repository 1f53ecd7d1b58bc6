"""Read the headers of a tar archive: ustar, GNU long names and pax, each in linear time and under limits.

`tarfile` follows chains of headers with the stack of the process and searches them by regular expressions, so a program
in a box could stall or crash the host with an archive. `untrusted_archives` makes a tree of what is read here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final, NoReturn

from turncredit.tools.sandbox.errors import SnapshotError

__all__ = ["BLOCK", "KEPT_BITS", "LATEST_TIME", "Header", "HeaderReader", "refuse", "whole_seconds"]

KEPT_BITS: Final = 0o777  # of a mode; the others (set-user-id and the like) are dropped
LATEST_TIME: Final = 8**11 - 1  # seconds since 1970; what a number of a tar header can hold
BLOCK: Final = 512
_LONGEST_EXTENSION: Final = 1 << 16  # bytes of a pax header, or of a GNU long name
_MOST_EXTENSIONS: Final = 4  # headers before the one that they extend
_MOST_RECORDS: Final = 32  # of a pax header
_EXTENSIONS: Final = (b"L", b"K", b"x", b"X", b"g")
_DIGITS: Final = 19  # of a number in a pax header


def refuse(why: str) -> NoReturn:
    """Raise SnapshotError for an archive."""
    raise SnapshotError(f"not a snapshot of a box: {why}")


@dataclass(frozen=True, slots=True)
class Header:
    """What an archive says about one file; its content follows.

    Args:
        path: as it is written there; undecodable bytes are surrogates.
        kind: the type of tar, one byte.
        mode: permission bits.
        mtime: seconds since 1970, 0 to `LATEST_TIME`.
        size: bytes of content, at least 0.
        target: of a link.
    """

    path: str
    kind: bytes
    mode: int
    mtime: int
    size: int
    target: str


class HeaderReader:
    """Reads the headers of an archive, and the content that follows each of them."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    def next(self) -> Header | None:
        """Return the header of the next file, with the values of those that extend it; None at the end.

        Raises:
            SnapshotError: the archive is damaged or has files with holes.
        """
        more: dict[str, str] = {}
        for count in range(_MOST_EXTENSIONS + 1):
            block = bytes(self.data[self.position : self.position + BLOCK])
            if len(block) < BLOCK:
                refuse(f"it is truncated at byte {self.position:,}, without an end mark")
            if not block.strip(b"\0"):
                return refuse(f"a header is missing at byte {self.position:,}") if count else None
            _check_sum(block, self.position)
            self.position += BLOCK
            kind, size = block[156:157], _number(block[124:136], "size")
            if kind not in _EXTENSIONS:
                return _header(block, kind, size, more)
            more |= self._extension(kind, size)
        refuse(f"more than {_MOST_EXTENSIONS} headers extend one file")

    def content(self, size: int) -> bytes:
        """Return the next `size` bytes, which the caller has compared with its limits."""
        end = self.position + size
        if end > len(self.data):
            have = len(self.data) - self.position
            refuse(f"it is truncated: a file has {have:,} of {size:,} bytes")
        content = bytes(self.data[self.position : end])
        self.position = end + -size % BLOCK
        return content

    def _extension(self, kind: bytes, size: int) -> dict[str, str]:
        """Return the values for the next file from a header that only extends it."""
        if not 0 <= size <= _LONGEST_EXTENSION:
            refuse(f"a header has {size:,} bytes; at most {_LONGEST_EXTENSION:,} are read")
        data = self.content(size)
        if kind in (b"L", b"K"):
            return {"path" if kind == b"L" else "linkpath": os.fsdecode(data.split(b"\0", 1)[0])}
        records = _pax_records(data)
        if kind == b"g" and records:
            refuse("a global header names, sizes or dates all files")
        return records


def _header(block: bytes, kind: bytes, size: int, more: dict[str, str]) -> Header:
    """Return the header in a block; values of `more` come first."""
    prefix = _field(block, 345, 500) if block[257:263] == b"ustar\0" else b""
    path = b"/".join(filter(None, (prefix, _field(block, 0, 100))))
    size = _digits(more["size"], "size") if "size" in more else size
    if size < 0:
        refuse(f"a file has {size:,} bytes")
    return Header(
        more.get("path", os.fsdecode(path)),
        kind,
        _number(block[100:108], "mode") & KEPT_BITS,
        whole_seconds(_seconds(more["mtime"]) if "mtime" in more else _number(block[136:148], "time")),
        size,
        more.get("linkpath", os.fsdecode(_field(block, 157, 257))),
    )


def whole_seconds(time: float) -> int:
    """Return a modification time as entries hold it: whole seconds within the range of tar headers."""
    return int(min(max(time, 0), LATEST_TIME))


def _field(block: bytes, start: int, end: int) -> bytes:
    return block[start:end].split(b"\0", 1)[0]


def _check_sum(block: bytes, offset: int) -> None:
    expected = _number(block[148:156], "check sum")
    remainder = block[:148] + b" " * 8 + block[156:]
    if expected != sum(remainder) and expected != sum(byte - 256 if byte > 127 else byte for byte in remainder):
        refuse(f"the header at byte {offset:,} is damaged")


def _number(field: bytes, label: str) -> int:
    """Return a number of a header: octal digits, or base 256 after a byte 0x80 (0xff: negative)."""
    if field[0] in (0x80, 0xFF):
        return int.from_bytes(field[1:], "big") - (256 ** (len(field) - 1) if field[0] == 0xFF else 0)
    text = field.strip(b" \0")
    if text.strip(b"01234567"):
        refuse(f"the {label} {bytes(text)!r} of a header is not a number")
    return int(text or b"0", 8)


def _pax_records(data: bytes) -> dict[str, str]:
    """Return the records of a pax header: each is its length in decimal, a space, KEY=VALUE and a line feed."""
    records, offset, count = {}, 0, 0
    while offset < len(data):
        count += 1
        if count > _MOST_RECORDS:
            refuse(f"a pax header has more than {_MOST_RECORDS} records")
        space = data.find(b" ", offset, offset + 7)
        if space < 0 or not data[offset:space].isdigit():
            refuse("a pax header has a record without a length")
        end = offset + int(data[offset:space])
        key, equals, value = data[space + 1 : end - 1].partition(b"=")
        if end > len(data) or end < space + 3 or not equals or data[end - 1 : end] != b"\n":
            refuse("a pax header has a damaged record")
        if key.startswith(b"GNU.sparse"):
            refuse("it has files with holes")
        if key in (b"path", b"linkpath", b"size", b"mtime"):
            records[key.decode()] = os.fsdecode(value)
        offset = end
    return records


def _digits(text: str, label: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
        refuse(f"the {label} {text[:40]!r} of a pax header is not a number")
    return int(text)


def _seconds(text: str) -> int:
    """Return the whole seconds of a time such as "-12.5"."""
    whole, dot, fraction = text.removeprefix("-").partition(".")
    if dot and not (fraction.isascii() and fraction.isdigit()):
        refuse(f"the time {text[:40]!r} of a pax header is not a number")
    seconds = _digits(whole, "time")
    return -seconds if text.startswith("-") else seconds
