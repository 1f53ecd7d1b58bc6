"""Calls in the form of gpt-oss (harmony): a message to a function in the channel "commentary".

    to=functions.find<|channel|>commentary json<|message|>{"name": "Ada"}

What stands around it in an answer, such as `<|start|>assistant` and `<|call|>`, and the order of recipient and channel
do not matter. Results are plain text, since the chat template writes the messages that hold them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from turncredit.tools.functions.calls import Call, ParsedCalls, parse_json, visible
from turncredit.tools.functions.template_formats import escaped_json, listed_schemas
from turncredit.tools.functions.tool import Tool

__all__ = ["describe_harmony", "example_harmony", "parse_harmony", "write_harmony"]

_HEADER: Final = re.compile(r"\bto=functions\.([\w.-]+)[^\n{]*?<\|message\|>")
_MESSAGE: Final = "<|channel|>commentary json<|message|>"
_FORM: Final = f"to=functions.NAME{_MESSAGE}{{...}}"


def parse_harmony(text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
    """Return the calls in messages to functions, or why there are none."""
    shown = visible(text)
    headers = list(_HEADER.finditer(shown))
    if not headers:
        return ParsedCalls((), f"found no message to a function; write a call as {_FORM}")
    calls: list[Call] = []
    for number, header in enumerate(headers, start=1):
        end = headers[number].start() if number < len(headers) else len(shown)
        where = f"call {number}: " if len(headers) > 1 else ""
        try:
            arguments = _arguments(shown[header.end() : end])
        except ValueError as error:
            return ParsedCalls((), f"{where}the arguments of {header[1]!r} {error}; write a call as {_FORM}")
        calls.append(Call(header[1], arguments, f"call_{number}"))
    return ParsedCalls(tuple(calls))


def _arguments(body: str) -> Mapping[str, object]:
    """Return the JSON object that a message begins with; tokens of the form may follow it.

    Raises:
        ValueError: there is none; the message goes on after "the arguments".
    """
    body = body.strip()
    try:
        _, end = json.JSONDecoder().raw_decode(body)
        end = end if not body[end:].strip() or body[end:].lstrip().startswith("<|") else len(body)
        arguments = parse_json(body[:end])
    except RecursionError as error:
        raise ValueError("are not valid JSON: nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"are not valid JSON: {error}") from error
    if not isinstance(arguments, Mapping):
        raise ValueError('must be an object, {"name of an argument": value}')
    return arguments


def write_harmony(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as messages to functions, each on its own line.

    Raises:
        BadCall: the arguments are not JSON.
    """
    return "\n".join(f"to=functions.{call.name}{_MESSAGE}{escaped_json(dict(call.arguments))}" for call in calls)


def describe_harmony(tools: Sequence[Tool]) -> str:
    """Return the schemas of the tools and how to write a call."""
    return f"{listed_schemas(tools)}\n\nWrite each call on its own line, with no other text:\n{_FORM}"


def example_harmony(tool: Tool) -> str:
    """Return a call with "..." for its arguments."""
    return f"to=functions.{tool.name}{_MESSAGE}{{...}}"
