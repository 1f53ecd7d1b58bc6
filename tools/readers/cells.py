"""Cells of tables that hold a list as text."""

from __future__ import annotations

import ast
from typing import Final

from turncredit.tools.bounded_input import parse_json

__all__ = ["list_in_cell"]

_LONGEST_LIST: Final = 100_000  # characters of a list that is written as Python


def list_in_cell(value: object) -> object:
    """Return the list in a string such as '["a", "b"]', which tables hold; any other value unchanged."""
    if not isinstance(value, str) or not (value.startswith("[") and value.endswith("]")):
        return value
    for parse in (lambda text: parse_json(text, "it"), _python):
        try:
            items: object = parse(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(items, list | tuple) and all(isinstance(item, str) for item in items):
            return list(items)
    return value


def _python(text: str) -> object:
    return ast.literal_eval(text) if len(text) <= _LONGEST_LIST else text
