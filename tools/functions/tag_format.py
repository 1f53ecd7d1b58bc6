"""Calls as tags: `<find>Ada</find>`, or `<change><name>Ada</name><phone>555</phone></change>`.

The short form is for a tool's only argument, or its only required one; `<list/>` has none. Text arguments are written
as they are, without surrounding white space; other values are JSON. Where text would look like a tag or an entity it is
escaped with `&lt;`, `&amp;` and character references (`&#32;`), and only there: code with `a < b && c` stays readable
and is read back exactly.

Parsing needs the tools: tags that do not name one are ordinary text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Final

from turncredit.registry import suggest
from turncredit.tools.functions.calls import (
    Call,
    ParsedCalls,
    Schema,
    ToolResult,
    is_json,
    parse_json,
    to_json,
    visible,
)
from turncredit.tools.functions.errors import BadCall
from turncredit.tools.functions.tool import NAME, Tool
from turncredit.tools.functions.typed_values import argument_schema, only_text

__all__ = ["describe", "example", "parse", "write", "write_results"]

_TAG: Final = re.compile(rf"<({NAME.pattern})>")
_OPENING: Final = re.compile(rf"<({NAME.pattern})\s*(/?)>")
_ENTITY: Final = re.compile(r"&(amp|lt|#\d{1,5});")
_LIKE_ENTITY: Final = re.compile(r"&(?=(?:amp|lt|#\d{1,5});)")
_LIKE_TAG: Final = re.compile(r"<(?=/?[A-Za-z_])")
_TEXT: Final = {"type": "string"}
"""Schema of an unknown argument."""
_DEEPEST: Final = 6
"""Steps into a schema that a description follows; schemas may contain themselves."""


def parse(text: str, tools: Sequence[Tool]) -> ParsedCalls:
    """Return the calls in the order of the text, or why there are none; other text is ignored."""
    by_name = {tool.name: tool for tool in tools}
    shown = visible(text)
    calls: list[Call] = []
    unknown = ""
    at = 0
    while match := _OPENING.search(shown, at):
        tool = by_name.get(match[1])
        if tool is None:
            unknown = unknown or match[1]
            at = match.end()
            continue
        arguments, at, error = ({}, match.end(), "") if match[2] else _arguments(shown, match.end(), tool)
        if error:
            return ParsedCalls((), f"call {len(calls) + 1}: {error}" if calls else error)
        calls.append(Call(tool.name, arguments, f"call_{len(calls) + 1}"))
    if calls:
        return ParsedCalls(tuple(calls))
    if unknown:
        return ParsedCalls((), f"unknown tool {unknown!r}{suggest(unknown, by_name)}")
    examples = " or ".join(example(tool) for tool in tools[:2])
    return ParsedCalls((), f"found no call; write calls as {examples}" if examples else "there are no tools")


def _arguments(text: str, at: int, tool: Tool) -> tuple[dict[str, object], int, str]:
    """Parse the content of a call from the end of its opening tag; return arguments, end and error."""
    end_tag = f"</{tool.name}>"
    if _has_argument_tags(text, at, tool):
        return _named_arguments(text, at, tool)
    close = text.find(end_tag, at)
    if close < 0:
        return {}, at, f"<{tool.name}> is not closed by {end_tag}"
    content, end = text[at:close], close + len(end_tag)
    main = tool.main_argument
    if not content.strip() and (main is None or main not in (tool.parameters.get("required") or ())):
        return {}, end, ""
    if main is None:
        return {}, end, f"<{tool.name}> contains text outside of argument tags; write it as {example(tool)}"
    return {main: _value(content, argument_schema(tool, main, _TEXT))}, end, ""


def _has_argument_tags(text: str, at: int, tool: Tool) -> bool:
    """Return whether the content starts with the tag of an argument, or with one that is close to its name."""
    match = _TAG.match(text, _skip_space(text, at))
    if match is None:
        return False
    names = tool.parameters.get("properties") or {}
    return tool.main_argument is None or bool(difflib.get_close_matches(match[1], names, 1))


def _named_arguments(text: str, at: int, tool: Tool) -> tuple[dict[str, object], int, str]:
    """Parse `<arg>value</arg>...</name>`."""
    arguments: dict[str, object] = {}
    end_tag = f"</{tool.name}>"
    while not text.startswith(end_tag, at := _skip_space(text, at)):
        match = _TAG.match(text, at)
        if match is None:
            problem = "is not closed" if text.find(end_tag, at) < 0 else "contains text between its arguments"
            return {}, at, f"<{tool.name}> {problem}; write it as {example(tool)}"
        name = match[1]
        close = text.find(f"</{name}>", match.end())
        if close < 0:
            return {}, at, f"<{name}> in <{tool.name}> is not closed by </{name}>"
        if name in arguments:
            return {}, at, f"<{name}> occurs twice in <{tool.name}>"
        arguments[name] = _value(text[match.end() : close], argument_schema(tool, name, _TEXT))
        at = close + len(name) + 3
    return arguments, at + len(end_tag), ""


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _value(content: str, schema: Mapping[str, object]) -> object:
    """Return the value between tags: the text itself, or parsed JSON if the argument is not always text."""
    text = _ENTITY.sub(_character, content.strip())
    if only_text(schema):
        return text
    try:
        return parse_json(text)
    except ValueError:
        return text  # validation reports what was expected


def _character(match: re.Match[str]) -> str:
    if not match[1].startswith("#"):
        return {"amp": "&", "lt": "<"}[match[1]]
    number = int(match[1][1:])
    return match[0] if 0xD800 <= number <= 0xDFFF else chr(number)  # lone surrogates are not characters


def write(calls: Sequence[Call], tools: Sequence[Tool]) -> str:
    """Return the calls as tags, one per line.

    Raises:
        BadCall: the tool is unknown, the name of an argument is not a valid tag, or a value is not JSON.
    """
    by_name = {tool.name: tool for tool in tools}
    lines = []
    for call in calls:
        if call.name not in by_name:
            raise BadCall(f"unknown tool {call.name!r}{suggest(call.name, by_name)}")
        lines.append(_written(call, by_name[call.name]))
    return "\n".join(lines)


def _written(call: Call, tool: Tool) -> str:
    required = tool.parameters.get("required") or ()
    parts = {name: _text(value, argument_schema(tool, name, _TEXT)) for name, value in call.arguments.items()}
    for name in parts:
        if not NAME.fullmatch(name):
            raise BadCall(f"the argument {name!r} of {tool.name} cannot be written as a tag; use another format")
    if list(parts) == [tool.main_argument]:
        ((name, text),) = parts.items()
        if text or name in required:
            return f"<{tool.name}>{text}</{tool.name}>"
    content = "".join(f"<{name}>{text}</{name}>" for name, text in parts.items())
    return f"<{tool.name}>{content}</{tool.name}>"


def _text(value: object, schema: Mapping[str, object]) -> str:
    """Return a value as text between tags."""
    try:
        text = to_json(value)
    except ValueError as error:
        raise BadCall(f"the arguments cannot be written as JSON: {error}") from error
    if isinstance(value, str) and (only_text(schema) or not is_json(value)):
        text = value
    text = _LIKE_TAG.sub("&lt;", _LIKE_ENTITY.sub("&amp;", text))
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip()) if start < len(text) else start
    return "".join(f"&#{ord(c)};" for c in text[:start]) + text[start:end] + "".join(f"&#{ord(c)};" for c in text[end:])


def write_results(results: Sequence[ToolResult]) -> str:
    """Return the text of a single result, or several results, each with the name of its tool."""
    if len(results) == 1:
        return results[0].text
    return "\n".join(f"[{number}] {result.name}: {result.text}" for number, result in enumerate(results, start=1))


def example(tool: Tool) -> str:
    """Return a call with "..." for its values."""
    properties = list(tool.parameters.get("properties") or {})
    required = [name for name in properties if name in (tool.parameters.get("required") or ())]
    if tool.main_argument is not None:
        return f"<{tool.name}>...</{tool.name}>"
    content = "".join(f"<{name}>...</{name}>" for name in required or properties)
    return f"<{tool.name}>{content}</{tool.name}>"


def describe(tools: Sequence[Tool]) -> str:
    """Return each tool with an example, its description and its arguments."""
    return "\n\n".join(["Call tools with tags:", *map(_described, tools)])


def _described(tool: Tool) -> str:
    lines = [f"{example(tool)}  {' '.join(tool.description.split())}".rstrip()]
    required = tool.parameters.get("required") or ()
    for name, schema in (tool.parameters.get("properties") or {}).items():
        kind = _type_name(schema, tool.parameters.get("$defs", {}))
        optional = "" if name in required else ", optional"
        if "default" in schema and schema["default"] is not None:
            optional += f", default {to_json(schema['default'])}"
        description = schema.get("description", "")
        lines.append(f"  {name} ({kind}{optional})" + (f": {description}" if description else ""))
    return "\n".join(lines)


def _type_name(schema: Schema, definitions: Schema, depth: int = 0) -> str:
    """Return the type of a schema in words."""
    deeper = depth < _DEEPEST
    if "$ref" in schema and deeper:
        return _type_name(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions, depth + 1)
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(map(str, schema["enum"]))
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and deeper:
            return " or ".join(_type_name(part, definitions, depth + 1) for part in schema[key])
    kind = schema.get("type", "value")
    if kind == "array" and isinstance(schema.get("items"), Mapping) and deeper:
        return f"list of {_type_name(schema['items'], definitions, depth + 1)}"
    if kind == "object" and deeper and (members := _members(schema, definitions, depth + 1)):
        return f"object {members}"
    return str(schema.get("format") or kind)


def _members(schema: Schema, definitions: Schema, depth: int) -> str:
    """Return the members of an object, whose names a model cannot guess; "" if the schema does not say."""
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    if isinstance(properties, Mapping) and properties:
        required = schema.get("required") or ()
        kinds = {
            name: _type_name(part, definitions, depth) if isinstance(part, Mapping) else "value"
            for name, part in properties.items()
        }
        words = (
            f"{to_json(name)}: {kind}" + ("" if name in required else " (optional)") for name, kind in kinds.items()
        )
        return f"{{{', '.join(words)}}}"
    return f"of {_type_name(others, definitions, depth)}" if isinstance(others, Mapping) and others else ""
