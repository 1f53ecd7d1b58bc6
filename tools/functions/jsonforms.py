"""Calls as JSON: OpenAI's message with "tool_calls", and the `<tool_call>{...}</tool_call>` of Hermes and Qwen.

    {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{...}"}}]}
    <tool_call>
    {"name": "find", "arguments": {...}}
    </tool_call>

OpenAI's arguments are a text that holds JSON; an object in its place is taken as well, as some servers send it. The
last `</tool_call>` may be missing, since it is often a stop text that the sampler leaves out. Left out on purpose:
repair.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnwise.tools.functions.calls import Answer, Call, Reading, json_of, json_text
from turnwise.tools.functions.errors import BadCall
from turnwise.tools.functions.reasoning import spoken
from turnwise.tools.functions.tool import Tool

__all__ = [
    "describe_hermes",
    "describe_openai",
    "example_hermes",
    "example_openai",
    "read_hermes",
    "read_openai",
    "tell_hermes",
    "tell_openai",
    "write_hermes",
    "write_openai",
]

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_MARKS: Final = re.compile(r"<(?=/?(?:think|tool_call)>)")
_HERMES: Final = '<tool_call>{"name": "...", "arguments": {...}}</tool_call>'
_OPENAI: Final = (
    '{"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "...", "arguments": "{...}"}}]}'
)


class _Wrong(Exception):
    """A text that is no call; the message says why."""


def read_hermes(text: str, tools: Sequence[Tool] = ()) -> Reading:
    """Return the calls between `<tool_call>` and `</tool_call>`, or why there are none."""
    _, *pieces = spoken(text).split(_OPEN)
    if not pieces:
        return Reading((), f"there was no {_OPEN}; a call is written {_HERMES}")
    calls: list[Call] = []
    for number, piece in enumerate(pieces, start=1):
        body, closed, _ = piece.partition(_CLOSE)
        where = f"call {number}: " if len(pieces) > 1 else ""
        if not closed and number < len(pieces):
            return Reading((), f"{where}there was no {_CLOSE}")
        try:
            calls.append(_named(_json(body, "the call"), f"call_{number}"))
        except _Wrong as error:
            return Reading((), f"{where}{error}")
    return Reading(tuple(calls))


def read_openai(text: str, tools: Sequence[Tool] = ()) -> Reading:
    """Return the calls of a message with "tool_calls" (or of their list alone), or why there are none."""
    told = text if text.lstrip().startswith(("{", "[")) else spoken(text)
    try:
        found = _json(told, "the message")
        if isinstance(found, Mapping):
            if found.get("tool_calls") is None:
                raise _Wrong('there were no "tool_calls"')
            found = found["tool_calls"]
        if not isinstance(found, list) or not found:
            raise _Wrong('"tool_calls" is a list of one call or more')
    except _Wrong as error:
        return Reading((), f"{error}; calls are written {_OPENAI}")
    calls: list[Call] = []
    for number, entry in enumerate(found, start=1):
        try:
            calls.append(_entry(entry, f"call_{number}"))
        except _Wrong as error:
            return Reading((), f"call {number}: {error}")
    return Reading(tuple(calls))


def _entry(entry: Any, id: str) -> Call:
    """Return the call of an entry of "tool_calls"."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("function"), Mapping):
        raise _Wrong('there was no "function" with "name" and "arguments"')
    if entry.get("type", "function") != "function":
        raise _Wrong(f'"type" is {str(entry["type"])[:80]!r}; "function" was wanted')
    own = entry.get("id")
    return _named(entry["function"], own if isinstance(own, str) and own else id)


def _named(found: Any, id: str) -> Call:
    """Return the call of an object with "name" and "arguments"."""
    if not isinstance(found, Mapping):
        raise _Wrong('a call is an object with "name" and "arguments"')
    name, arguments = found.get("name"), found.get("arguments")
    if not isinstance(name, str) or not name:
        raise _Wrong('the call has no "name"')
    if isinstance(arguments, str):
        arguments = _json(arguments, '"arguments"') if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise _Wrong('"arguments" are an object, {"name of an argument": value}')
    return Call(name, arguments, id)


def _json(text: str, what: str) -> Any:
    try:
        return json_of(text)
    except ValueError as error:
        raise _Wrong(f"{what} is no JSON: {error}") from error


def write_hermes(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as `<tool_call>` blocks.

    Raises:
        BadCall: the arguments are no JSON.
    """
    bodies = [f'{{"name": {_text(call.name)}, "arguments": {_text(dict(call.arguments))}}}' for call in calls]
    return "\n".join(f"{_OPEN}\n{body}\n{_CLOSE}" for body in bodies)


def write_openai(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as a message with "tool_calls"; a call without id gets `call_1`, `call_2` and so on.

    Raises:
        BadCall: the arguments are no JSON.
    """
    entries = [
        {
            "id": call.id or f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": _text(dict(call.arguments))},
        }
        for number, call in enumerate(calls, start=1)
    ]
    return _text({"tool_calls": entries})


def _text(value: Any) -> str:
    """Return JSON in which no text looks like a mark."""
    try:
        return _MARKS.sub(r"\\u003c", json_text(value))
    except ValueError as error:
        raise BadCall(f"the arguments cannot be written as JSON: {error}") from error


def tell_hermes(answers: Sequence[Answer]) -> str:
    """Return the answers as `<tool_response>` blocks, in the order of the calls."""
    return "\n".join(f"<tool_response>\n{answer.text}\n</tool_response>" for answer in answers)


def tell_openai(answers: Sequence[Answer]) -> str:
    """Return the answers as messages of the role "tool", in a JSON list."""
    return json_text([{"role": "tool", "tool_call_id": answer.id, "content": answer.text} for answer in answers])


def describe_hermes(tools: Sequence[Tool]) -> str:
    """Return the schemas, and how a call is written."""
    return f"{_schemas(tools)}\n\nA call is written so; several may follow each other:\n{_HERMES}"


def describe_openai(tools: Sequence[Tool]) -> str:
    """Return the schemas, and how a message with calls is written."""
    return f"{_schemas(tools)}\n\nCalls are written so, and nothing else beside them:\n{_OPENAI}"


def _schemas(tools: Sequence[Tool]) -> str:
    return "\n".join(["These tools can be called:", "<tools>", *(_text(tool.schema) for tool in tools), "</tools>"])


def example_hermes(tool: Tool) -> str:
    """Return a call with "..." in the place of its arguments."""
    return f'<tool_call>{{"name": "{tool.name}", "arguments": {{...}}}}</tool_call>'


def example_openai(tool: Tool) -> str:
    """Return a message with "..." in the place of what is called."""
    return '{"tool_calls": [...]}'
