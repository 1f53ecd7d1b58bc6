"""Calls in the forms that chat templates of Llama 3 and Mistral teach their models.

    {"name": "find", "parameters": {...}}                          llama
    [TOOL_CALLS] [{"name": "find", "arguments": {...}}]            mistral
    [TOOL_CALLS]find[ARGS]{...}                                    mistral, models since 2025

Llama's calls follow each other on their own lines or after a semicolon; its `<|python_tag|>` may stand before them.
Mistral's marker may be missing, since it is a special token that some samplers remove. (The form of Hermes and Qwen is
`hermes`.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from turncredit.tools.functions.calls import Call, ParsedCalls, ToolResult, parse_json, to_json, visible
from turncredit.tools.functions.errors import BadCall
from turncredit.tools.functions.tool import Tool

__all__ = [
    "describe_llama",
    "describe_mistral",
    "escaped_json",
    "example_llama",
    "example_mistral",
    "listed_schemas",
    "parse_llama",
    "parse_mistral",
    "write_llama",
    "write_mistral",
    "write_results_plain",
]

_PYTHON: Final = "<|python_tag|>"
_MARKER: Final = "[TOOL_CALLS]"
_ARGUMENTS: Final = "[ARGS]"
_LLAMA: Final = '{"name": "...", "parameters": {...}}'
_MISTRAL: Final = _MARKER + ' [{"name": "...", "arguments": {...}}]'
_NAMED: Final = _MARKER + "name" + _ARGUMENTS + "{...}"
_BETWEEN: Final = re.compile(r"[\s;]*")
_MARKS: Final = re.compile(r"<(?=/?think>|\|)")


def parse_llama(text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
    """Return the calls in a text of JSON objects, or why there are none."""
    remaining, decoder = visible(text).replace(_PYTHON, "", 1).strip(), json.JSONDecoder()
    pieces: list[str] = []
    while remaining:
        try:
            _, end = decoder.raw_decode(remaining)
        except (ValueError, RecursionError):
            pieces.append(remaining)
            break
        pieces.append(remaining[:end])
        remaining = remaining[end:][len(_between(remaining[end:])) :]
    return _calls(pieces, "parameters", _LLAMA)


def parse_mistral(text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
    """Return the calls after `[TOOL_CALLS]`, in a list or as names with their arguments; or why there are none."""
    shown = visible(text).strip()
    if _ARGUMENTS in shown and not shown.partition(_MARKER)[2].lstrip().startswith(("[", "{")):
        return _named_calls(shown)
    body = shown.partition(_MARKER)[2] if _MARKER in shown else shown
    try:
        entries = parse_json(body)
    except ValueError as error:
        return ParsedCalls((), f"the calls are not valid JSON: {error}; write them as {_MISTRAL}")
    if not isinstance(entries, list) or not entries:
        return ParsedCalls((), f"found no list of calls; write them as {_MISTRAL}")
    return _calls([json.dumps(entry) for entry in entries], "arguments", _MISTRAL)


def _named_calls(text: str) -> ParsedCalls:
    """Return the calls in `[TOOL_CALLS]name[ARGS]{...}`, once or more often; text before them is left out."""
    pieces = []
    start = text.find(_MARKER) if _MARKER in text and text.find(_MARKER) < text.find(_ARGUMENTS) else 0
    for written in text[start:].removeprefix(_MARKER).split(_MARKER):
        name, _, arguments = written.partition(_ARGUMENTS)
        try:
            pieces.append(json.dumps({"name": name.split("[CALL_ID]")[0].strip(), "arguments": parse_json(arguments)}))
        except ValueError as error:
            return ParsedCalls((), f"the arguments of {name.strip()!r} are not valid JSON: {error}; write {_NAMED}")
    return _calls(pieces, "arguments", _NAMED)


def write_llama(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as JSON objects on their own lines.

    Raises:
        BadCall: the arguments are not JSON.
    """
    return "\n".join(escaped_json({"name": call.name, "parameters": dict(call.arguments)}) for call in calls)


def write_mistral(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as a list after `[TOOL_CALLS]`.

    Raises:
        BadCall: the arguments are not JSON.
    """
    return f"{_MARKER} {escaped_json([{'name': call.name, 'arguments': dict(call.arguments)} for call in calls])}"


def write_results_plain(results: Sequence[ToolResult]) -> str:
    """Return the texts of the results, one after the other."""
    return "\n".join(result.text for result in results)


def describe_llama(tools: Sequence[Tool]) -> str:
    """Return the schemas of the tools and how to write a call."""
    return f"{listed_schemas(tools)}\n\nWrite each call on its own line, with no other text:\n{_LLAMA}"


def describe_mistral(tools: Sequence[Tool]) -> str:
    """Return the schemas of the tools and how to write calls."""
    return f"{listed_schemas(tools)}\n\nWrite calls as follows, with no other text:\n{_MISTRAL}"


def example_llama(tool: Tool) -> str:
    """Return a call with "..." for its arguments."""
    return f'{{"name": "{tool.name}", "parameters": {{...}}}}'


def example_mistral(tool: Tool) -> str:
    """Return a list with "..." for the arguments of a call."""
    return f'{_MARKER} [{{"name": "{tool.name}", "arguments": {{...}}}}]'


def _between(text: str) -> str:
    match = _BETWEEN.match(text)
    return match.group() if match else ""


def _calls(pieces: Sequence[str], key: str, form: str) -> ParsedCalls:
    calls: list[Call] = []
    for number, piece in enumerate(pieces, start=1):
        where = f"call {number}: " if len(pieces) > 1 else ""
        try:
            calls.append(_call(parse_json(piece), key, f"call_{number}"))
        except ValueError as error:
            return ParsedCalls((), f"{where}{error}; write a call as {form}")
    return ParsedCalls(tuple(calls), "" if calls else f"found no call; write one as {form}")


def _call(entry: object, key: str, id: str) -> Call:
    if not isinstance(entry, Mapping):
        raise ValueError(f'a call must be an object with "name" and "{key}"')
    name, arguments = entry.get("name"), entry.get(key, {})
    if not isinstance(name, str) or not name:
        raise ValueError('the call has no "name"')
    if not isinstance(arguments, Mapping):
        raise ValueError(f'"{key}" must be an object, {{"name of an argument": value}}')
    return Call(name, arguments, id)


def escaped_json(value: object) -> str:
    """Return JSON with `<` escaped where it would look like a tag or a special token.

    Raises:
        BadCall: the value is not JSON.
    """
    try:
        return _MARKS.sub(r"\\u003c", to_json(value))
    except ValueError as error:
        raise BadCall(f"the arguments cannot be written as JSON: {error}") from error


def listed_schemas(tools: Sequence[Tool]) -> str:
    """Return the schemas of tools, one a line."""
    schemas = (escaped_json(tool.schema) for tool in tools)
    return "\n".join(["You can call these tools:", "<tools>", *schemas, "</tools>"])
