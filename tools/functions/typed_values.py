"""Values of arguments in formats that write them as text between tags, typed by the schema of the tool.

An argument that is always text is the text itself. Any other value is JSON; what is no JSON stays text, and the check
of the arguments says what was expected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from turncredit.tools.functions.calls import Schema, parse_json, to_json
from turncredit.tools.functions.tool import Tool

__all__ = ["argument_schema", "only_text", "read_value", "write_value"]

_WORDS: Final = {"True": (True, "boolean"), "False": (False, "boolean"), "None": (None, "null")}
"""Python's words for values of JSON, with their types: some chat templates show them to their model."""


def argument_schema(tool: Tool | None, name: str, default: Schema) -> Schema:
    """Return the schema of an argument; the default for an unknown one, and {} if it is no table."""
    properties = {} if tool is None else tool.parameters.get("properties") or {}
    schema = properties.get(name, default)
    return schema if isinstance(schema, Mapping) else {}


def only_text(schema: Schema) -> bool:
    """Return whether a schema accepts only str; False if that cannot be determined."""
    if schema.get("type") == "string":
        return True
    if "enum" in schema and "type" not in schema:
        return isinstance(schema["enum"], list) and all(isinstance(value, str) for value in schema["enum"])
    return isinstance(schema.get("const"), str)


def read_value(text: str, schema: Schema) -> object:
    """Return the value of an argument.

    >>> read_value("3", {"type": "string"}), read_value("3", {"type": "integer"}), read_value("three", {})
    ('3', 3, 'three')
    >>> read_value("True", {"type": "boolean"}), read_value("True", {"type": "integer"})
    (True, 'True')
    """
    if only_text(schema):
        return text
    try:
        return parse_json(text)
    except ValueError:
        value, kind = _WORDS.get(text.strip(), (None, ""))
        return value if _admits(schema, kind) else text


def write_value(value: object, schema: Schema) -> str:
    """Return the text of a value: the text itself where it is read as that, else JSON.

    Raises:
        ValueError: the value is not JSON.
    """
    written = to_json(value)
    return value if isinstance(value, str) and read_value(value, schema) == value else written


def _admits(schema: Schema, kind: str) -> bool:
    """Return whether a schema names a type among those that it accepts."""
    kinds = schema.get("type")
    choices = [schema.get(key) for key in ("anyOf", "oneOf")]
    members = [member for choice in choices if isinstance(choice, list) for member in choice]
    return kind in (kinds if isinstance(kinds, list) else [kinds]) or any(
        member.get("type") == kind for member in members if isinstance(member, Mapping)
    )
