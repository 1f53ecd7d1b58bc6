"""What a function returned, as a text for an agent: a text as it is, data as JSON; cut to a budget, both ends kept.

Left out on purpose: pictures and tables. A function that has a better text for its result returns that text.
"""

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
from typing import Any, Final

import numpy as np
import pydantic

__all__ = ["Unserialisable", "cut", "data_text", "said", "text_of"]

_AS_TEXT: Final = (os.PathLike, uuid.UUID, decimal.Decimal, fractions.Fraction)


class Unserialisable(Exception):
    """A value that is no text and no data."""


def text_of(value: Any) -> str:
    """Return the text of a result: a str as it is, None as "done", data as `data_text` has them.

    Numbers that JSON does not have (nan, inf) are null, as in JavaScript and in servers that are made with pydantic.

    Raises:
        Unserialisable: it is neither text nor data; the message says why.
    """
    if value is None:
        return "done"
    if isinstance(value, str) and not isinstance(value, enum.Enum):
        return _written(str(value))
    return _with_nulls(data_text(value))


def data_text(value: Any, *, sort: bool = False) -> str:
    """Return data as JSON on one line; `sort` orders names, so that equal data have equal texts.

    nan and inf stay what they are, NaN and Infinity, so that different data have different texts.

    Data are what JSON knows, and dataclasses, pydantic models, enums, dates, sets (sorted, so that the text does not
    change from run to run), numpy's numbers and arrays, paths, UUIDs and decimals in them.

    Raises:
        Unserialisable: anything else; the message says why.
    """
    try:
        return _written(json.dumps(value, ensure_ascii=False, sort_keys=sort, default=_plain))
    except Exception as error:  # a property of somebody's class may raise what it likes
        raise Unserialisable(f"{type(value).__name__}: {said(error, 120)}") from error


def _plain(value: Any) -> Any:
    """Return a value in terms that json knows; it is asked again for what is inside."""
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
        return sorted(value, key=lambda part: json.dumps(part, default=_plain))
    if isinstance(value, deque):
        return list(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"a {type(value).__name__} is neither text nor data")


def _with_nulls(text: str) -> str:
    """Return JSON with null for what is no JSON."""
    if "NaN" not in text and "Infinity" not in text:
        return text
    return json.dumps(json.loads(text, parse_constant=lambda name: None), ensure_ascii=False)


def _written(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def said(error: BaseException, longest: int = 400) -> str:
    """Return the type and message of an exception on one line, whatever its __str__ does."""
    try:
        message = " ".join(_written(str(error)).split())
    except Exception:
        message = ""
    name = type(error).__name__
    return cut(f"{name}: {message}" if message else name, longest)


def cut(text: str, budget: int) -> str:
    """Return a text of at most `budget` characters: two thirds of them its head, one third its tail.

    >>> cut("a" * 60 + "b" * 60, 60)
    'aaaaaaaaaaaaaaaaaa\\n[... 93 characters left out ...]\\nbbbbbbbbb'
    """
    if len(text) <= budget:
        return text
    mark = "\n[... {:,} characters left out ...]\n"
    room = max(0, budget - len(mark.format(len(text))))
    head, tail = room - room // 3, room // 3
    middle = mark.format(len(text) - head - tail)
    return (text[:head] + middle + (text[-tail:] if tail else ""))[: max(0, budget)]
