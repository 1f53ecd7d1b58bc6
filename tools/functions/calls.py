"""A call of a tool and the answer to it: what is the same in every surface form, and the strict reading of JSON.

Left out on purpose: texts of calls (see `forms`) and what a tool does (see `tool`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

__all__ = ["PROBLEMS", "Answer", "Call", "Problem", "Reading", "json_of", "json_text"]

Problem = Literal["", "unknown", "arguments", "raised", "unserialisable", "late", "gone"]
PROBLEMS: Final[tuple[Problem, ...]] = ("unknown", "arguments", "raised", "unserialisable", "late", "gone")
"""Why an answer is none: no such tool; arguments refused; the tool raised; it returned what is no text and no data; it
did not end in time; what it runs in (a server, a process) is gone."""


@dataclass(frozen=True, slots=True)
class Call:
    """A tool's name and arguments (JSON values). Two calls are equal when these are; the id only tells them apart."""

    name: str
    arguments: Mapping[str, Any]
    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a call: `text` is for the agent; `problem` is "" when the tool did what it does."""

    name: str
    text: str
    problem: Problem = ""
    id: str = ""

    @property
    def ok(self) -> bool:
        """Whether the tool did what it does."""
        return not self.problem

    @property
    def refused(self) -> bool:
        """Whether nothing was done, since there is no such tool or it does not take these arguments."""
        return self.problem in ("unknown", "arguments")


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text holds: one call or more, or else `why` there is none; never both."""

    calls: tuple[Call, ...]
    why: str = ""


def json_of(text: str) -> Any:
    """Return the JSON value of a text, by the letter: no NaN, no name given twice, nothing that cannot be written.

    Raises:
        ValueError: it is no such JSON; the message says why.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)
        # An escaped half of a pair ("\ud800") is JSON, and is no text that a file or a model could take.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("it holds half of a surrogate pair, which is no character") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return value


def json_text(value: Any) -> str:
    """Return a JSON value as text on one line.

    Raises:
        ValueError: it is none (NaN, a set, a text that is no UTF-8, a name that is no str, nested in itself).
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if json_of(text) != _as_json(value):
            raise ValueError("JSON would give it back as something else")
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return text


def _as_json(value: Any) -> Any:
    """Return a value with its tuples as lists, as JSON gives them back."""
    if isinstance(value, Mapping):
        return {name: _as_json(part) for name, part in value.items()}
    return [_as_json(part) for part in value] if isinstance(value, list | tuple) else value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the name {name[:80]!r} is given twice")
        found[name] = value
    return found
