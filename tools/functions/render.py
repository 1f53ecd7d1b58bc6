"""Convert the result of a function to text for an agent: text as it is, data as JSON, long results truncated."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import os
import uuid
from collections import deque
from collections.abc import Mapping, Set
from typing import Final

import numpy as np
import pydantic

__all__ = ["Unserialisable", "data_to_json", "describe_error", "to_text", "truncate"]

_AS_TEXT: Final = (os.PathLike, uuid.UUID, decimal.Decimal, fractions.Fraction)


class Unserialisable(Exception):
    """A value that is neither text nor data."""


def to_text(value: object) -> str:
    """Return a result as text: a str as it is, None as "done", data as `data_to_json` writes them.

    Numbers that JSON does not have (nan, inf) become null, as in JavaScript and pydantic.

    Raises:
        Unserialisable: the value is neither text nor data.
    """
    if value is None:
        return "done"
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return _encodable(str(value))
    return _with_nulls(data_to_json(value))


def data_to_json(value: object, *, sort: bool = False) -> str:
    """Return data as JSON on one line; `sort` sorts the names, so that equal data have equal texts.

    Besides JSON values, data may contain dataclasses, pydantic models, enums, dates, sets (sorted, so that equal sets
    have equal texts), numpy scalars and arrays, paths, UUIDs and decimals. nan and inf become NaN and
    Infinity, so that different data have different texts.

    Raises:
        Unserialisable: the value contains anything else.
    """
    try:
        return _encodable(json.dumps(value, ensure_ascii=False, sort_keys=sort, default=_to_plain))
    except Exception as error:  # properties of a user's class may raise anything
        raise Unserialisable(f"{type(value).__name__}: {describe_error(error, 120)}") from error


def _to_plain(value: object) -> object:
    """Convert the outermost level of a value to types that json knows; json calls it again for the inner values."""
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, _AS_TEXT):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value, key=lambda part: json.dumps(part, default=_to_plain))
    if isinstance(value, deque):
        return list(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is neither text nor data")


def _with_nulls(text: str) -> str:
    """Return JSON with null for NaN and Infinity."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    return json.dumps(json.loads(text, parse_constant=lambda name: None), ensure_ascii=False)


def _encodable(text: str) -> str:
    """Return a text with lone surrogates replaced, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def describe_error(error: BaseException, budget: int = 400) -> str:
    """Return the type and message of an exception on one line, even if its __str__ fails."""
    try:
        message = " ".join(_encodable(str(error)).split())
    except Exception:
        message = ""
    name = type(error).__name__
    return truncate(f"{name}: {message}" if message else name, budget)


def truncate(text: str, budget: int) -> str:
    """Return a text of at most `budget` characters, two thirds of them from its start and one third from its end.

    >>> truncate("a" * 60 + "b" * 60, 60)
    'aaaaaaaaaaaaaaaaaa\\n[... 93 characters left out ...]\\nbbbbbbbbb'
    """
    if len(text) <= budget:
        return text
    mark = "\n[... {:,} characters left out ...]\n"
    room = max(0, budget - len(mark.format(len(text))))
    head, tail = room - room // 3, room // 3
    middle = mark.format(len(text) - head - tail)
    return (text[:head] + middle + (text[-tail:] if tail else ""))[: max(0, budget)]
