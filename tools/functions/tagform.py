"""Calls as plain tags: `<find>Ada</find>`, or `<change><name>Ada</name><phone>555</phone></change>`.

The short form is for a tool's only argument, or its only required one; `<list/>` has none. A text argument stands as it
is, white space around it aside; other values are JSON. Where a text would look like a tag or an entity it is written
with `&lt;`, `&amp;` and numbers (`&#32;`), and only there: code with `a < b && c` stays readable, and is read back to
the letter.

Reading needs the tools: tags that name none are words like others.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnwise.tools.functions.calls import Answer, Call, Reading, json_of, json_text
from turnwise.tools.functions.errors import BadCall, near
from turnwise.tools.functions.reasoning import spoken
from turnwise.tools.functions.tool import NAME, Tool

__all__ = ["describe", "example", "read", "tell", "write"]

_TAG: Final = re.compile(rf"<({NAME.pattern})>")
_OPENING: Final = re.compile(rf"<({NAME.pattern})\s*(/?)>")
_ENTITY: Final = re.compile(r"&(amp|lt|#\d{1,5});")
_LIKE_ENTITY: Final = re.compile(r"&(?=(?:amp|lt|#\d{1,5});)")
_LIKE_TAG: Final = re.compile(r"<(?=/?[A-Za-z_])")


def read(text: str, tools: Sequence[Tool]) -> Reading:
    """Return the calls in the order in which they stand, or why there are none; what is around them is passed over."""
    known = {tool.name: tool for tool in tools}
    told = spoken(text)
    calls: list[Call] = []
    strange = ""
    place = 0
    while match := _OPENING.search(told, place):
        tool = known.get(match[1])
        if tool is None:
            strange = strange or match[1]
            place = match.end()
            continue
        arguments, place, why = ({}, match.end(), "") if match[2] else _inside(told, match.end(), tool)
        if why:
            return Reading((), f"call {len(calls) + 1}: {why}" if calls else why)
        calls.append(Call(tool.name, arguments, f"call_{len(calls) + 1}"))
    if calls:
        return Reading(tuple(calls))
    if strange:
        return Reading((), f"there is no tool {strange!r}: {near(strange, known)}")
    examples = " or ".join(example(tool) for tool in tools[:2])
    return Reading((), f"there was no call; calls are written {examples}" if examples else "there are no tools")


def _inside(text: str, place: int, tool: Tool) -> tuple[dict[str, Any], int, str]:
    """Return the arguments of a call whose opening tag ends at `place`, where it ends, and what is wrong with it."""
    end_tag = f"</{tool.name}>"
    if _is_long(text, place, tool):
        return _long(text, place, tool)
    close = text.find(end_tag, place)
    if close < 0:
        return {}, place, f"<{tool.name}> was not closed by {end_tag}"
    inside, end = text[place:close], close + len(end_tag)
    main = tool.main
    blank = not inside.strip()
    if blank and (main is None or main not in tool.parameters.get("required", ())):
        return {}, end, ""
    if main is None:
        return {}, end, f"<{tool.name}> holds a text without the tags of its arguments; it is written {example(tool)}"
    return {main: _value(inside, _schema_of(tool, main))}, end, ""


def _is_long(text: str, place: int, tool: Tool) -> bool:
    """Return whether the content begins with the tag of an argument, or with one that is nearly its name."""
    match = _TAG.match(text, _skip(text, place))
    if match is None:
        return False
    return tool.main is None or bool(difflib.get_close_matches(match[1], tool.parameters.get("properties", {}), 1))


def _long(text: str, place: int, tool: Tool) -> tuple[dict[str, Any], int, str]:
    """Read `<arg>value</arg>...</name>`."""
    arguments: dict[str, Any] = {}
    end_tag = f"</{tool.name}>"
    while not text.startswith(end_tag, place := _skip(text, place)):
        match = _TAG.match(text, place)
        if match is None:
            lost = "was not closed" if text.find(end_tag, place) < 0 else "holds a text between its arguments"
            return {}, place, f"<{tool.name}> {lost}; it is written {example(tool)}"
        name = match[1]
        close = text.find(f"</{name}>", match.end())
        if close < 0:
            return {}, place, f"<{name}> in <{tool.name}> was not closed by </{name}>"
        if name in arguments:
            return {}, place, f"<{name}> stands twice in <{tool.name}>"
        arguments[name] = _value(text[match.end() : close], _schema_of(tool, name))
        place = close + len(name) + 3
    return arguments, place + len(end_tag), ""


def _skip(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _schema_of(tool: Tool, name: str) -> Mapping[str, Any]:
    found = tool.parameters.get("properties", {}).get(name, {"type": "string"})
    return found if isinstance(found, Mapping) else {}


def _only_text(schema: Mapping[str, Any]) -> bool:
    """Return whether every value that a schema takes is a str; where that cannot be seen, it is not."""
    if schema.get("type") == "string":
        return True
    if "enum" in schema and "type" not in schema:
        return isinstance(schema["enum"], list) and all(isinstance(value, str) for value in schema["enum"])
    return isinstance(schema.get("const"), str)


def _value(inside: str, schema: Mapping[str, Any]) -> Any:
    """Return the value of a text between tags: the text itself, or JSON where the argument is not always a text."""
    text = _ENTITY.sub(_character, inside.strip())
    if _only_text(schema):
        return text
    try:
        return json_of(text)
    except ValueError:
        return text  # whoever checks the value says what was wanted


def _character(match: re.Match[str]) -> str:
    if not match[1].startswith("#"):
        return {"amp": "&", "lt": "<"}[match[1]]
    number = int(match[1][1:])
    # Half of a surrogate pair is no character, and what is written never needs one.
    return match[0] if 0xD800 <= number <= 0xDFFF else chr(number)


def write(calls: Sequence[Call], tools: Sequence[Tool]) -> str:
    """Return the calls as tags, one a line.

    Raises:
        BadCall: a tool that is not there, an argument whose name is no tag, or a value that is no JSON.
    """
    known = {tool.name: tool for tool in tools}
    lines = []
    for call in calls:
        if call.name not in known:
            raise BadCall(f"no tool {call.name!r} to write a call of: {near(call.name, known)}")
        lines.append(_written(call, known[call.name]))
    return "\n".join(lines)


def _written(call: Call, tool: Tool) -> str:
    required = tool.parameters.get("required", ())
    parts = {name: _text(value, _schema_of(tool, name)) for name, value in call.arguments.items()}
    for name in parts:
        if not NAME.fullmatch(name):
            raise BadCall(f"the argument {name!r} of {tool.name} cannot be written as a tag; use another form")
    if list(parts) == [tool.main]:
        ((name, text),) = parts.items()
        if text or name in required:
            return f"<{tool.name}>{text}</{tool.name}>"
    inside = "".join(f"<{name}>{text}</{name}>" for name, text in parts.items())
    return f"<{tool.name}>{inside}</{tool.name}>"


def _text(value: Any, schema: Mapping[str, Any]) -> str:
    """Return a value as it stands between tags."""
    try:
        text = json_text(value)
    except ValueError as error:
        raise BadCall(f"the arguments cannot be written as JSON: {error}") from error
    if isinstance(value, str) and (_only_text(schema) or not _is_json(value)):
        text = value
    text = _LIKE_TAG.sub("&lt;", _LIKE_ENTITY.sub("&amp;", text))
    start = len(text) - len(text.lstrip())
    end = len(text.rstrip()) if start < len(text) else start
    return "".join(f"&#{ord(c)};" for c in text[:start]) + text[start:end] + "".join(f"&#{ord(c)};" for c in text[end:])


def _is_json(text: str) -> bool:
    try:
        json_of(text)
    except ValueError:
        return False
    return True


def tell(answers: Sequence[Answer]) -> str:
    """Return the answers: the text of one alone, or of several, each behind the name of its tool."""
    if len(answers) == 1:
        return answers[0].text
    return "\n".join(f"[{number}] {answer.name}: {answer.text}" for number, answer in enumerate(answers, start=1))


def example(tool: Tool) -> str:
    """Return a call with "..." in the places of values."""
    properties = list(tool.parameters.get("properties", {}))
    required = [name for name in properties if name in tool.parameters.get("required", ())]
    if tool.main is not None:
        return f"<{tool.name}>...</{tool.name}>"
    inside = "".join(f"<{name}>...</{name}>" for name in required or properties)
    return f"<{tool.name}>{inside}</{tool.name}>"


def describe(tools: Sequence[Tool]) -> str:
    """Return each tool with what it does, how it is called and what its arguments are."""
    return "\n\n".join(["Tools are called by tags:", *map(_described, tools)])


def _described(tool: Tool) -> str:
    lines = [f"{example(tool)}  {' '.join(tool.description.split())}".rstrip()]
    required = tool.parameters.get("required", ())
    for name, schema in tool.parameters.get("properties", {}).items():
        kind = _kind(schema, tool.parameters.get("$defs", {}))
        optional = "" if name in required else ", optional"
        if "default" in schema and schema["default"] is not None:
            optional += f", default {json_text(schema['default'])}"
        told = schema.get("description", "")
        lines.append(f"  {name} ({kind}{optional})" + (f": {told}" if told else ""))
    return "\n".join(lines)


def _kind(schema: Mapping[str, Any], definitions: Mapping[str, Any], depth: int = 0) -> str:
    """Return the type that a schema asks for, in words."""
    if "$ref" in schema and depth < 4:
        return _kind(definitions.get(str(schema["$ref"]).rpartition("/")[2], {}), definitions, depth + 1)
    if isinstance(schema.get("enum"), list):
        return "one of " + ", ".join(map(str, schema["enum"]))
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list) and depth < 4:
            return " or ".join(_kind(part, definitions, depth + 1) for part in schema[key])
    kind = schema.get("type", "value")
    if kind == "array" and isinstance(schema.get("items"), Mapping) and depth < 4:
        return f"list of {_kind(schema['items'], definitions, depth + 1)}"
    return str(schema.get("format") or kind)
