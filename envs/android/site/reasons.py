"""The reasons of a verdict as sentences for people: apps by name, rows without their empty columns."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["for_people"]

_ROW: Final = re.compile(r"(?P<package>[\w.]+)\.(?P<table>\w+)(?P<what>:? [^{]*?)(?P<row>\{.*\})?", re.DOTALL)
_SHORT: Final = 80  # characters of a value


def for_people(reason: str, apps: Mapping[str, str]) -> str:
    """Return a reason of the judge in words.

    Args:
        reason: one of `Verdict.reasons`.
        apps: package -> name.

    >>> for_people("com.clock.alarms: row 1 has changed: {'enabled': (0, 1)}", {"com.clock": "Clock"})
    'Side effect in Clock: an entry of alarms has changed: enabled from 0 to 1'
    >>> for_people("com.clock.alarms has no new row with {'time': '23:05'}", {"com.clock": "Clock"})
    'Clock has no new entry of alarms with time 23:05'
    """
    match = _ROW.fullmatch(reason)
    if match is None or match["package"] not in apps:
        unasked = re.match(r"the (setting|file) .* (is now .*|is gone|has changed)$", reason, re.DOTALL)
        return f"Side effect: {reason}" if unasked else reason[:1].upper() + reason[1:]
    app, table, finding = apps[match["package"]], match["table"], match["what"].strip(" :")
    row = f" {_columns(match['row'])}" if match["row"] else ""
    if finding == "has no new row with":
        return f"{app} has no new entry of {table} with{row}"
    if finding == "has a new row":
        return f"Side effect in {app}: a new entry of {table}:{row}"
    if finding == "has lost the row":
        return f"Side effect in {app}: an entry of {table} is gone:{row}"
    if finding.endswith("has changed"):
        return f"Side effect in {app}: an entry of {table} has changed:{row}"
    if finding.endswith("has not become"):
        return f"{app}: the entry of {table} has not become{row}"
    return f"{app}, {table}: {finding}{row}"


def _columns(text: str) -> str:
    """Return the columns of a row that say something; a text that is no row stays as it is."""
    try:
        row = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return text
    told = [f"{name} {_value(value)}" for name, value in row.items() if name != "_id" and value not in ("", None)]
    return ", ".join(told) or "an empty one"


def _value(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return f"from {_value(value[0])} to {_value(value[1])}"
    text = str(value) if value != "" else "nothing"
    return text if len(text) <= _SHORT else f"{text[:_SHORT]}…"
