"""Tar archives that no well-meaning program writes, byte by byte, and those of the standard library."""

import io
import tarfile

from turncredit.tools.sandbox.untrusted_archives import TreeLimits

END = bytes(1024)
SMALL = TreeLimits(bytes=1 << 20, entries=200, file_size=1 << 20)
Member = tuple[tarfile.TarInfo, bytes]


def octal(number: int, width: int = 12) -> bytes:
    return b"%0*o\0" % (width - 1, number)


def base256(number: int, width: int = 12) -> bytes:
    return (b"\xff" if number < 0 else b"\x80") + (number % 256 ** (width - 1)).to_bytes(width - 1, "big")


def header(
    name: bytes,
    kind: bytes = b"0",
    size: int | bytes = 0,
    *,
    mtime: bytes = octal(0),
    link: bytes = b"",
    mode: bytes = b"0000644\0",
    rest: bytes = b"",
) -> bytes:
    """Return one header with a right check sum; `rest` is what follows the magic number."""
    field = size if isinstance(size, bytes) else octal(size)
    start = name.ljust(100, b"\0") + mode + octal(0, 8) * 2 + field + mtime
    end = (kind + link.ljust(100, b"\0") + b"ustar\00000" + rest).ljust(356, b"\0")
    return start + b"%06o\0 " % (sum(start) + sum(end) + 8 * 32) + end


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def member(name: bytes, data: bytes = b"", kind: bytes = b"0", **more: bytes) -> bytes:
    return header(name, kind, len(data), **more) + padded(data)  # type: ignore[arg-type]


def pax(**records: bytes) -> bytes:
    """Return a pax header; "__" in a key stands for a dot."""
    data = b"".join(record(key.replace("__", ".").encode(), value) for key, value in records.items())
    return member(b"pax", data, b"x")


def record(key: bytes, value: bytes) -> bytes:
    size = len(key) + len(value) + 3
    size += len(str(size))
    size += len(str(size)) - len(str(size - 1)) if len(str(size)) != len(str(size - 1)) else 0
    return b"%d %s=%s\n" % (size, key, value)


def plain(name: str, kind: bytes = tarfile.REGTYPE, data: bytes = b"", link: str = "") -> Member:
    """Return a member for `archive`."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.size, entry.linkname = kind, len(data), link
    return entry, data


def archive(members: list[Member], format_: int = tarfile.PAX_FORMAT) -> bytes:
    """Return what the standard library writes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format_, errors="surrogateescape") as tar:
        for entry, data in members:
            tar.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
