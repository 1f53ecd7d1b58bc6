"""When a path is right at the end of a file-system task, and when an answer is.

Not included: imports of ours or of other packages, since the tests of tasks that are written as Harbor folders take
this file along, and run where only Python is.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Protocol

__all__ = ["ComparedNode", "path_is_right", "same_answer"]


class ComparedNode(Protocol):
    """A file, folder or symbolic link; the `data` of a link is its target."""

    @property
    def kind(self) -> str:
        """One of "file", "folder" and "link"."""
        ...

    @property
    def mode(self) -> int:
        """Permission bits."""
        ...

    @property
    def data(self) -> bytes:
        """Content of a file, target of a link."""
        ...


def path_is_right(
    node: ComparedNode | None,
    goal: ComparedNode | None,
    before: ComparedNode | None,
    *,
    modes: bool = False,
    contents: Callable[[bytes], dict[str, bytes] | None] | None = None,
) -> bool:
    """Return whether a path is as the task requires it.

    Args:
        node: what is there at the end; None for nothing.
        goal: what is required; None for nothing.
        before: what was there at the start.
        modes: whether modes are compared.
        contents: for a path that is an archive: returns the files in it, None if it cannot be read.
    """
    if goal is None:
        return node is None or node.kind == "folder"
    if goal.kind == "folder":
        return node.kind == "folder" if node else before is not None
    if node is None or node.kind != goal.kind:
        return False
    if modes and node.mode != goal.mode:
        return False
    if contents is not None:
        return (files := contents(node.data)) is not None and files == contents(goal.data)
    if node.data == goal.data:
        return True
    return before != goal and node.data.removesuffix(b"\n") == goal.data.removesuffix(b"\n")


def same_answer(answer: str, expected: str) -> bool:
    """Return whether an answer is right, ignoring whitespace, surrounding quotes and the notation of numbers.

    >>> same_answer(" `1,200` ", "1200"), same_answer("12 files", "12")
    (True, False)
    """
    answer = " ".join(answer.split()).strip("`'\"").removeprefix("./").strip()
    if answer == expected:
        return True
    number = _number(expected)
    return number is not None and _number(answer.replace(",", "")) == number


def _number(text: str) -> Decimal | None:
    if len(text) > 40 or not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+)?", text):
        return None
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
