"""A tool: a name, what it takes, and what it does; made from a Python function, or by whoever has something to call.

Left out on purpose: sets of tools (`toolbox`) and texts of calls (`forms`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from turnwise.tools.functions.calls import Answer, Call
from turnwise.tools.functions.errors import BadArguments, BadTool
from turnwise.tools.functions.running import Child, Outcome, Threaded
from turnwise.tools.functions.signature import Signature

__all__ = ["BUDGET", "NAME", "SECONDS", "Tool"]

SECONDS: Final = 10.0
"""Default time limit of a call."""
BUDGET: Final = 4000
"""Default most characters of an answer."""
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What a tool may be called, in every form."""


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Tool:
    """Something that an agent can call.

    Args:
        name: of letters, digits, _ and -, at most 64.
        description: what it does, for the agent.
        parameters: JSON schema of its arguments, an object.
        values: from JSON arguments to what `act` takes; raises BadArguments.
        act: does it, within its own limits of time and length; never raises.
        end: frees what it holds (a process, say); may be called twice.

    Raises:
        BadTool: the name cannot be one.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    values: Callable[[Mapping[str, Any]], Mapping[str, Any]] = field(repr=False)
    act: Callable[[Mapping[str, Any]], Outcome] = field(repr=False)
    end: Callable[[], None] = field(repr=False, default=_nothing)

    def __post_init__(self) -> None:
        """Refuse a name that not every form can write."""
        if not NAME.fullmatch(self.name):
            raise BadTool(f"a tool cannot be called {self.name!r}: letters, digits, _ and - are wanted, at most 64")

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        seconds: float | None = SECONDS,
        isolated: bool = False,
        budget: int = BUDGET,
    ) -> Tool:
        """Return the tool of a function with type hints and a docstring, sync or async.

        Args:
            function: it is called with the arguments by name. Its docstring, where it has an "Args:" section, also
                describes them.
            name: None: the function's own.
            description: None: the docstring's.
            seconds: limit of one call; None: no limit, and a sync function is called in the thread of the caller.
            isolated: run it in a process of its own that is killed when it is late. Needs a function of a module; what
                it changes stays in its process. Otherwise it runs in a thread, which nobody can kill (see `running`).
            budget: most characters of an answer; of a longer one, head and tail are kept.

        Raises:
            BadTool: the function cannot be a tool, and why.
        """
        if not callable(function):
            raise BadTool(f"a tool is made of a function; got {function!r}")
        called = name if name is not None else _name(function)
        if seconds is not None and not seconds > 0:
            raise BadTool(f"{called} cannot be a tool: seconds is {seconds!r}; more than 0 was wanted, or None")
        if budget < 80:
            raise BadTool(f"{called} cannot be a tool: budget is {budget!r} characters; 80 or more was wanted")
        signature = Signature(function, called)
        runner = Child(function, seconds, budget) if isolated else Threaded(function, seconds, budget)
        told = signature.description if description is None else description
        return cls(called, told, signature.parameters, signature.values, runner, runner.close)

    @property
    def schema(self) -> dict[str, Any]:
        """The tool as an entry of OpenAI's "tools"."""
        function = {"name": self.name, "description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": function}

    @property
    def main(self) -> str | None:
        """The argument that may stand alone in a short form: the only one, or the only one required."""
        known = list(self.parameters.get("properties", {}))
        required = [name for name in self.parameters.get("required", ()) if name in known]
        if len(required) == 1:
            return str(required[0])
        return str(known[0]) if len(known) == 1 and not required else None

    def refusal(self, call: Call) -> Answer | None:
        """Return the answer to arguments that the tool does not take; None when it takes them."""
        try:
            self.values(call.arguments)
        except BadArguments as error:
            return self._refused(call, error)
        return None

    def call(self, call: Call) -> Answer:
        """Return the answer to a call; whatever goes wrong is an answer that says so."""
        try:
            values = self.values(call.arguments)
        except BadArguments as error:
            return self._refused(call, error)
        problem, text = self.act(values)
        if problem == "raised":
            text = f"{self.name} failed: {text}."
        elif problem == "unserialisable":
            text = f"{self.name} was called, but what it returned cannot be written down ({text})."
        elif problem:
            text = f"{self.name} {text}."
        return Answer(self.name, text, problem, call.id)

    def _refused(self, call: Call, error: BadArguments) -> Answer:
        return Answer(self.name, f"{self.name} was not called: {_stopped(str(error))}", "arguments", call.id)


def _stopped(sentence: str) -> str:
    return sentence if sentence.endswith(("?", ".")) else f"{sentence}."


def _name(function: Callable[..., Any]) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))
