"""Calls as JSON: OpenAI's message with "tool_calls", and `<tool_call>{...}</tool_call>` of Hermes and Qwen.

    {"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "find", "arguments": "{...}"}}]}
    <tool_call>
    {"name": "find", "arguments": {...}}
    </tool_call>

OpenAI's arguments are a string that contains JSON; an object is accepted as well, since some servers send one. The last
`</tool_call>` may be missing, since it is often a stop string that the sampler removes. Invalid JSON is not
repaired; only a Markdown fence around a string of arguments is taken off.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from turncredit.tools.functions.calls import (
    Call,
    InvalidCall,
    ParsedCalls,
    ToolResult,
    ends_within,
    parse_json,
    to_json,
    visible,
    without_fence,
)
from turncredit.tools.functions.errors import BadCall
from turncredit.tools.functions.tool import Tool

__all__ = [
    "describe_hermes",
    "describe_openai",
    "example_hermes",
    "example_openai",
    "parse_hermes",
    "parse_openai",
    "write_hermes",
    "write_openai",
    "write_results_hermes",
    "write_results_openai",
]

_OPEN: Final = "<tool_call>"
_CLOSE: Final = "</tool_call>"
_MARKS: Final = re.compile(r"<(?=/?(?:think|tool_call)>)")
_HERMES: Final = '<tool_call>{"name": "...", "arguments": {...}}</tool_call>'
_OPENAI: Final = (
    '{"tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "...", "arguments": "{...}"}}]}'
)


def parse_hermes(text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
    """Return the calls between `<tool_call>` and `</tool_call>`, or why there are none."""
    _, *pieces = visible(text).split(_OPEN)
    if not pieces:
        return ParsedCalls((), f"found no {_OPEN}; write a call as {_HERMES}")
    calls: list[Call] = []
    for number, piece in enumerate(pieces, start=1):
        body, closed, after = piece.partition(_CLOSE)
        where = f"call {number}: " if len(pieces) > 1 else ""
        if not closed and number < len(pieces):
            return ParsedCalls((), f"{where}{_CLOSE} is missing")
        try:
            calls.append(_call(_parsed(body, "the call"), f"call_{number}"))
        except InvalidCall as error:
            return ParsedCalls((), f"{where}{error}")
    if ends_within(after, _OPEN):
        return ParsedCalls((), f"call {len(calls) + 1}: the text ends within {_OPEN}")
    return ParsedCalls(tuple(calls))


def parse_openai(text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
    """Return the calls of a message with "tool_calls" (or of the list alone), or why there are none."""
    shown = text if text.lstrip().startswith(("{", "[")) else visible(text)
    try:
        decoded = _parsed(shown, "the message")
        if isinstance(decoded, Mapping):
            decoded = decoded.get("tool_calls")
        if not isinstance(decoded, list) or not decoded:
            raise InvalidCall('"tool_calls" must be a non-empty list')
    except InvalidCall as error:
        return ParsedCalls((), f"{error}; write calls as {_OPENAI}")
    calls: list[Call] = []
    for number, entry in enumerate(decoded, start=1):
        try:
            calls.append(_entry(entry, f"call_{number}"))
        except InvalidCall as error:
            return ParsedCalls((), f"call {number}: {error}")
    return ParsedCalls(tuple(calls))


def _entry(entry: object, default_id: str) -> Call:
    """Return the call of an entry of "tool_calls"."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("function"), Mapping):
        raise InvalidCall('"function" with "name" and "arguments" is missing')
    if entry.get("type", "function") != "function":
        raise InvalidCall(f'"type" must be "function", got {str(entry["type"])[:80]!r}')
    own = entry.get("id")
    return _call(entry["function"], own if isinstance(own, str) and own else default_id)


def _call(entry: object, id: str) -> Call:
    """Return the call of an object with "name" and "arguments"."""
    if not isinstance(entry, Mapping):
        raise InvalidCall('a call must be an object with "name" and "arguments"')
    name, arguments = entry.get("name"), entry.get("arguments")
    if not isinstance(name, str) or not name:
        raise InvalidCall('the call has no "name"')
    if isinstance(arguments, str):
        arguments = _parsed(without_fence(arguments), '"arguments"') if arguments.strip() else {}
    if arguments is None:
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise InvalidCall('"arguments" must be an object, {"name of an argument": value}')
    return Call(name, arguments, id)


def _parsed(text: str, label: str) -> object:
    try:
        return parse_json(text)
    except ValueError as error:
        raise InvalidCall(f"{label} is not valid JSON: {error}") from error


def write_hermes(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as `<tool_call>` blocks.

    Raises:
        BadCall: the arguments are not JSON.
    """
    bodies = [f'{{"name": {_text(call.name)}, "arguments": {_text(dict(call.arguments))}}}' for call in calls]
    return "\n".join(f"{_OPEN}\n{body}\n{_CLOSE}" for body in bodies)


def write_openai(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as a message with "tool_calls"; calls without an id get `call_1`, `call_2` and so on.

    Raises:
        BadCall: the arguments are not JSON.
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


def _text(value: object) -> str:
    """Return JSON with `<` escaped where it would look like a `<think>` or `<tool_call>` tag."""
    try:
        return _MARKS.sub(r"\\u003c", to_json(value))
    except ValueError as error:
        raise BadCall(f"the arguments cannot be written as JSON: {error}") from error


def write_results_hermes(results: Sequence[ToolResult]) -> str:
    """Return the results as `<tool_response>` blocks, in the order of the calls."""
    return "\n".join(f"<tool_response>\n{result.text}\n</tool_response>" for result in results)


def write_results_openai(results: Sequence[ToolResult]) -> str:
    """Return the results as a JSON list of messages with the role "tool"."""
    return to_json([{"role": "tool", "tool_call_id": result.id, "content": result.text} for result in results])


def describe_hermes(tools: Sequence[Tool]) -> str:
    """Return the schemas of the tools and how to write a call."""
    return f"{_schemas(tools)}\n\nWrite each call as follows; several may follow each other:\n{_HERMES}"


def describe_openai(tools: Sequence[Tool]) -> str:
    """Return the schemas of the tools and how to write a message with calls."""
    return f"{_schemas(tools)}\n\nWrite calls as follows, with no other text:\n{_OPENAI}"


def _schemas(tools: Sequence[Tool]) -> str:
    return "\n".join(["You can call these tools:", "<tools>", *(_text(tool.schema) for tool in tools), "</tools>"])


def example_hermes(tool: Tool) -> str:
    """Return a call with "..." for its arguments."""
    return f'<tool_call>{{"name": "{tool.name}", "arguments": {{...}}}}</tool_call>'


def example_openai(tool: Tool) -> str:
    """Return a message with "..." for its calls."""
    return '{"tool_calls": [...]}'
