"""JSON files too large for memory, read record by record: a list, an object, or one value a line; plain or gzip.

What cannot be read comes out as `BrokenRecord` in its place, so that the caller says whether that ends the reading.
"""

from __future__ import annotations

import codecs
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from turnwise.envs.errors import EnvError

__all__ = ["BrokenRecord", "CatalogueError", "elements", "members"]

CHUNK: Final = 1 << 20
"""Bytes read at once."""

LONGEST: Final = 1 << 26
"""Characters of the longest record: what is longer has lost its end."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")  # how bytes that are no UTF-8 come through
_NEAR: Final = 16  # a JSON error so near to the end of what was read may be due to that end


class CatalogueError(EnvError):
    """A file of a catalogue that is missing, torn, or holds something else than it should."""

    def __init__(self, path: str | Path, record: str | None, what: str) -> None:
        """Keep where it is and what it is.

        Args:
            path: the file.
            record: which record of it, as words; None: the file as a whole.
            what: what is wrong, in words that follow a colon.
        """
        super().__init__(str(path), record, what)
        self.path, self.record, self.what = str(path), record, what

    def __str__(self) -> str:
        """Say file, record and what is wrong in one sentence."""
        return f"{self.path}, {self.record}: {self.what}" if self.record else f"{self.path}: {self.what}"


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """A record that cannot be read, and what is wrong with it."""

    what: str


class _JsonError(Exception):
    """What is wrong, in words."""


class _JsonWindow:
    """The part of a file that is being read."""

    def __init__(self, path: Path) -> None:
        self.path, self.text, self.at = path, "", 0
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._suspicious, self._failed = False, ""
        self._scan = json.JSONDecoder().raw_decode
        try:
            self._file: BufferedReader | gzip.GzipFile = gzip.open(path) if path.suffix == ".gz" else path.open("rb")  # noqa: SIM115
        except FileNotFoundError:
            raise CatalogueError(path, None, "there is no such file") from None
        except OSError as error:
            raise CatalogueError(path, None, f"cannot be read ({error.strerror})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()

    def peek(self) -> str:
        """Go to the next character that is no white space and return it; "" at the end of the file."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._grow():
                return ""

    def take(self, wanted: str) -> None:
        """Go past one of some characters."""
        came = self.peek()
        if not came:
            raise _JsonError("the file ends here, so it is torn")
        if came not in wanted:
            raise _JsonError(f"expected {' or '.join(map(repr, wanted))} here; got {came!r}")
        self.at += 1

    def value(self) -> tuple[Any, str]:
        """Return the JSON value that begins here, and its text; go past it."""
        self.peek()
        while True:
            try:
                value, end = self._scan(self.text, self.at)
            except json.JSONDecodeError as error:
                unfinished = error.msg.startswith("Unterminated string") or error.pos >= len(self.text) - _NEAR
                if not (unfinished and self._grow()):
                    raise _JsonError(self._told(error, unfinished)) from None
                continue
            except (ValueError, RecursionError) as error:  # a number of thousands of digits, brackets without end
                raise _JsonError(f"is no JSON that can be read ({error})") from None
            if end < len(self.text) - _NEAR or not self._grow():  # "1" may go on as "1.5"
                break
        text = self.text[self.at : end] if self.at else self.text[:end]
        self.at = end
        if self._suspicious and _NOT_UTF8.search(text):
            raise _JsonError("holds bytes that are no UTF-8")
        return value, text

    def skip_line(self) -> None:
        """Go to the end of the line."""
        while (end := self.text.find("\n", self.at)) < 0:
            self.at = len(self.text)
            if not self._grow():
                return
        self.at = end

    def _told(self, error: json.JSONDecodeError, unfinished: bool) -> str:
        if unfinished:
            return "the file ends in the middle of it, so it is torn"
        around = self.text[error.pos : error.pos + 20]
        return f"is no JSON ({error.msg} at {around!r}, {error.pos - self.at:,} characters into it)"

    def _grow(self) -> bool:
        """Read on, forgetting what is behind; False at the end of the file."""
        rest = self.text[self.at :]
        if len(rest) > LONGEST:
            raise _JsonError(f"is longer than {LONGEST:,} characters")
        raw = self._read(max(CHUNK, len(rest)))  # as much again: a record costs time by its length, not by its square
        piece = self._decode.decode(raw, final=not raw)
        self._suspicious = self._suspicious or (not piece.isascii() and _NOT_UTF8.search(piece) is not None)
        if piece:
            self.text, self.at = rest + piece, 0
        return bool(raw) or bool(piece)

    def _read(self, size: int) -> bytes:
        """Return as much as can be read, up to some bytes; a failure comes when everything before it has come."""
        parts: list[bytes] = []
        while size > 0 and not self._failed:
            try:
                part = self._file.read1(size)
            except (OSError, EOFError, zlib.error) as error:
                self._failed = f"the file cannot be read further ({error})"
                break
            if not part:
                break
            parts.append(part)
            size -= len(part)
        if self._failed and not parts:
            raise _JsonError(self._failed)
        return b"".join(parts)


def elements(path: Path) -> Iterator[Any]:
    """Yield the elements of a list, or of a file with one value a line; `BrokenRecord` for what cannot be read.

    Behind a broken element of a list nothing more can be read; behind a broken line, the next line.

    Args:
        path: the file; one whose name ends in .gz is unpacked on the way.

    Raises:
        CatalogueError: there is no such file, or it is neither of both.
    """
    with _JsonWindow(path) as window:
        first = _first(window)
        if first == "[":
            yield from _listed(window)
        elif first == "{":
            yield from _lined(window)
        else:
            raise CatalogueError(path, None, f"wanted a JSON list of products, or one a line; it begins with {first!r}")


def members(path: Path) -> Iterator[tuple[str, str] | BrokenRecord]:
    """Yield name and value of each member of an object, the value as its text; `BrokenRecord` for what cannot be read.

    Args:
        path: the file; one whose name ends in .gz is unpacked on the way.

    Raises:
        CatalogueError: there is no such file, or it holds no object.
    """
    with _JsonWindow(path) as window:
        if (first := _first(window)) != "{":
            raise CatalogueError(path, None, f"wanted a JSON object with a member a product; it begins with {first!r}")
        try:
            yield from _named(window)
        except _JsonError as error:
            yield BrokenRecord(str(error))


def _first(window: _JsonWindow) -> str:
    try:
        first = window.peek()
    except _JsonError as error:
        raise CatalogueError(window.path, None, str(error)) from None
    if not first:
        raise CatalogueError(window.path, None, "the file is empty")
    return first


def _listed(window: _JsonWindow) -> Iterator[Any]:
    try:
        window.take("[")
        if window.peek() == "]":
            window.take("]")
        else:
            while True:
                yield window.value()[0]
                window.take(",]")
                if window.text[window.at - 1] == "]":
                    break
        if window.peek():
            raise _JsonError("the list is over, but the file goes on")
    except _JsonError as error:
        yield BrokenRecord(str(error))


def _lined(window: _JsonWindow) -> Iterator[Any]:
    while True:
        try:
            if not window.peek():
                return
            value = window.value()[0]
        except _JsonError as error:
            yield BrokenRecord(str(error))
            try:
                window.skip_line()
            except _JsonError:
                return
        else:
            yield value


def _named(window: _JsonWindow) -> Iterator[tuple[str, str]]:
    window.take("{")
    if window.peek() == "}":
        window.take("}")
    else:
        while True:
            if window.peek() not in ('"', ""):
                raise _JsonError(f"expected a name in quotes here; got {window.peek()!r}")
            name, _ = window.value()
            window.take(":")
            yield name, window.value()[1]
            window.take(",}")
            if window.text[window.at - 1] == "}":
                break
    if window.peek():
        raise _JsonError("the object is over, but the file goes on")
