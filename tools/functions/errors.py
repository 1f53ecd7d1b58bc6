"""What can go wrong with tools before an agent uses them, as one tree, and how near names are told.

    ToolError
    ├── BadTool         a function that cannot become a tool, or two tools of one name
    ├── BadArguments    arguments that a tool does not take; the agent is told the sentence
    ├── BadCall         a call that cannot be written in a form
    ├── UnknownForm     no surface form of that name
    └── ServerFailed    an MCP server that does not start, or the package for it is missing

What goes wrong while an agent uses a tool is no exception: it is an `Answer` that says so.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

__all__ = ["BadArguments", "BadCall", "BadTool", "ServerFailed", "ToolError", "UnknownForm", "near"]


class ToolError(Exception):
    """Root of what a user can meet with tools; its text is one sentence for that user."""


class BadTool(ToolError):
    """A function that cannot become a tool, or a set of tools that cannot be told apart."""


class BadArguments(ToolError):
    """Arguments that a tool does not take."""


class BadCall(ToolError):
    """A call that cannot be written in the form that was asked for."""


class UnknownForm(ToolError):
    """There is no surface form of that name."""


class ServerFailed(ToolError):
    """An MCP server that does not start, does not answer at its start, or cannot be spoken to."""


def near(wanted: str, known: Iterable[str]) -> str:
    """Return the end of a sentence: the near names to `wanted`, else what there is.

    >>> near("serch", ["search", "answer"])
    "did you mean 'search'?"
    >>> near("x", ["search", "answer"])
    "there are 'search', 'answer'"
    """
    names = list(known)
    close = difflib.get_close_matches(wanted[:200], names, n=2, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(map(repr, close)) + "?"
    shown = ", ".join(map(repr, names[:12])) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
    return f"there are {shown}" if names else "there are none"
