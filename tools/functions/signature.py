"""From the signature of a function to a JSON schema, and from JSON arguments to the values that it takes.

Validation is pydantic's, strict as JSON is read: "3" is no int and 1 is no bool, while an int is a float, and a date,
an enum, a set or a dataclass comes as JSON has it. Defaults stay the function's own.

What a functools.partial has bound by name is no argument of the tool.

Left out on purpose: *args, **kwargs and positional-only parameters. A schema has names.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

import pydantic
from pydantic.json_schema import PydanticJsonSchemaWarning

from turnwise.tools.functions.calls import json_text
from turnwise.tools.functions.docstring import read_docstring
from turnwise.tools.functions.errors import BadArguments, BadTool, near

__all__ = ["Signature", "names_fit"]

_SHOWN: Final = 80


class Signature:
    """What a function takes: `description`, `parameters` (JSON schema of an object), and the check of arguments."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        """Read the type hints and the docstring.

        Raises:
            BadTool: a parameter without type hint, one that has no name in a call, or a type without a JSON form.
        """
        self.description, lines = read_docstring(_source(function).__doc__)
        fields: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        hints = _hints(function, name)
        for number, parameter in enumerate(_parameters(function, name)):
            if parameter.name not in hints:
                raise BadTool(
                    f"{name} cannot be a tool: its parameter {parameter.name!r} has no type hint; write "
                    f"'{parameter.name}: str', say"
                )
            default: Any = ... if parameter.default is parameter.empty else parameter.default
            # A field has a name of ours, since pydantic refuses some that a parameter may have.
            key = f"p{number}"
            self._names[key] = parameter.name
            told = pydantic.Field(default, alias=parameter.name, description=lines.get(parameter.name))
            fields[key] = (hints[parameter.name], told)
        try:
            config = pydantic.ConfigDict(extra="forbid", strict=True)
            self._model = pydantic.create_model("Arguments", __config__=config, **fields)
            self.parameters = _schema(self._model)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise BadTool(f"{name} cannot be a tool: its types have no JSON form ({reason})") from error

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that the function takes, those that were given.

        Raises:
            BadArguments: what is wrong, all of it in one sentence.
        """
        try:
            text = json_text(dict(arguments))
        except (TypeError, ValueError) as error:
            raise BadArguments(f"the arguments are no JSON object: {error}") from error
        try:
            made = self._model.model_validate_json(text)
        except pydantic.ValidationError as error:
            raise BadArguments("; ".join(map(self._sentence, error.errors(include_url=False)[:5]))) from error
        except RecursionError as error:
            raise BadArguments("the arguments are nested too deep") from error
        return {self._names[key]: getattr(made, key) for key in self._names if key in made.model_fields_set}

    def _sentence(self, error: Any) -> str:
        where = ".".join(map(str, error["loc"]))
        if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
            return f"no argument {where[:_SHOWN]!r}: {near(where, self._names.values())}"
        if error["type"] == "missing":
            return f"{where!r} is missing"
        message = str(error["msg"]).removeprefix("Input ").removeprefix("Value error, ")
        return f"{where[:_SHOWN]!r}: {message}, got {_short(error['input'])}"


def names_fit(arguments: Mapping[str, Any], parameters: Mapping[str, Any]) -> None:
    """Check the names of arguments by a JSON schema alone, where whoever has the tool checks the values.

    Raises:
        BadArguments: an argument that the schema does not have, or one missing that it requires.
    """
    known = parameters.get("properties", {})
    problems = [f"{name!r} is missing" for name in parameters.get("required", ()) if name not in arguments]
    if parameters.get("additionalProperties", False) is False:
        problems += [f"no argument {name[:_SHOWN]!r}: {near(name, known)}" for name in arguments if name not in known]
    if problems:
        raise BadArguments("; ".join(problems[:5]))


def _source(function: Any) -> Any:
    """Return what has the docstring and the hints: of a partial what it is made of, of an object its __call__."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = inspect.isroutine(function) or isinstance(function, type) or hasattr(function, "__wrapped__")
    return function if plain else type(function).__call__


def _hints(function: Callable[..., Any], name: str) -> dict[str, Any]:
    try:
        return get_type_hints(_source(function), include_extras=True)
    except Exception as error:
        raise BadTool(f"{name} cannot be a tool: its type hints cannot be read ({error})") from error


def _parameters(function: Callable[..., Any], name: str) -> list[inspect.Parameter]:
    try:
        bound = function.keywords if isinstance(function, functools.partial) else {}
        found = [each for each in inspect.signature(function).parameters.values() if each.name not in bound]
    except (TypeError, ValueError) as error:
        raise BadTool(f"{name} cannot be a tool: it has no signature that can be read ({error})") from error
    for parameter in found:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise BadTool(
                f"{name} cannot be a tool: its parameter '{parameter}' has no name in a call; name it, with a type hint"
            )
    return found


def _schema(model: type[pydantic.BaseModel]) -> dict[str, Any]:
    """Return the JSON schema without the titles that pydantic makes up."""
    with warnings.catch_warnings():
        # A default without a JSON form is left out of the schema; the function still has it.
        warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
        schema = model.model_json_schema(by_alias=True)
    schema.pop("title", None)
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
        if "default" in part and not _is_json(part["default"]):
            del part["default"]
    schema.setdefault("properties", {})
    json_text(schema)
    return schema


def _is_json(value: Any) -> bool:
    try:
        json_text(value)
    except ValueError:
        return False
    return True


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
