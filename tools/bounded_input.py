"""What comes from outside, read under limits: files, lines, compressed data, JSON, and bodies that a server streams.

What this program did not write is read here. Each function checks its limit before it allocates what the
limit bounds, and raises one error, `InputError`, whose message says what was read, what came and what is allowed.

Compressed files are told by their first bytes, not by their names. A few hundred bytes of zstd may stand for gigabytes,
so they are decoded in small pieces.

Not included: answers of programs in a box, whose limits are tighter (`turncredit.tools.sandbox.untrusted_frames`).
"""

from __future__ import annotations

import json
import lzma
import os
import re
import stat
import tomllib
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Protocol

from turncredit.installation import needs
from turncredit.tools.visible_text import encodable_values

MAX_LINE = 256 << 20
"""Bytes of one line: an episode of 50 turns with screens of 1 MB each is far below."""

MAX_FILE = 4 << 30
"""Bytes of a file that is read as a whole, after decompression."""

MAX_SETTINGS = 16 << 20
"""Bytes of a file of settings."""

MAX_DEPTH = 64
"""Levels of lists and objects in JSON."""

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_XZ = b"\xfd7zXZ\x00"
_PIECE = {"gzip": 1 << 16, "zstd": 1 << 10, "xz": 1 << 12}
"""Compressed bytes that are decoded at once: 64 MB of gzip, 32 MB of zstd, 28 MB of xz at the greatest rate."""
_MARKS = {"gzip": _GZIP, "zstd": _ZSTD, "xz": _XZ}
_LONGEST_MARK = max(map(len, _MARKS.values()))

_XZ_MEMORY = 256 << 20
"""Bytes of memory of a decoder of xz; its greatest preset needs 65 MB."""

# Possessive, and a string without an end matches to the end of the text, so that the time is linear.
_JSON_PARTS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{]|[\]}]', re.DOTALL)
# A key with at least 64 dots, or a text that looks like one.
_DOTTED = re.compile(
    r"""(?<![\w-])(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')(?:[ \t]*+\.[ \t]*+(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')){64,}+"""
)
_OPENING = frozenset((b"[", b"{"))
_HALF = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]")  # a half surrogate pair, or a whole one
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRING = re.compile(rb'"[^"]*+"')
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(code for code in range(256) if code not in b"[]{}")


class InputError(ValueError):
    """What came from outside is damaged, or larger or deeper than allowed; the message is one sentence."""


def open_file(path: str | Path) -> BufferedReader:
    """Return a file that is open for reading; the one door through which files of users and of runs are opened.

    A pipe in a folder would hold its reader until somebody writes into it, so it is not waited for. What lies in
    `/dev` was named by a user, such as `/dev/stdin` or the `/dev/fd/63` of a shell's `<(...)`, and is read as it is.

    Raises:
        InputError: it is a pipe, a device or a socket.
        OSError: it cannot be opened, or is a folder.
    """
    path = Path(path)
    if path.parts[:2] == ("/", "dev"):
        return path.open("rb")
    try:
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY))  # noqa: SIM115
    except OSError as error:
        if path.is_socket():  # which cannot be opened at all
            raise InputError(f"{path} is a socket, and a file is needed") from error
        raise
    mode = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(mode):
        file.close()
        raise InputError(f"{path} is a {'pipe' if stat.S_ISFIFO(mode) else 'device'}, and a file is needed")
    return file


def require_no_link(path: Path) -> Path:
    """Return a path inside a folder of others, which must not lead out of it.

    Raises:
        InputError: it is a link.
    """
    if path.is_symlink():
        raise InputError(f"{path} is a link, and links in a folder that came from elsewhere are not followed")
    return path


def require_files(folder: str | Path) -> None:
    """Check that nothing in a folder is a pipe, a device or a socket, for libraries that open its files themselves.

    Raises:
        InputError: something is, which is named.
        OSError: the folder cannot be read.
    """
    for path in sorted(Path(folder).iterdir()):
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(f"{path} is a pipe, a device or a socket, and a file is needed")


class _Decoder(Protocol):
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, /) -> bytes: ...


class DecodedFile:
    """The content of a file in blocks, decompressed if it is gzip, zstd or xz; it may still be growing.

    Attributes:
        unfinished: after reading, whether the last compressed member has no end.
    """

    def __init__(self, path: str | Path, *, max_bytes: int | None = None) -> None:
        """Name the file; it is opened when blocks are read.

        Args:
            path: the file.
            max_bytes: decoded bytes after which reading fails; None for no limit.
        """
        self.path = Path(path)
        self.max_bytes = max_bytes
        self.unfinished = False

    def __iter__(self) -> Iterator[bytes]:
        """Yield the decoded blocks.

        Raises:
            InputError: the compressed data is damaged, needs a package that is not installed, or exceeds the limit.
            OSError: the file cannot be read.
        """
        return bounded(self._blocks(), self.max_bytes, str(self.path))

    def _blocks(self) -> Iterator[bytes]:
        self.unfinished = False
        decoder: _Decoder | None = None
        with open_file(self.path) as file:
            start = file.read(_LONGEST_MARK)
            kind = _kind(start)
            for block in chain(
                [start] if start else [], iter(partial(file.read, _PIECE.get(kind or "", 1 << 16)), b"")
            ):
                if kind is None:
                    yield block
                    continue
                while block:  # a compressed file that was appended to has several members
                    decoder = decoder or _new_decoder(kind, self.path)
                    decoded, block, ended = self._decode(decoder, block)
                    yield decoded
                    decoder = None if ended else decoder
        self.unfinished = decoder is not None

    def _decode(self, decoder: _Decoder, block: bytes) -> tuple[bytes, bytes, bool]:
        """Return the decoded block, the compressed bytes that are left, and whether the member ended."""
        try:
            decoded = decoder.decompress(block)
        except Exception as error:  # zlib.error, or zstandard's, which may not be installed
            raise InputError(f"{self.path}: the compressed data is damaged ({error})") from error
        return decoded, decoder.unused_data if decoder.eof else b"", decoder.eof


def compression_of(path: str | Path) -> str | None:
    """Return how a file is compressed: "gzip", "zstd" or "xz"; None if it is not, as far as is known.

    Raises:
        OSError: it cannot be read.
    """
    with open_file(path) as file:
        return _kind(file.read(_LONGEST_MARK))


def _kind(start: bytes) -> str | None:
    return next((name for name, mark in _MARKS.items() if start.startswith(mark)), None)


def _new_decoder(kind: str, path: Path) -> _Decoder:
    if kind == "gzip":
        return zlib.decompressobj(wbits=31)
    if kind == "xz":
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    try:
        import zstandard
    except ImportError as error:
        raise InputError(needs(f"{path} is compressed with zstd", "train")) from error
    decoder: _Decoder = zstandard.ZstdDecompressor().decompressobj()
    return decoder


class BodyDecoder:
    """Decodes the body of an HTTP answer as it arrives: as it is, or gzip.

    >>> decoder = BodyDecoder("", max_bytes=5, label="the answer")
    >>> decoder.feed(b"abc")
    b'abc'
    >>> decoder.feed(b"def")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    InputError: the answer has more than 5 bytes, the most that is read
    """

    ACCEPTED: ClassVar[str] = "gzip"
    """Value of the header `Accept-Encoding` of a request whose answer is read here."""

    def __init__(self, encoding: str, *, max_bytes: int, label: str) -> None:
        """Begin a body.

        Args:
            encoding: value of the header `Content-Encoding`; "" if there is none.
            max_bytes: decoded bytes of the whole body.
            label: name of what is read, for the message.

        Raises:
            InputError: the encoding is another one; a server must not choose one that was not offered.
        """
        name = encoding.strip().lower()
        if name not in ("", "identity", "gzip", "x-gzip"):
            raise InputError(f"{label} has the content encoding {name[:40]!r}; only gzip is read")
        self._gzip = None if name in ("", "identity") else zlib.decompressobj(wbits=31)
        self._most, self._what = max_bytes, label
        self._received = self._decoded = 0

    def feed(self, block: bytes) -> bytes:
        """Return what the next block of the body stands for.

        Raises:
            InputError: the body is larger than allowed, or damaged.
        """
        self._received += len(block)
        if self._gzip is not None:
            try:
                block = self._gzip.decompress(block, self._most - self._decoded + 1)
            except zlib.error as error:
                raise InputError(f"{self._what}: the compressed data is damaged ({error})") from error
        self._decoded += len(block)
        if max(self._received, self._decoded) > self._most:
            raise InputError(f"{self._what} has more than {self._most:,} bytes, the most that is read")
        return block


def bounded(blocks: Iterable[bytes], max_bytes: int | None, label: str) -> Iterator[bytes]:
    """Yield blocks of bytes until they exceed a limit in total.

    Args:
        blocks: for example the body of an answer, as it arrives and decoded.
        max_bytes: the limit in bytes; None for no limit.
        label: name of what is read, for the message.

    Raises:
        InputError: there are more bytes than allowed.
    """
    total = 0
    for block in blocks:
        total += len(block)
        if max_bytes is not None and total > max_bytes:
            raise InputError(f"{label} has more than {max_bytes:,} bytes, the most that is read")
        yield block


def read_bytes(path: str | Path, *, max_bytes: int = MAX_FILE) -> bytes:
    """Return the content of a file, decompressed.

    Raises:
        InputError: it is damaged, or has more bytes than allowed.
        OSError: it cannot be read.
    """
    file = DecodedFile(path, max_bytes=max_bytes)
    data = b"".join(file)
    if file.unfinished:
        raise InputError(f"{path}: the compressed data is damaged (it ends in the middle)")
    return data


def read_text(path: str | Path, *, max_bytes: int = MAX_FILE) -> str:
    """Return the text of a file in UTF-8, decompressed, without a byte order mark.

    Raises:
        InputError: it is damaged, is no UTF-8, or has more bytes than allowed.
        OSError: it cannot be read.
    """
    return _decoded(read_bytes(path, max_bytes=max_bytes), str(path))


def read_lines(path: str | Path, *, max_line: int = MAX_LINE, max_bytes: int | None = None) -> Iterator[bytes]:
    r"""Yield the lines of a file without their ends ("\n" or "\r\n"), decompressed; the last may be incomplete.

    Args:
        path: the file.
        max_line: bytes of a line.
        max_bytes: bytes of the whole file; None for no limit.

    Raises:
        InputError: a line or the file is larger than allowed, or the compressed data is damaged.
        OSError: the file cannot be read.
    """
    yield from split_lines(DecodedFile(path, max_bytes=max_bytes), max_line=max_line, label=str(path))


def split_lines(blocks: Iterable[bytes], *, max_line: int = MAX_LINE, label: str) -> Iterator[bytes]:
    """Yield the lines of a stream of blocks; see `read_lines`."""
    parts: list[bytes] = []
    held = number = 0
    for block in blocks:
        first, *others = block.split(b"\n")
        parts.append(first)
        held += len(first)
        for following in others:
            number += 1
            _check_line(held, max_line, label, number)
            yield b"".join(parts).removesuffix(b"\r")
            parts, held = [following], len(following)
        _check_line(held, max_line, label, number + 1)
    if held:
        yield b"".join(parts).removesuffix(b"\r")


def _check_line(size: int, max_line: int, label: str, number: int) -> None:
    if size > max_line:
        raise InputError(f"{label}, line {number}: more than {max_line:,} bytes, the most that a line may have")


def parse_json(
    data: bytes | str,
    label: str,
    *,
    max_bytes: int = MAX_FILE,
    max_depth: int = MAX_DEPTH,
    finite: bool = False,
    encodable: bool = False,
) -> Any:
    """Return the value of a JSON text.

    Args:
        data: UTF-8 or a string.
        label: name of what is read, for the message: a path, "the answer of ...".
        max_bytes: length of the text.
        max_depth: levels of lists and objects.
        finite: refuse numbers that are infinite or not a number (`Infinity`, `NaN`, `1e999`).
        encodable: write half surrogate pairs, which nothing can print or store, as escapes.

    Raises:
        InputError: the text is no JSON, or exceeds a limit.
    """
    if isinstance(data, str):
        data = data.encode("utf-8", errors="surrogatepass")
    if len(data) > max_bytes:
        raise InputError(f"{label} has {len(data):,} bytes of JSON; at most {max_bytes:,} are read")
    if _deeper_than(data, max_depth):
        raise InputError(f"{label} is JSON with more than {max_depth} levels of lists and objects")
    numbers: dict[str, Any] = {"parse_constant": _refuse_constant, "parse_float": _finite_float} if finite else {}
    try:
        value = json.loads(data.decode("utf-8-sig", errors="surrogatepass"), **numbers)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{label} is not valid JSON ({error})") from error
    return encodable_values(value) if encodable and _HALF.search(data) else value


def _deeper_than(data: bytes, levels: int) -> bool:
    """Whether a JSON text has more levels of lists and objects, told without parsing it."""
    if data.count(b"[") + data.count(b"{") <= levels:
        return False
    brackets = _STRING.sub(b"", _ESCAPE.sub(b"", data)).translate(_ONE_KIND, delete=_OTHERS)
    for _ in range(levels):  # each time, the innermost brackets of every branch go
        brackets = brackets.replace(b"[]", b"")
    if not brackets:
        return False
    depth = 0  # too deep, or no JSON
    for match in _JSON_PARTS.finditer(data):
        part = match[0]
        if part in _OPENING:
            depth += 1
            if depth > levels:
                return True
        elif not part.startswith(b'"'):
            depth -= 1
    return False


def read_json(path: str | Path, *, max_bytes: int = MAX_FILE, max_depth: int = MAX_DEPTH, finite: bool = False) -> Any:
    """Return the value of a JSON file, decompressed; see `parse_json`. Its strings are `encodable`.

    Raises:
        InputError: the file is no JSON, is damaged, or exceeds a limit.
        OSError: it cannot be read.
    """
    data = read_bytes(path, max_bytes=max_bytes)
    return parse_json(data, str(path), max_bytes=max_bytes, max_depth=max_depth, finite=finite, encodable=True)


def read_toml(path: str | Path, *, max_bytes: int = MAX_SETTINGS, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return the table of a TOML file.

    Raises:
        InputError: the file is no TOML, or exceeds a limit.
        OSError: it cannot be read.
    """
    return parse_toml(read_text(path, max_bytes=max_bytes), str(path), max_depth=max_depth)


def parse_toml(text: str, label: str, *, max_depth: int = MAX_DEPTH) -> dict[str, Any]:
    """Return the table of a TOML text.

    Args:
        text: TOML.
        label: name of what is read, for the message.
        max_depth: levels of tables and lists.

    Raises:
        InputError: the text is no TOML, or exceeds the limit.
    """
    # The parser takes time quadratic in the dots of a key, so they are counted before.
    if any(dots.count(".") > max_depth for dots in _DOTTED.findall(text)):
        raise InputError(f"{label} is TOML with a key of more than {max_depth} levels")
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{label} is not valid TOML ({error})") from error
    level: list[dict[str, object] | list[object]] = [table]
    for _ in range(max_depth):
        inner = (item for value in level for item in (value.values() if isinstance(value, dict) else value))
        level = [item for item in inner if isinstance(item, dict | list)]
    if level:
        raise InputError(f"{label} is TOML with more than {max_depth} levels of tables and lists")
    return table


def _decoded(data: bytes, label: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{label} is no text in UTF-8 (byte {error.start:,})") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"the number {name} is not finite")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"the number {digits[:40]} is not finite")
    return value
