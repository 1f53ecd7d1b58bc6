"""Registries of record formats: which data set a record belongs to, told by its keys, and what it becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from turncredit.tools.bounded_input import InputError

__all__ = ["Fields", "RecordFormat", "RecordFormats", "UnknownRecord"]

Fields = Mapping[str, Any]
"""Keys and values of a record, as in JSON; a key whose value is null or an empty cell is absent."""

T = TypeVar("T")

_SHOWN = 12  # keys of an unknown record in a message


class UnknownRecord(InputError):
    """A record has none of the known formats; the message names its keys and the formats."""


@dataclass(frozen=True, slots=True)
class RecordFormat(Generic[T]):
    """A format of records.

    Attributes:
        name: the data set or program that it comes from.
        keys: the keys that tell it, for messages.
        recognises: whether a record has this format.
        read: returns what a record becomes, given its fields and the id to use if it has none.
    """

    name: str
    keys: str
    recognises: Callable[[Fields], bool]
    read: Callable[[Fields, str], T]


class RecordFormats(Generic[T]):
    """The known formats of one kind of records; the first that recognises a record reads it.

    >>> pairs = RecordFormats("a pair", RecordFormat("XY", "x, y", lambda fields: "x" in fields, lambda fields, id: id))
    >>> pairs.read({"x": 1, "y": 2}, "line_1")
    'line_1'
    >>> pairs.read({"z": 1}, "line_2")
    Traceback (most recent call last):
    ...
    turncredit.tools.readers.formats.UnknownRecord: expected a pair as in XY (x, y), got a record with the keys z
    """

    def __init__(self, subject: str, *formats: RecordFormat[T]) -> None:
        """Name the formats, the most specific first.

        Args:
            subject: what a record becomes, for messages: "a question".
            formats: the formats.
        """
        self.what = subject
        self.formats = list(formats)

    def find(self, fields: Fields) -> RecordFormat[T]:
        """Return the format of a record.

        Raises:
            UnknownRecord: no format recognises it.
        """
        for candidate in self.formats:
            if candidate.recognises(fields):
                return candidate
        names = list(map(str, fields))
        shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        choices = "; ".join(f"{candidate.name} ({candidate.keys})" for candidate in self.formats if candidate.keys)
        got = f"a record with the keys {shown}" if names else "a record without keys"
        raise UnknownRecord(f"expected {self.what} as in {choices}, got {got}")

    def read(self, fields: Fields, id: str) -> T:
        """Return what a record becomes.

        Args:
            fields: its keys and values.
            id: the id to use if it has none.

        Raises:
            UnknownRecord: no format recognises it.
        """
        return self.find(fields).read(fields, id)
