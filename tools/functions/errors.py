"""Exceptions of tools.

    ToolError
    ├── BadTool          a function that cannot become a tool, or two tools with the same name
    ├── BadArguments     arguments that a tool does not accept; the agent reads the message
    ├── BadCall          a call that cannot be written in a format
    ├── UnknownFormat    no call format has that name
    └── ServerFailed     an MCP server does not start, or its package is missing

Failures while an agent uses a tool are not exceptions: they are reported in a `ToolResult`.
"""

from __future__ import annotations

__all__ = ["BadArguments", "BadCall", "BadTool", "ServerFailed", "ToolError", "UnknownFormat"]


class ToolError(Exception):
    """Base class of all tool errors; the message is one sentence for the user."""


class BadTool(ToolError):
    """A function that cannot become a tool, or two tools with the same name."""


class BadArguments(ToolError):
    """Arguments that a tool does not accept."""


class BadCall(ToolError):
    """A call that cannot be written in the requested format."""


class UnknownFormat(ToolError):
    """No call format has that name."""


class ServerFailed(ToolError):
    """An MCP server that does not start or does not list its tools."""
