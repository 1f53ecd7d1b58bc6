"""Calls in the form of Kimi K2: a section with tokens of its own, in which each call has an id with its name.

    <|tool_calls_section_begin|><|tool_call_begin|>functions.find:0<|tool_call_argument_begin|>{"name": "Ada"}
    <|tool_call_end|><|tool_calls_section_end|>

(on one line). A section that is not closed has no calls. Results are plain text, since the chat template writes the
messages that hold them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from turncredit.tools.functions.calls import Call, InvalidCall, ParsedCalls, ends_within, parse_json, visible
from turncredit.tools.functions.errors import BadCall
from turncredit.tools.functions.template_formats import escaped_json, listed_schemas
from turncredit.tools.functions.tool import Tool

__all__ = ["describe_kimi", "example_kimi", "parse_kimi", "write_kimi"]

_BEGIN, _END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGUMENTS, _CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_FORM: Final = f"{_BEGIN}{_CALL}functions.NAME:0{_ARGUMENTS}{{...}}{_CALL_END}{_END}"
_ID: Final = re.compile(r"functions\.([\w.:/-]+):\d+")


def parse_kimi(text: str, tools: Sequence[Tool] = ()) -> ParsedCalls:
    """Return the calls in sections, or why there are none; text around sections is ignored."""
    _, *sections = visible(text).split(_BEGIN)
    calls: list[Call] = []
    try:
        for section in sections:
            body, closed, _ = section.partition(_END)
            if not closed:
                raise InvalidCall(f"{_END} is missing")
            *pieces, ending = body.split(_CALL_END)
            if ending.strip() or not pieces:
                raise InvalidCall(f"{_CALL_END} is missing")
            for piece in pieces:
                name, arguments = _call(piece)
                calls.append(Call(name, arguments, f"call_{len(calls) + 1}"))
        if calls and ends_within(sections[-1], _BEGIN):
            raise InvalidCall(f"the text ends within {_BEGIN}")
    except InvalidCall as error:
        where = f"call {len(calls) + 1}: " if calls else ""
        return ParsedCalls((), f"{where}{error}; write calls as {_FORM}")
    return ParsedCalls(tuple(calls), "" if calls else f"found no {_BEGIN}; write calls as {_FORM}")


def _call(piece: str) -> tuple[str, Mapping[str, object]]:
    """Return name and arguments of a call up to its end."""
    begun, _, body = piece.strip().partition(_CALL)
    header, separator, arguments = body.partition(_ARGUMENTS)
    if begun or not separator:
        raise InvalidCall(f"a call must begin with {_CALL}functions.NAME:0{_ARGUMENTS}")
    id = _ID.fullmatch(header.strip())
    if id is None:
        raise InvalidCall(f"the id of a call must be functions.NAME:0, got {header.strip()[:80]!r}")
    try:
        decoded = parse_json(arguments)
    except ValueError as error:
        raise InvalidCall(f"the arguments of {id[1]!r} are not valid JSON: {error}") from error
    if not isinstance(decoded, Mapping):
        raise InvalidCall(f'the arguments of {id[1]!r} must be an object, {{"name of an argument": value}}')
    return id[1], decoded


def write_kimi(calls: Sequence[Call], tools: Sequence[Tool] = ()) -> str:
    """Return the calls as one section; their numbers count from 0.

    Raises:
        BadCall: the arguments are not JSON, or a name cannot stand in an id.
    """
    pieces = []
    for number, call in enumerate(calls):
        id = f"functions.{call.name}:{number}"
        if not _ID.fullmatch(id):
            raise BadCall(f"the name {call.name!r} cannot be written as the id of a call; use another format")
        pieces.append(f"{_CALL}{id}{_ARGUMENTS}{escaped_json(dict(call.arguments))}{_CALL_END}")
    return f"{_BEGIN}{''.join(pieces)}{_END}"


def describe_kimi(tools: Sequence[Tool]) -> str:
    """Return the schemas of the tools and how to write calls."""
    return f"{listed_schemas(tools)}\n\nWrite calls as follows; several may stand in one section:\n{_FORM}"


def example_kimi(tool: Tool) -> str:
    """Return a call with "..." for its arguments."""
    return f"{_BEGIN}{_CALL}functions.{tool.name}:0{_ARGUMENTS}{{...}}{_CALL_END}{_END}"
