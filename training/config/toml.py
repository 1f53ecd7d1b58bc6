"""Writing tables as TOML, which the standard library can only read.

Not included: dates, comments, and arrays of tables over several lines.
"""

from collections.abc import Iterator
from datetime import date, time
from typing import Any

from turncredit.tools.visible_text import encodable

Table = dict[str, Any]
"""Nested tables with string keys and TOML values."""


def render(table: Table, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of a table as TOML: its own keys first, then its tables.

    Args:
        table: nested tables with string keys and TOML values.
        path: the keys that lead to the table; empty for a whole file.
    """
    if path:
        yield f"\n[{'.'.join(_key(part) for part in path)}]\n"
    for key, value in table.items():
        if not isinstance(value, dict):
            yield f"{_key(key)} = {literal(value)}\n"
    for key, value in table.items():
        if isinstance(value, dict):
            yield from render(value, (*path, key))


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else literal(name)


def literal(value: object) -> str:
    """Return a value in TOML syntax; a table is written in one line.

    Args:
        value: a string, number, bool, list or mapping.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = encodable(value)
        special = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
        return '"' + "".join(special.get(c, c if c >= " " and c != "\x7f" else f"\\u{ord(c):04x}") for c in value) + '"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(literal(item) for item in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(k)} = {literal(v)}" for k, v in value.items()) + "}"
    return repr(value) if isinstance(value, int | float) else str(value)


def without_dates(value: object) -> object:
    """Return a value of TOML with dates and times as texts, in lists and tables too.

    >>> without_dates({"date": date(2026, 1, 31)})
    {'date': '2026-01-31'}
    """
    if isinstance(value, dict):
        return {key: without_dates(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_dates(item) for item in value]
    return value.isoformat() if isinstance(value, date | time) else value
