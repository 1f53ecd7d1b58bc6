"""Tables in the terminal: rows and columns, and below them one line that says what the columns mean."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable

from rich.table import Table

from turncredit.cli.console import out
from turncredit.report.table_columns import TableColumn, key_text


def say_wrapped(text: str, style: str = "", indent: str = "") -> None:
    """Print a text, wrapped at words; without a terminal, at the width of its lines there."""
    console = out()
    width = max(20, console.width)
    lines = textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    for line in lines:
        console.print(line, style=style or None, soft_wrap=True)


def say_key(columns: Iterable[TableColumn], *further: str) -> None:
    """Print what the columns of the table above mean, wrapped at words.

    Args:
        columns: those of the table.
        further: sentences at the end.
    """
    say_wrapped(key_text(columns, *further), "dim")


def print_table(table: Table, columns: Iterable[TableColumn], *further: str) -> None:
    """Print a table, and what its columns mean."""
    out().print(table)
    say_key(columns, *further)
