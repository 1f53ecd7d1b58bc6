"""JSON schema of a function's parameters, and validation of JSON arguments.

Validation is pydantic's strict mode for JSON: "3" is not an int and 1 is not a bool, but an int is a valid float, and
dates, enums, sets and dataclasses are read from their JSON form. Arguments bound by a functools.partial are not
parameters of the tool. *args, **kwargs and positional-only parameters are not supported, since a schema needs names.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_type_hints

import pydantic
from pydantic.json_schema import PydanticJsonSchemaWarning

from turncredit.registry import suggest
from turncredit.tools.functions.calls import Arguments, Schema, to_json
from turncredit.tools.functions.docstring import read_docstring
from turncredit.tools.functions.errors import BadArguments, BadTool
from turncredit.tools.visible_text import shortened

__all__ = ["Signature", "check_names", "without_nulls"]

_SHOWN: Final = 80  # characters of a value or name in a message
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_NAMING: Final = (*_COMBINED, "$ref", "patternProperties", "dependentSchemas", "if", "then", "else")
"""Keywords that may name arguments outside of `properties`."""


class Signature:
    """Description and parameters of a function.

    Args:
        function: a callable with type hints.
        name: of the tool, for messages.

    Attributes:
        description: from the docstring.
        parameters: JSON schema of the arguments, an object.

    Raises:
        BadTool: a parameter has no type hint or cannot be passed by name, or a type has no JSON schema.
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.description, lines = read_docstring(_source(function).__doc__)
        fields: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        hints = _hints(function, name)
        for number, parameter in enumerate(_parameters(function, name)):
            if parameter.name not in hints:
                raise BadTool(
                    f"{name} cannot be a tool: its parameter {parameter.name!r} has no type hint; write for example "
                    f"'{parameter.name}: str'"
                )
            default: Any = ... if parameter.default is parameter.empty else parameter.default
            # Fields get generated names, since pydantic refuses some names that parameters may have.
            key = f"p{number}"
            self._names[key] = parameter.name
            field = pydantic.Field(default, alias=parameter.name, description=lines.get(parameter.name))
            fields[key] = (hints[parameter.name], field)
        try:
            config = pydantic.ConfigDict(extra="forbid", strict=True)
            self._model = pydantic.create_model("Arguments", __config__=config, **fields)
            self.parameters = _schema(self._model)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadTool(f"{name} cannot be a tool: its types have no JSON schema ({reason})") from error

    def validate(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        """Convert JSON arguments to Python values; defaults are left to the function.

        Raises:
            BadArguments: the arguments are not valid; the message lists up to five problems.
        """
        try:
            text = to_json(dict(arguments))
        except (TypeError, ValueError) as error:
            raise BadArguments(f"the arguments are not a JSON object: {error}") from error
        try:
            model = self._read(text, arguments)
        except pydantic.ValidationError as error:
            raise BadArguments("; ".join(map(self._sentence, error.errors(include_url=False)[:5]))) from error
        except RecursionError as error:
            raise BadArguments("the arguments are nested too deeply") from error
        return {self._names[key]: getattr(model, key) for key in self._names if key in model.model_fields_set}

    def _read(self, text: str, arguments: Arguments) -> pydantic.BaseModel:
        """Return the validated arguments.

        In JSON, 5.0 is an integer, and the schema that models read allows it; pydantic's strict mode does not. So
        arguments that are refused are tried again with whole numbers as integers.
        """
        try:
            model: pydantic.BaseModel = self._model.model_validate_json(text)
        except pydantic.ValidationError as error:
            wrong = {str(problem["loc"][0]) for problem in error.errors(include_url=False) if problem["loc"]}
            tried = {name: _with_integers(value) if name in wrong else value for name, value in arguments.items()}
            if to_json(tried) == text:
                raise
            try:
                model = self._model.model_validate_json(to_json(tried))
            except pydantic.ValidationError:
                raise error from None
        return model

    def _sentence(self, error: Any) -> str:
        where = ".".join(map(str, error["loc"]))
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            return _unknown(where, self._names.values())
        if error["type"] == "missing":
            return f"{where!r} is missing"
        message = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ")
        colon = "" if message.startswith("should") else ":"
        return f"{where[:_SHOWN]!r}{colon} {message}, got {_short(error['input'])}"


def check_names(arguments: Arguments, parameters: Schema) -> None:
    """Check only the names of arguments against a JSON schema, for tools that check the values themselves.

    A name that the schema does not list is refused where the schema says so (`additionalProperties: false`, and nothing
    beside `properties` that names arguments), and told where a required argument is missing anyway.

    Raises:
        BadArguments: an argument is unknown, or a required one is missing.
    """
    properties: Schema = parameters.get("properties") or {}
    problems = [f"{name!r} is missing" for name in parameters.get("required") or () if name not in arguments]
    closed = parameters.get("additionalProperties") is False and not any(map(parameters.get, _NAMING))
    if closed or problems:
        problems += [_unknown(name, properties) for name in arguments if name not in properties]
    if problems:
        raise BadArguments("; ".join(problems[:5]))


def without_nulls(schema: Schema) -> dict[str, Any]:
    """Return a JSON schema without keywords that are null, which some servers write for absent ones.

    >>> without_nulls({"required": None, "properties": {"a": {"enum": None, "default": None}}})
    {'properties': {'a': {'default': None}}}
    """
    cleaned = {name: part for name, part in schema.items() if part is not None or name in ("default", "const")}
    for name in ("properties", "$defs", "definitions", "patternProperties"):
        if isinstance(cleaned.get(name), Mapping):
            cleaned[name] = {key: _schema_or_bool(part) for key, part in cleaned[name].items() if part is not None}
    for name in ("items", "additionalProperties", "not", "if", "then", "else", *_COMBINED):
        if name in cleaned:
            part = cleaned[name]
            cleaned[name] = (
                [_schema_or_bool(branch) for branch in part] if isinstance(part, list) else _schema_or_bool(part)
            )
    return cleaned


def _schema_or_bool(part: object) -> object:
    return without_nulls(part) if isinstance(part, Mapping) else part


def _unknown(name: str, names: Iterable[str]) -> str:
    return f"unknown argument {name[:_SHOWN]!r}{suggest(name[:_SHOWN], names)}"


def _source(function: object) -> object:
    """Return the object with the docstring and the hints: the function of a partial, the __call__ of an instance."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = inspect.isroutine(function) or isinstance(function, type) or hasattr(function, "__wrapped__")
    return function if plain else type(function).__call__


def _hints(function: Callable[..., object], name: str) -> dict[str, object]:
    try:
        return get_type_hints(_source(function), include_extras=True)
    except Exception as error:
        raise BadTool(f"{name} cannot be a tool: its type hints cannot be read ({error})") from error


def _parameters(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    try:
        bound = function.keywords if isinstance(function, functools.partial) else {}
        parameters = [each for each in inspect.signature(function).parameters.values() if each.name not in bound]
    except (TypeError, ValueError) as error:
        raise BadTool(f"{name} cannot be a tool: its signature cannot be read ({error})") from error
    for parameter in parameters:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BadTool(
                f"{name} cannot be a tool: its parameter '{parameter}' cannot be passed by name; "
                "use a named parameter with a type hint"
            )
    return parameters


def _schema(model: type[pydantic.BaseModel]) -> dict[str, object]:
    """Return the JSON schema without the titles that pydantic generates."""
    with warnings.catch_warnings():
        # A default without a JSON form is omitted from the schema; the function still uses it.
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
        if "default" in part and not _has_json(part["default"]):
            del part["default"]
    schema.setdefault("properties", {})
    to_json(schema)
    return schema


def _has_json(value: object) -> bool:
    try:
        to_json(value)
    except ValueError:
        return False
    return True


def _with_integers(value: object) -> object:
    """Return JSON data with whole numbers as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {name: _with_integers(part) for name, part in value.items()}
    return [_with_integers(part) for part in value] if isinstance(value, list | tuple) else value


def _short(value: object) -> str:
    return shortened(repr(value), _SHOWN)
