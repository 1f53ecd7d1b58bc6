"""Calls of tools and their results, independent of the text format, and strict parsing of JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

__all__ = [
    "PROBLEMS",
    "Call",
    "InvalidCall",
    "ParsedCalls",
    "Problem",
    "ToolResult",
    "ends_within",
    "is_json",
    "parse_json",
    "to_json",
    "visible",
    "without_fence",
]

Problem = Literal["", "unknown", "arguments", "raised", "unserialisable", "late", "gone"]
PROBLEMS: Final[tuple[Problem, ...]] = ("unknown", "arguments", "raised", "unserialisable", "late", "gone")
"""Why a call failed: no such tool; invalid arguments; the tool raised an exception; its result is neither text nor
data; it exceeded its time limit; the process or server that runs it has ended."""


_FENCE: Final = re.compile(r"\A\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*\Z", re.DOTALL)

Arguments: TypeAlias = Mapping[str, Any]
"""Arguments of a call by name; JSON values."""
Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema."""


@dataclass(frozen=True, slots=True)
class Call:
    """Name and arguments (JSON values) of a tool call. The id is ignored by comparison."""

    name: str
    arguments: Arguments
    id: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call: `text` is for the agent, `problem` is "" on success."""

    name: str
    text: str
    problem: Problem = ""
    id: str = ""

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return not self.problem

    @property
    def refused(self) -> bool:
        """Whether the tool was not run because the tool is unknown or its arguments are invalid."""
        return self.problem in ("unknown", "arguments")


@dataclass(frozen=True, slots=True)
class ParsedCalls:
    """Calls found in a text; if there are none, `error` says why."""

    calls: tuple[Call, ...]
    error: str = ""


class InvalidCall(Exception):
    """A text that is not a call, within a parser; the message says why, and becomes the error of `ParsedCalls`."""


def visible(text: str) -> str:
    """Return a model's text without reasoning: what follows the last `</think>` and precedes an open `<think>`.

    >>> visible("<think>shall I <find>x</find>?</think>yes"), visible("yes<think>no")
    ('yes', 'yes')
    """
    return text.rpartition("</think>")[2].partition("<think>")[0]


def without_fence(text: str) -> str:
    r"""Return a text without the Markdown fence around it, which some models write around the JSON of arguments.

    >>> without_fence('```json\n{"city": "Rome"}\n```')
    '{"city": "Rome"}'
    """
    return _FENCE.sub(r"\1", text)


def ends_within(text: str, tag: str) -> bool:
    """Return whether a text was cut within a tag.

    >>> ends_within("yes <tool_", "<tool_call>"), ends_within("yes <tool_call>", "<tool_call>")
    (True, False)
    """
    start = text.rfind(tag[0], max(0, len(text) - len(tag) + 1))
    return start >= 0 and tag.startswith(text[start:])


def parse_json(text: str) -> Any:
    """Parse strict JSON: no NaN, no duplicate names, no lone surrogates.

    Raises:
        ValueError: the text is not strict JSON; the message says why.
    """
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        # An escaped lone surrogate ("\ud800") is valid JSON, but cannot be encoded as UTF-8.
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError("lone surrogates are not allowed") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return value


def is_json(text: str) -> bool:
    """Return whether `parse_json` accepts a text."""
    try:
        parse_json(text)
    except ValueError:
        return False
    return True


def to_json(value: object) -> str:
    """Return a value as JSON on one line.

    Raises:
        ValueError: the value is not JSON (NaN, a set, text with lone surrogates, keys that are not str, a cycle).
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if parse_json(text) != _with_lists(value):
            raise ValueError("the value would change when read back from JSON")
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    return text


def _with_lists(value: object) -> object:
    """Return a value with tuples replaced by lists, as JSON reads them back."""
    if isinstance(value, Mapping):
        return {name: _with_lists(part) for name, part in value.items()}
    return [_with_lists(part) for part in value] if isinstance(value, list | tuple) else value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for name, value in pairs:
        if name in members:
            raise ValueError(f"duplicate name {name[:80]!r}")
        members[name] = value
    return members
