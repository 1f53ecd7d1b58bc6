"""The actions of an OpenEnv server as text, by its JSON schema.

An action is a JSON object with the fields of the schema. Where the schema has a single field that must be filled in,
the text of this field alone is an action too. Servers of tools take {"tool_name": ..., "arguments": {...}}.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from turncredit.tools.bounded_input import InputError, parse_json

__all__ = ["ActionForm", "UnreadableAction"]

_COMMON: Final = "metadata"
_OF_TOOLS: Final = ("Action", "CallToolAction", "ListToolsAction")
"""Titles of the schemas of servers whose actions are calls of tools."""
_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
_MAX_BYTES: Final = 1 << 20


class UnreadableAction(ValueError):
    """A text is no action of the server; the message says what is expected."""


@dataclass(frozen=True)
class ActionForm:
    """How the actions of a server are written.

    Attributes:
        fields: name -> JSON schema of a field.
        required: names of the fields that must be filled in.
        tools: the tools of a server of tools, as MCP describes them; () for another server.
    """

    fields: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    tools: tuple[Mapping[str, object], ...] = ()

    @classmethod
    def of(cls, schema: object, tools: Sequence[Mapping[str, object]] = ()) -> ActionForm:
        """Return the form of a schema of actions; a part of it that is no schema counts as absent."""
        schema = schema if isinstance(schema, Mapping) else {}
        properties, definitions = (_mapping(schema.get(name)) for name in ("properties", "$defs"))
        fields = {
            name: _resolved(part, definitions)
            for name, part in properties.items()
            if name != _COMMON and isinstance(part, Mapping)
        }
        listed = schema.get("required")
        required = [name for name in listed if name in fields] if isinstance(listed, list) else []
        return cls(fields, tuple(required), tuple(tools))

    @staticmethod
    def calls_tools(schema: object) -> bool:
        """Return whether a schema is that of a server of tools, which lists them on request."""
        return isinstance(schema, Mapping) and schema.get("title") in _OF_TOOLS

    @property
    def single(self) -> str | None:
        """Name of the field whose text alone is an action, or None."""
        if self.tools:
            return None
        names = self.required or tuple(self.fields)
        return names[0] if len(names) == 1 else None

    @property
    def choices(self) -> list[str]:
        """All actions, where the schema lists the values of the only field; else []."""
        values = self.fields[self.single].get("enum") if self.single else None
        values = values if isinstance(values, list) else []
        return [value if isinstance(value, str) else json.dumps(value) for value in values]

    def parse(self, text: str) -> Mapping[str, object]:
        """Return the action that a text stands for.

        Raises:
            UnreadableAction: it stands for none.
        """
        text = _without_fence(text.strip())
        value = _json(text)
        if self.tools:
            return self._call(value)
        if isinstance(value, Mapping) and (self.single is None or set(value) <= {*self.fields, _COMMON}):
            unknown = sorted(set(value) - {*self.fields, _COMMON}) if self.fields else []
            if unknown:
                raise UnreadableAction(f"the action has no field {unknown[0]!r}; {self.describe()}")
            return dict(value)
        if self.single is None:
            raise UnreadableAction(self.describe())
        return {self.single: self._value(self.single, text, value)}

    def describe(self) -> str:
        """Return what an action looks like, in a sentence or two."""
        if self.tools:
            lines = [f"- {_tool_line(tool)}" for tool in self.tools]
            example = '{"tool_name": "...", "arguments": {...}}'
            return "\n".join([f"An action calls one of these tools, as JSON of the form {example}:", *lines])
        if self.choices:
            return f"An action is one of: {', '.join(self.choices)}."
        if self.single and set(self.fields) == {self.single}:
            return f"An action is the text of {_field_line(self.single, self.fields[self.single])}."
        lines = [f"- {_field_line(name, part, name not in self.required)}" for name, part in self.fields.items()]
        short = f" The text of {self.single} alone is an action too." if self.single else ""
        return "\n".join([f"An action is a JSON object with these fields.{short}", *lines])

    def _value(self, name: str, text: str, value: object) -> object:
        """Return a text as the value of a field."""
        kind = self.fields[name].get("type")
        types = _TYPES.get(str(kind))
        if types is None:
            return text
        if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
            raise UnreadableAction(f"{name} must be of the type {kind}, got {text!r:.60}")
        return value

    def _call(self, value: object) -> Mapping[str, object]:
        """Return a call of a tool as an action."""
        call = _mapping(value)
        name = call.get("tool_name", call.get("name"))
        arguments = call.get("arguments", {})
        names = [str(tool.get("name")) for tool in self.tools]
        if name not in names or not isinstance(arguments, Mapping):
            raise UnreadableAction(
                'expected a call such as {"tool_name": "' + names[0] + '", "arguments": {...}}; '
                f"the tools are {', '.join(names)}"
            )
        return {"type": "call_tool", "tool_name": name, "arguments": dict(arguments)}


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _resolved(part: Mapping[str, object], definitions: Mapping[str, object]) -> Mapping[str, object]:
    """Return the schema of a field with its reference filled in; an optional value counts as that value."""
    options = part.get("anyOf")
    if isinstance(options, list):
        others = [option for option in options if _mapping(option).get("type") != "null"]
        if len(others) == 1 and isinstance(others[0], Mapping):
            part = {**others[0], **{key: value for key, value in part.items() if key != "anyOf"}}
    reference = part.get("$ref")
    target = definitions.get(reference.rpartition("/")[2]) if isinstance(reference, str) else None
    return {**target, **part} if isinstance(target, Mapping) else part


def _field_line(name: str, part: Mapping[str, object], optional: bool = False) -> str:
    kind = part.get("type")
    facts = [str(kind)] if isinstance(kind, str) else []
    if isinstance(part.get("enum"), list):
        facts = [f"one of {json.dumps(part['enum'])}"]
    if optional:
        facts.append("optional")
    about = str(part.get("description") or "").rstrip(".")
    return f"{name} ({', '.join(facts)})" + (f": {about}" if about else "")


def _tool_line(tool: Mapping[str, object]) -> str:
    schema = _mapping(tool.get("input_schema", tool.get("inputSchema")))
    properties = _mapping(schema.get("properties"))
    arguments = ", ".join(f"{name}: {_mapping(part).get('type', 'value')}" for name, part in properties.items())
    about = " ".join(str(tool.get("description") or "").split())
    return f"{tool.get('name')}({arguments})" + (f" {about}" if about else "")


def _without_fence(text: str) -> str:
    """Return a text without the fence ``` around it."""
    lines = text.splitlines()
    return "\n".join(lines[1:-1]) if len(lines) > 2 and text.startswith("```") and text.endswith("```") else text


def _json(text: str) -> object:
    """Return the value of a text, or None if it is no JSON."""
    try:
        value: object = parse_json(text, "the action", max_bytes=_MAX_BYTES, finite=True)
    except InputError:
        return None
    return value
