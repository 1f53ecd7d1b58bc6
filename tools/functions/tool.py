"""A tool: its name, its parameters and what it does; usually created from a Python function."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from turncredit.tools.functions.calls import Arguments, Call, Schema, ToolResult
from turncredit.tools.functions.errors import BadArguments, BadTool
from turncredit.tools.functions.runners import CallOutcome, ProcessRunner, ThreadRunner
from turncredit.tools.functions.schema_check import check_arguments
from turncredit.tools.functions.signature import Signature, without_nulls

__all__ = ["BUDGET", "NAME", "SECONDS", "Tool"]

SECONDS: Final = 10.0
"""Default time limit of a call."""
BUDGET: Final = 4000
"""Default limit on the characters of a result."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Valid names of tools, in every format."""

_PARAMETERS: Final = ("parameters", "input_schema", "inputSchema")


def _do_nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Tool:
    """Something that an agent can call.

    Args:
        name: letters, digits, _ and -, at most 64.
        description: what the tool does, for the agent.
        parameters: JSON schema of the arguments, an object.
        validate: JSON arguments -> arguments of `run`; raises BadArguments.
        run: runs the tool within its limits on time and length; never raises.
        close: releases resources, such as a process; may be called twice.

    Raises:
        BadTool: the name is not valid.
    """

    name: str
    description: str
    parameters: Schema
    validate: Callable[[Arguments], Arguments] = field(repr=False)
    run: Callable[[Arguments], CallOutcome] = field(repr=False)
    close: Callable[[], None] = field(repr=False, default=_do_nothing)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise BadTool(f"the name of a tool must be 1 to 64 letters, digits, _ and -, got {self.name!r}")

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        *,
        name: str | None = None,
        description: str | None = None,
        seconds: float | None = SECONDS,
        isolated: bool = False,
        budget: int = BUDGET,
    ) -> Tool:
        """Create a tool from a function with type hints and a docstring, sync or async.

        Args:
            function: called with the arguments by name. An "Args:" section in its docstring describes them.
            name: None: the name of the function.
            description: None: from the docstring.
            seconds: time limit of a call; None: no limit, and a sync function runs in the caller's thread.
            isolated: run the function in a process that is killed when it exceeds the limit. The function must be
                importable, and what it changes stays in that process. Otherwise it runs in a thread, which cannot be
                killed (see `runners`).
            budget: maximum number of characters of a result; the middle of a longer one is cut out.

        Raises:
            BadTool: the function cannot become a tool.
        """
        if not callable(function):
            raise BadTool(f"a tool must be a function, got {function!r}")
        used_name = name if name is not None else _name(function)
        if seconds is not None and not seconds > 0:
            raise BadTool(f"seconds must be > 0 or None, got {seconds!r} for {used_name}")
        if budget < 80:
            raise BadTool(f"budget must be >= 80 characters, got {budget!r} for {used_name}")
        signature = Signature(function, used_name)
        runner = (ProcessRunner if isolated else ThreadRunner)(function, seconds, budget)
        used_description = signature.description if description is None else description
        return cls(used_name, used_description, signature.parameters, signature.validate, runner, runner.close)

    @classmethod
    def from_schema(
        cls,
        schema: Schema,
        function: Callable[..., object],
        *,
        seconds: float | None = SECONDS,
        isolated: bool = False,
        budget: int = BUDGET,
    ) -> Tool:
        """Create a tool from the schema that an API describes it with, and a function that takes its arguments by name.

        Args:
            schema: name, description and the JSON schema of the arguments, under "parameters", "input_schema" or
                "inputSchema"; an entry of OpenAI's "tools", which has them under "function", too.
            function: called with the arguments; it needs no type hints.
            seconds, isolated, budget: see `of`.

        Raises:
            BadTool: the schema has no name or no object of arguments, or the function cannot be used.
        """
        table = schema.get("function", schema)
        name = table.get("name") if isinstance(table, Mapping) else None
        if not isinstance(name, str):
            raise BadTool(f"the schema of a tool needs a name, got {schema!r:.80}")
        if not callable(function):
            raise BadTool(f"{name} needs a function to call, got {function!r}")
        parameters: object = next((table[key] for key in _PARAMETERS if table.get(key) is not None), {})
        if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
            raise BadTool(f"the arguments of {name} must be a JSON schema of the type object, got {parameters!r:.80}")
        runner = (ProcessRunner if isolated else ThreadRunner)(function, seconds, budget)
        clean = {"type": "object", "properties": {}, **without_nulls(parameters)}
        validate = functools.partial(check_arguments, parameters=clean)
        return cls(name, str(table.get("description") or ""), clean, validate, runner, runner.close)

    @property
    def schema(self) -> dict[str, object]:
        """The tool as an entry of OpenAI's "tools"."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    @property
    def main_argument(self) -> str | None:
        """The argument that needs no name in the short form of a call: the only one, or the only required one."""
        names = list(self.parameters.get("properties") or {})
        required = [name for name in self.parameters.get("required") or () if name in names]
        if len(required) == 1:
            return str(required[0])
        return str(names[0]) if len(names) == 1 and not required else None

    def refusal(self, call: Call) -> ToolResult | None:
        """Return the result for invalid arguments, without running the tool; None if they are valid."""
        try:
            self.validate(call.arguments)
        except BadArguments as error:
            return self._refused(call, error)
        return None

    def call(self, call: Call) -> ToolResult:
        """Run the tool and return its result; failures are reported in the result."""
        try:
            values = self.validate(call.arguments)
        except BadArguments as error:
            return self._refused(call, error)
        problem, text = self.run(values)
        if problem == "raised":
            text = f"{self.name} failed: {text}."
        elif problem == "unserialisable":
            text = f"{self.name} was called, but its result cannot be shown ({text})."
        elif problem:
            text = f"{self.name} {text}."
        return ToolResult(self.name, text, problem, call.id)

    def _refused(self, call: Call, error: BadArguments) -> ToolResult:
        text = str(error)
        text = text if text.endswith(("?", ".")) else f"{text}."
        return ToolResult(self.name, f"{self.name} was not called: {text}", "arguments", call.id)


def _name(function: Callable[..., object]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
