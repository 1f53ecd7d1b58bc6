"""Checks arguments against the JSON schema of a tool, as far as models get it wrong: types, choices, missing and extra.

Not included: patterns, bounds, formats and combined schemas (`oneOf`, `$ref`), which are left to the tool.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from turncredit.tools.functions.calls import Arguments, Schema
from turncredit.tools.functions.errors import BadArguments
from turncredit.tools.functions.signature import check_names
from turncredit.tools.visible_text import shortened

__all__ = ["check_arguments"]

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
_DEEPEST: Final = 16
_SHOWN: Final = 60  # characters of a value in a message


def check_arguments(arguments: Arguments, parameters: Schema) -> Arguments:
    """Return the arguments of a call after checking them; whole numbers become integers where the schema wants them.

    Raises:
        BadArguments: an argument is unknown or missing, or has another type or value than the schema allows.
    """
    check_names(arguments, parameters)
    problems = list(_problems(dict(arguments), parameters, "", 0))
    if problems:
        raise BadArguments("; ".join(problems[:5]))
    properties = parameters.get("properties") or {}
    return {name: _whole(value, properties.get(name)) for name, value in arguments.items()}


def _problems(value: object, schema: object, where: str, depth: int) -> Iterator[str]:
    if not isinstance(schema, Mapping) or depth > _DEEPEST:
        return
    kind = schema.get("type")
    names = [kind] if isinstance(kind, str) else kind if isinstance(kind, list) else []
    if names and not any(_is_of(value, name) for name in names):
        yield f"{where!r} should be {' or '.join(map(str, names))}, got {shortened(repr(value), _SHOWN)}"
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and value not in choices:
        expected = ", ".join(map(repr, choices[:12]))
        yield f"{where!r} should be one of {expected}, got {shortened(repr(value), _SHOWN)}"
    if isinstance(value, dict):
        for name, part in (schema.get("properties") or {}).items():
            if name in value:
                yield from _problems(value[name], part, f"{where}.{name}" if where else name, depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _problems(item, schema.get("items"), f"{where}.{number}", depth + 1)


def _is_of(value: object, name: object) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    kinds = _TYPES.get(name) if isinstance(name, str) else None
    return kinds is None or isinstance(value, kinds)


def _whole(value: object, schema: object) -> object:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return int(value) if kind == "integer" and isinstance(value, float) else value
