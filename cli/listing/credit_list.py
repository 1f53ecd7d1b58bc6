"""`turncredit list credit`: the credit rules with what a reader needs to choose one, as a table that fits the terminal.

Piped, it is one plain line per rule, for `grep` and `sort`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from turncredit.cli.console import out, piped, say

if TYPE_CHECKING:
    from turncredit.credit import CreditRule

_COLUMNS = ("name", "arXiv", "evidence", "needs", "title", "use")
_WIDE = 120
_COLOURS = {"reference code": "green", "paper": "", "our reading": "yellow"}


def print_rules() -> None:
    """Print every credit rule, ours and those of installed packages."""
    from turncredit.credit import rules

    listed = list(rules().values())
    if piped():
        for line in plain(listed):
            say(line)
        return
    width = out().width
    out().print(wide(listed) if width >= _WIDE else narrow(listed))
    for line in explanation(listed):
        out().print(line, style="dim")


def explanation(rules: Iterable[CreditRule]) -> list[str]:
    """Return lines that say what the columns of the table mean, and where the columns that rules need come from."""
    from turncredit.agents.steps import COLUMNS as PLAYED
    from turncredit.credit.columns import COLUMNS

    needed = dict.fromkeys(column for rule in rules for column in rule.needs)
    extra = [f"{name} ({COLUMNS[name].meaning})" for name in needed if name not in PLAYED and name in COLUMNS]
    return [
        "evidence: what the formula was checked against. needs: columns beside task, trajectory, turn and reward.",
        f"Every rollout has {', '.join(name for name in needed if name in PLAYED)}. An environment or a sampler adds "
        f"the others as extras: {', '.join(extra)}.",
    ]


def _cells(rule: CreditRule) -> tuple[str, ...]:
    return rule.name, rule.arxiv or "-", rule.evidence, ", ".join(rule.needs) or "-", rule.title, rule.use


def plain(rules: Iterable[CreditRule]) -> list[str]:
    """Return one line per rule with its fields in columns, below a line with the names of the columns."""
    rows = [_COLUMNS, *(_cells(rule) for rule in rules)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return ["  ".join(f"{cell:<{w}}" for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def wide(rules: Iterable[CreditRule]) -> Table:
    """Return a table with a column for each field."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), header_style="bold")
    for name, ratio in zip(_COLUMNS, (None, None, None, 2, 4, 7), strict=True):
        table.add_column(name, no_wrap=ratio is None, ratio=ratio, overflow="fold")
    for rule in rules:
        name, arxiv, evidence, *others = _cells(rule)
        table.add_row(Text(name, "bold"), arxiv, Text(evidence, _COLOURS.get(evidence, "")), *others)
    table.expand = True
    return table


def narrow(rules: Iterable[CreditRule]) -> Table:
    """Return a table of two columns: the name, and everything else below it."""
    table = Table(box=None, padding=(0, 1, 1, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", ratio=1)
    for rule in rules:
        name, arxiv, evidence, needs, title, use = _cells(rule)
        about = Text(f"{title}\n").append(f"arXiv {arxiv} · ", "dim").append(evidence, _COLOURS.get(evidence) or "dim")
        about.append(f" · needs {needs}\n" if rule.needs else "\n", "dim").append(use)
        table.add_row(Text(name, "bold"), about)
    return table
