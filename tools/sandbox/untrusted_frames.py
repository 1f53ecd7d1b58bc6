"""Decode the answers of programs in a box: JSON objects, read under limits, with one error for everything else.

A program in a box can send any bytes. `decode_frame` reads them in one pass, in linear time and without recursion. Each
limit is checked before the memory is allocated that it bounds, so an answer of `limits.bytes` bytes costs at most a few
times that on the host: strings may need four bytes a character, and the items are counted.

Not included: framing. The caller reads the length before an answer and compares it with `limits.bytes` first.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Final, NoReturn

from turncredit.tools.sandbox.errors import UntrustedData

__all__ = ["FrameLimits", "decode_frame", "text_field"]

_SPACE: Final = re.compile(r"[ \t\n\r]*+")
_NUMBER: Final = re.compile(r"-?+(?:0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][-+]?+[0-9]++)?+")  # possessive: no backtracking
_LITERALS: Final = {"true": True, "false": False, "null": None}

_Container = dict[str, object] | list[object]


@dataclass(frozen=True, slots=True)
class FrameLimits:
    """Limits on one answer of a program in a box.

    Args:
        bytes: length of the answer.
        depth: objects and arrays that contain one another; 1 is an object of scalars.
        items: members of all objects and elements of all arrays together.
        digits: characters of a number.
        text: characters of a string, of names of members too.
    """

    bytes: int = 1 << 20
    depth: int = 4
    items: int = 64
    digits: int = 24
    text: int = 1 << 20


def decode_frame(data: bytes, limits: FrameLimits) -> dict[str, object]:
    """Return the JSON object that `data` encodes.

    Strings are valid Unicode: unpaired surrogates become U+FFFD. Numbers are finite.

    Raises:
        UntrustedData: the bytes are not one JSON object in UTF-8, repeat a name in an object, or exceed a limit.
    """
    if len(data) > limits.bytes:
        raise UntrustedData(f"the answer has {len(data):,} bytes; at most {limits.bytes:,} are read")
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise UntrustedData(f"the answer is not UTF-8 at byte {error.start:,}") from None
    value = _FrameReader(text, limits).read()
    if not isinstance(value, dict):
        raise UntrustedData(f"the answer must be a JSON object, got {type(value).__name__}")
    return value


def text_field(frame: dict[str, object], name: str) -> str:
    """Return a member of an answer that must be a string; "" if it is missing.

    Raises:
        UntrustedData: it is something else.
    """
    value = frame.get(name, "")
    if not isinstance(value, str):
        raise UntrustedData(f"{name!r} of the answer must be a string, got {type(value).__name__}")
    return value


class _FrameReader:
    """Reads one JSON value; the stack of open containers is a list, not the stack of this process."""

    def __init__(self, text: str, limits: FrameLimits) -> None:
        self.text, self.limits = text, limits
        self.position = self.items = 0
        self.escapes = "\\u" in text  # nothing else makes an unpaired surrogate

    def read(self) -> object:
        """Return the only value of the text."""
        value = self._scalar()
        if isinstance(value, dict | list):
            self._fill(value)
        if self._peek():
            self._refuse("ends after one value")
        return value

    def _fill(self, top: _Container) -> None:
        """Read the content of an opened container and of all inside it."""
        stack = [top]
        first = True
        while stack:
            inner = stack[-1]
            mark = self._peek()
            if mark == ("}" if isinstance(inner, dict) else "]"):
                self.position += 1
                stack.pop()
                first = False
                continue
            if not first:
                self._expect(",")
            value = self._add(inner)
            first = isinstance(value, dict | list)
            if isinstance(value, dict | list):
                if len(stack) >= self.limits.depth:
                    self._refuse(f"has at most {self.limits.depth:,} levels")
                stack.append(value)

    def _add(self, inner: _Container) -> object:
        """Read one member of a container, add it and return it."""
        self.items += 1
        if self.items > self.limits.items:
            self._refuse(f"has at most {self.limits.items:,} items")
        if isinstance(inner, list):
            value = self._scalar()
            inner.append(value)
            return value
        if self._peek() != '"':
            self._refuse("has names in quotes")
        name = self._string()
        if name in inner:
            self._refuse("has each name once")
        self._expect(":")
        value = inner[name] = self._scalar()
        return value

    def _scalar(self) -> object:
        """Return a string, number or literal, or a new empty container for an opening bracket."""
        mark = self._peek()
        if mark == '"':
            return self._string()
        if mark in ("{", "["):
            self.position += 1
            return {} if mark == "{" else []
        if mark in ("t", "f", "n"):
            for word, value in _LITERALS.items():
                if self.text.startswith(word, self.position):
                    self.position += len(word)
                    return value
        return self._number()

    def _string(self) -> str:
        try:
            text, self.position = scanstring(self.text, self.position + 1)
        except JSONDecodeError:
            self._refuse("has strings that end, with valid escapes")
        if len(text) > self.limits.text:
            self._refuse(f"has strings of at most {self.limits.text:,} characters")
        return _without_surrogates(text) if self.escapes else text

    def _number(self) -> int | float:
        match = _NUMBER.match(self.text, self.position)
        if match is None:
            self._refuse("has values")
        if match.end() - match.start() > self.limits.digits:
            self._refuse(f"has numbers of at most {self.limits.digits:,} characters")
        self.position = match.end()
        if match[1] is None and match[2] is None:
            return int(match[0])
        number = float(match[0])
        if not math.isfinite(number):
            self._refuse("has finite numbers")
        return number

    def _peek(self) -> str:
        """Return the next character that is not white space; "" at the end."""
        mark = self.text[self.position : self.position + 1]
        if mark and mark in " \t\n\r":
            match = _SPACE.match(self.text, self.position)
            assert match is not None
            self.position = match.end()
            mark = self.text[self.position : self.position + 1]
        return mark

    def _expect(self, mark: str) -> None:
        if self._peek() != mark:
            self._refuse(f"has {mark!r} there")
        self.position += 1

    def _refuse(self, rule: str) -> NoReturn:
        excerpt = self.text[self.position : self.position + 20]
        raise UntrustedData(f"an answer {rule}; refused at character {self.position:,}: {excerpt!r}")


def _without_surrogates(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text
