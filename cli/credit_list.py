"""`turnwise list credit`: the estimators with what one needs to choose among them, as a table that fits the terminal.

Piped, it is one plain line an estimator, so that `grep` and `sort` can be used on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from turnwise.cli.console import out, piped, say

if TYPE_CHECKING:
    from turnwise.credit import CreditRule

_COLUMNS = ("name", "arXiv", "evidence", "needs", "title", "use")
_WIDE = 120
_COLOURS = {"reference code": "green", "paper": "", "our reading": "yellow"}


def print_rules() -> None:
    """Print every estimator, ours and those of installed packages."""
    from turnwise.credit import rules

    entries = list(rules().values())
    if piped():
        for line in plain(entries):
            say(line)
        return
    width = out().width
    out().print(wide(entries) if width >= _WIDE else narrow(entries))
    say(
        "needs: columns beyond task, trajectory, turn and reward. evidence: what the formula was checked against.",
        "dim",
    )


def _cells(entry: CreditRule) -> tuple[str, ...]:
    return entry.name, entry.arxiv or "-", entry.evidence, ", ".join(entry.needs) or "-", entry.title, entry.use


def plain(entries: Iterable[CreditRule]) -> list[str]:
    """Return one line an estimator, its fields in columns, under a line with the columns' names."""
    rows = [_COLUMNS, *(_cells(entry) for entry in entries)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def wide(entries: Iterable[CreditRule]) -> Table:
    """Return a table with a column for each field."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    for name, ratio in zip(_COLUMNS, (None, None, None, 2, 4, 7), strict=True):
        table.add_column(name, no_wrap=ratio is None, ratio=ratio, overflow="fold")
    for entry in entries:
        name, arxiv, evidence, *rest = _cells(entry)
        table.add_row(Text(name, "bold"), arxiv, Text(evidence, _COLOURS.get(evidence, "")), *rest)
    table.expand = True
    return table


def narrow(entries: Iterable[CreditRule]) -> Table:
    """Return a table of two columns: the name, and everything else below one another."""
    table = Table(box=None, padding=(0, 1, 1, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for entry in entries:
        name, arxiv, evidence, needs, title, use = _cells(entry)
        about = Text(f"{title}\n").append(f"arXiv {arxiv} · ", "dim").append(evidence, _COLOURS.get(evidence) or "dim")
        about.append(f" · needs {needs}\n" if entry.needs else "\n", "dim").append(use)
        table.add_row(Text(name, "bold"), about)
    return table
