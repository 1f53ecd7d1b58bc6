"""A set of tools with names that are told apart: their schemas, their description for an agent, and calling them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from turnwise.tools.functions.calls import Answer, Call
from turnwise.tools.functions.errors import BadTool, near
from turnwise.tools.functions.forms import form
from turnwise.tools.functions.tool import BUDGET, SECONDS, Tool

__all__ = ["Toolbox"]


class Toolbox:
    """Tools by name, in the order given.

    Args:
        tools: tools, or functions that become tools as `Tool.of` makes them.
        seconds: time limit of a call, for those that are functions.
        budget: most characters of an answer, for those that are functions.

    Raises:
        BadTool: a function cannot be a tool, or a name is there twice.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]],
        *,
        seconds: float | None = SECONDS,
        budget: int = BUDGET,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for given in tools:
            tool = given if isinstance(given, Tool) else Tool.of(given, seconds=seconds, budget=budget)
            if tool.name in self._tools:
                raise BadTool(f"two tools are called {tool.name!r}; give one of them another name=")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """How many tools there are."""
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        """Whether there is a tool of that name."""
        return name in self._tools

    def __getitem__(self, name: str) -> Tool:
        """Return a tool by name.

        Raises:
            BadTool: there is none; the near names are in the message.
        """
        if name not in self._tools:
            raise BadTool(f"no tool {name!r}: {near(name, self._tools)}")
        return self._tools[name]

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return list(self._tools)

    def schemas(self) -> list[dict[str, Any]]:
        """Return the tools in the form of OpenAI's "tools", as chat templates and interfaces take them."""
        return [tool.schema for tool in self]

    def describe(self, form_name: str = "tags") -> str:
        """Return what an agent has to know to call the tools in a form: for its first observation.

        Raises:
            UnknownForm: there is no such form.
        """
        return form(form_name).describe(list(self))

    def refusal(self, call: Call) -> Answer | None:
        """Return the answer to a call that nothing would be done for (no such tool, arguments); None otherwise."""
        tool = self._tools.get(call.name)
        if tool is None:
            text = f"There is no tool {call.name[:80]!r}: {near(call.name, self._tools)}"
            return Answer(call.name, text if text.endswith("?") else f"{text}.", "unknown", call.id)
        return tool.refusal(call)

    def call(self, call: Call) -> Answer:
        """Return the answer to a call; whatever goes wrong is an answer that says so, and nothing is raised."""
        tool = self._tools.get(call.name)
        if tool is None:
            answer = self.refusal(call)
            assert answer is not None
            return answer
        return tool.call(call)

    def close(self) -> None:
        """Free what the tools hold: processes of isolated functions, servers. A second time does nothing."""
        for tool in self:
            tool.end()

    def __enter__(self) -> Self:
        """Return the box itself; leaving the block closes it."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close."""
        self.close()
