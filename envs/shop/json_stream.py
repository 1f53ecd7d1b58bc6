"""Streams records of large JSON files: a list, an object, or one value a line, compressed or not.

An unreadable record is yielded as a `BrokenRecord`, and the caller decides whether to continue.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from turncredit.envs.errors import EnvError
from turncredit.tools.bounded_input import DecodedFile, InputError

__all__ = ["BrokenRecord", "CatalogueError", "elements", "members"]

CHUNK: Final = 1 << 20
"""Bytes per read."""

LONGEST: Final = 1 << 26
"""Characters of the longest record; a longer one is assumed to lack its end."""

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_NOT_UTF8: Final = re.compile("[\udc80-\udcff]")  # surrogates that replace invalid UTF-8
_NEAR: Final = 16  # a JSON error this close to the end of the buffer may be caused by that end


class CatalogueError(EnvError):
    """A file of a catalogue is missing, damaged, or has other contents than expected."""

    def __init__(self, path: str | Path, record: str | None, problem: str) -> None:
        """Create the error.

        Args:
            path: the file.
            record: description of the record; None for the whole file.
            problem: what is wrong, as words after a colon.
        """
        super().__init__(str(path), record, problem)
        self.path, self.record, self.what = str(path), record, problem

    def __str__(self) -> str:
        """Return file, record and problem as one sentence."""
        return f"{self.path}, {self.record}: {self.what}" if self.record else f"{self.path}: {self.what}"


@dataclass(frozen=True, slots=True)
class BrokenRecord:
    """A record that cannot be read, and the reason."""

    reason: str


class _JsonError(Exception):
    """Invalid JSON; the message says how."""


class _JsonWindow:
    """A sliding buffer over a file."""

    def __init__(self, path: Path) -> None:
        self.path, self.text, self.at = path, "", 0
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        self._suspicious, self._failed = False, ""
        self._scan = json.JSONDecoder().raw_decode
        self._file = DecodedFile(path)
        self._blocks = iter(self._file)
        try:
            path.open("rb").close()
        except FileNotFoundError:
            raise CatalogueError(path, None, "does not exist") from None
        except OSError as error:
            raise CatalogueError(path, None, f"cannot be read ({error.strerror})") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._blocks = iter(())

    def peek(self) -> str:
        """Skip white space and return the next character, or "" at the end of the file."""
        while True:
            self.at = _SPACE.match(self.text, self.at).end()  # type: ignore[union-attr]
            if self.at < len(self.text):
                return self.text[self.at]
            if not self._grow():
                return ""

    def take(self, expected: str) -> None:
        """Consume one of the wanted characters."""
        came = self.peek()
        if not came:
            raise _JsonError("the file is truncated here")
        if came not in expected:
            raise _JsonError(f"expected {' or '.join(map(repr, expected))}, got {came!r}")
        self.at += 1

    def value(self) -> tuple[Any, str]:
        """Consume the next JSON value and return it with its text."""
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
                raise _JsonError(f"is not readable JSON ({error})") from None
            if end < len(self.text) - _NEAR or not self._grow():  # "1" may continue as "1.5"
                break
        text = self.text[self.at : end] if self.at else self.text[:end]
        self.at = end
        if self._suspicious and _NOT_UTF8.search(text):
            raise _JsonError("contains invalid UTF-8")
        return value, text

    def skip_line(self) -> None:
        """Skip the rest of the line."""
        while (end := self.text.find("\n", self.at)) < 0:
            self.at = len(self.text)
            if not self._grow():
                return
        self.at = end

    def _told(self, error: json.JSONDecodeError, unfinished: bool) -> str:
        if unfinished:
            return "the file is truncated within it"
        around = self.text[error.pos : error.pos + 20]
        return f"is not JSON ({error.msg} at {around!r}, after {error.pos - self.at:,} characters)"

    def _grow(self) -> bool:
        """Read more and drop consumed text; return False at the end of the file."""
        remainder = self.text[self.at :]
        if len(remainder) > LONGEST:
            raise _JsonError(f"is longer than {LONGEST:,} characters")
        raw = self._read(max(CHUNK, len(remainder)))  # doubling keeps the time linear in the length of a record
        piece = self._decode.decode(raw, final=not raw)
        self._suspicious = self._suspicious or (not piece.isascii() and _NOT_UTF8.search(piece) is not None)
        if piece:
            self.text, self.at = remainder + piece, 0
        return bool(raw) or bool(piece)

    def _read(self, size: int) -> bytes:
        """Return `size` bytes or more, fewer at the end; a failure is raised only after everything before it."""
        parts: list[bytes] = []
        while size > 0 and not self._failed:
            try:
                part = next(self._blocks, None)
            except (OSError, InputError) as error:
                self._failed = f"the file cannot be read further ({error})"
                break
            if part is None:
                if self._file.unfinished:
                    self._failed = "the file cannot be read further (the compressed data ends in the middle)"
                break
            parts.append(part)
            size -= len(part)
        if self._failed and not parts:
            raise _JsonError(self._failed)
        return b"".join(parts)


def elements(path: Path) -> Iterator[Any]:
    """Yield the elements of a list, or of a file with one value a line; `BrokenRecord` for unreadable ones.

    A broken element ends a list; after a broken line, the next line is read.

    Args:
        path: the file.

    Raises:
        CatalogueError: the file does not exist, or is neither of both.
    """
    with _JsonWindow(path) as window:
        first = _first(window)
        if first == "[":
            yield from _listed(window)
        elif first == "{":
            yield from _lined(window)
        else:
            raise CatalogueError(
                path, None, f"expected a JSON list of products or one product a line, but it starts with {first!r}"
            )


def members(path: Path) -> Iterator[tuple[str, str] | BrokenRecord]:
    """Yield name and text of each member of an object; `BrokenRecord` for unreadable ones.

    Args:
        path: the file.

    Raises:
        CatalogueError: the file does not exist, or does not contain an object.
    """
    with _JsonWindow(path) as window:
        if (first := _first(window)) != "{":
            raise CatalogueError(
                path, None, f"expected a JSON object with one member a product, but it starts with {first!r}"
            )
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


def _listed(window: _JsonWindow) -> Iterator[object]:
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
            raise _JsonError("the file continues after the list")
    except _JsonError as error:
        yield BrokenRecord(str(error))


def _lined(window: _JsonWindow) -> Iterator[object]:
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
                raise _JsonError(f"expected a name in quotes, got {window.peek()!r}")
            name, _ = window.value()
            window.take(":")
            yield name, window.value()[1]
            window.take(",}")
            if window.text[window.at - 1] == "}":
                break
    if window.peek():
        raise _JsonError("the file continues after the object")
