"""What `turncredit credit` prints about several rules side by side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from turncredit.cli.console import out
from turncredit.cli.printing.tables import say_key, say_wrapped
from turncredit.report.credit_comparison import COUNTS
from turncredit.report.number_text import percent
from turncredit.report.table_columns import CORRELATION, CREDIT

if TYPE_CHECKING:
    from turncredit.agents.steps import Anchor
    from turncredit.report.credit_comparison import RuleComparison, RuleStatistics, TrajectoryFacts

_BELOW = {"step_signal", "dropped", "spread", "least", "most", *(key for key in COUNTS if not key.endswith("groups"))}
"""Rows that belong to the one above."""
_CELL = 11


def print_comparison(comparison: RuleComparison, settings: Sequence[str], anchor: Anchor) -> None:
    """Print facts, statistics and correlations of the rules."""
    console = out()
    for line in settings:
        console.print(line, style="dim", soft_wrap=True)
    for line in _sentences(comparison.facts, anchor):
        say_wrapped(line, indent="  ")
    console.print()
    same_as = comparison.same_as
    names = [name for name in comparison.numbers if same_as[name] == name]
    columns = max(1, (console.width - 25) // (_CELL + 1))
    rows = _rows([comparison.numbers[name] for name in names])
    parts = [names[begin : begin + columns] for begin in range(0, len(names), columns)]
    for part in parts:
        console.print(_statistics_table({name: comparison.numbers[name] for name in part}, rows))
        console.print()
    say_key(CREDIT[key] for key in rows)
    console.print()
    for name in names:
        equal = [other for other, first in same_as.items() if first == name != other]
        if equal:
            say_wrapped(f"the same numbers as {name}: {', '.join(equal)}.", "dim")
    if len(names) > 1:
        for part in parts:
            console.print(_correlation_table(comparison, names, part))
            console.print()
        say_key(CORRELATION.values())
    if comparison.verdict:
        say_wrapped(comparison.verdict, "bold")


def _sentences(facts: TrajectoryFacts, anchor: Anchor) -> list[str]:
    failed = f"; {facts.failed} ended in an error and are excluded" if facts.failed else ""
    keys = {"state": "states", "observation": "texts", "history": "histories"}[anchor]
    return [
        f"{facts.trajectories} trajectories in {facts.groups} groups, {facts.won} won, {facts.turns} turns{failed}",
        f"groups of one: {facts.groups_of_one}; zero-variance groups: {facts.groups_with_equal_rewards} "
        "(the table below counts rewards after the penalty for invalid actions)",
        f"{facts.states} {keys}, {facts.shared_states} of them seen by several trajectories of their group: "
        f"{percent(facts.turns_in_shared_states / facts.turns)} of the turns",
        f"texts shared by several states: {facts.ambiguous_texts}, in {facts.ambiguous_turns} turns "
        "(only --anchor state separates them)",
        f"states seen under several texts: {facts.varying_states}, in {facts.varying_turns} turns "
        "(only --anchor state joins them)",
    ]


def _table_of(names: Sequence[str], head: str = "") -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(head, min_width=24, max_width=24)
    for name in names:
        table.add_column(name, justify="right", min_width=_CELL, overflow="fold")
    return table


def _counted(key: str) -> Callable[[RuleStatistics], str]:
    """Return what writes a count that not all rules report."""

    def cell(rule: RuleStatistics) -> str:
        return f"{rule.report[key]:.0f}" if key in rule.report else "-"

    return cell


_CELLS: Mapping[str, Callable[[RuleStatistics], str]] = {
    "signal": lambda n: percent(n.signal),
    "step_signal": lambda n: percent(n.step_signal),
    "dropped": lambda n: str(n.dropped),
    **{key: _counted(key) for key in COUNTS},
    "mean": lambda n: f"{n.mean:+.3f}",
    "spread": lambda n: f"{n.spread:.3f}",
    "least": lambda n: f"{n.least:+.3f}",
    "most": lambda n: f"{n.most:+.3f}",
}
"""Rows of the table of statistics."""


def _rows(rules: Sequence[RuleStatistics]) -> list[str]:
    """Return the rows in which a rule has a number."""
    absent = {key for key in COUNTS if not any(key in rule.report for rule in rules)}
    if not any(rule.dropped for rule in rules):
        absent.add("dropped")
    return [key for key in _CELLS if key not in absent]


def _statistics_table(numbers: Mapping[str, RuleStatistics], rows: Sequence[str]) -> Table:
    table = _table_of(list(numbers))
    for key in rows:
        title = f"{'  ' if key in _BELOW else ''}{CREDIT[key].head}"
        table.add_row(title, *(_CELLS[key](rule) for rule in numbers.values()))
    return table


def _correlation_table(comparison: RuleComparison, rows: Sequence[str], columns: Sequence[str]) -> Table:
    table = _table_of(columns, CORRELATION["correlation"].head)
    for rule in rows:
        values = [comparison.correlation[rule][name] for name in columns]
        table.add_row(rule, *("-" if value is None else f"{value:+.3f}" for value in values))
    return table
