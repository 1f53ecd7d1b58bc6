"""A set of tools with different names: their schemas, their description for an agent, and calling them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Self

from turncredit.registry import suggest
from turncredit.tools.functions.calls import Call, ToolResult
from turncredit.tools.functions.errors import BadTool
from turncredit.tools.functions.formats import call_format
from turncredit.tools.functions.tool import BUDGET, SECONDS, Tool

__all__ = ["Toolbox"]

_NAMESPACE: Final = "functions."


class Toolbox:
    """Tools by name, in the given order.

    Args:
        tools: tools, or functions to create tools from with `Tool.of`.
        seconds: time limit of a call, for functions.
        budget: maximum number of characters of a result, for functions.

    Raises:
        BadTool: a function cannot become a tool, or two tools have the same name.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., object]],
        *,
        seconds: float | None = SECONDS,
        budget: int = BUDGET,
    ) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            tool = item if isinstance(item, Tool) else Tool.of(item, seconds=seconds, budget=budget)
            if tool.name in self._tools:
                raise BadTool(f"two tools are named {tool.name!r}; pass another name= for one of them")
            self._tools[tool.name] = tool

    def __iter__(self) -> Iterator[Tool]:
        """Yield the tools."""
        return iter(self._tools.values())

    def __len__(self) -> int:
        """Return the number of tools."""
        return len(self._tools)

    def __contains__(self, name: object) -> bool:
        """Return whether a tool has that name."""
        return name in self._tools

    def __getitem__(self, name: str) -> Tool:
        """Return a tool by name.

        Raises:
            BadTool: no tool has that name.
        """
        if name not in self._tools:
            raise BadTool(f"unknown tool {name!r}{suggest(name, self._tools)}")
        return self._tools[name]

    @property
    def names(self) -> list[str]:
        """The names of the tools."""
        return list(self._tools)

    def schemas(self) -> list[dict[str, object]]:
        """Return the tools as a list for OpenAI's "tools" or for a chat template."""
        return [tool.schema for tool in self]

    def describe(self, format_name: str = "tags") -> str:
        """Return what an agent needs to know to call the tools in a format.

        Raises:
            UnknownFormat: no format has that name.
        """
        return call_format(format_name).describe(list(self))

    def refusal(self, call: Call) -> ToolResult | None:
        """Return the result for an unknown tool or invalid arguments, without running the tool; None if valid."""
        tool = self._named(call.name)
        return self._unknown(call) if tool is None else tool.refusal(call)

    def call(self, call: Call) -> ToolResult:
        """Run a call and return its result; failures are reported in the result, and nothing is raised."""
        tool = self._named(call.name)
        return self._unknown(call) if tool is None else tool.call(call)

    def close(self) -> None:
        """Release resources of the tools (processes, servers); closing twice has no effect."""
        for tool in self:
            tool.close()

    def __enter__(self) -> Self:
        """Return the toolbox."""
        return self

    def __exit__(self, *raised: object) -> None:
        """Close the toolbox."""
        self.close()

    def _named(self, name: str) -> Tool | None:
        """Return the tool of a call; some models write the namespace of their template before its name."""
        return self._tools.get(name, self._tools.get(name.removeprefix(_NAMESPACE)))

    def _unknown(self, call: Call) -> ToolResult:
        text = f"unknown tool {call.name[:80]!r}{suggest(call.name[:80], self._tools)}"
        return ToolResult(call.name, text if text.endswith("?") else f"{text}.", "unknown", call.id)
