"""What `turncredit credit` prints about several rules side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from turncredit.cli.console import out
from turncredit.report.number_text import percent

if TYPE_CHECKING:
    from turncredit.agents.steps import Anchor
    from turncredit.report.credit_comparison import RuleComparison, RuleStatistics, TrajectoryFacts

_REPORTED = {
    "groups": "groups",
    "groups_of_one": "  of one",
    "groups_without_spread": "  zero variance",
    "step_groups": "state groups",
    "step_groups_of_one": "  of one",
    "step_groups_without_spread": "  zero variance",
}
_CELL = 11


def print_comparison(comparison: RuleComparison, settings: Sequence[str], anchor: Anchor) -> None:
    """Print facts, statistics and correlations of the rules."""
    console = out()
    for line in settings:
        console.print(line, style="dim", soft_wrap=True)
    for line in _sentences(comparison.facts, anchor):
        console.print(textwrap.fill(line, console.width, subsequent_indent="  "), soft_wrap=True)
    console.print()
    names = list(comparison.numbers)
    columns = max(1, (console.width - 24) // (_CELL + 1))
    for begin in range(0, len(names), columns):
        console.print(_statistics_table({name: comparison.numbers[name] for name in names[begin : begin + columns]}))
        console.print()
    if len(names) > 1:
        console.print("correlation of the advantages over turns", style="dim")
        for begin in range(0, len(names), columns):
            console.print(_correlation_table(comparison, names[begin : begin + columns]))
            console.print()


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


def _table_of(names: Sequence[str]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("", no_wrap=True, min_width=22)
    for name in names:
        table.add_column(name, justify="right", min_width=_CELL, overflow="fold")
    return table


def _statistics_table(numbers: Mapping[str, RuleStatistics]) -> Table:
    table = _table_of(list(numbers))

    def row(title: str, cell: Callable[[RuleStatistics], str]) -> None:
        table.add_row(title, *(cell(n) for n in numbers.values()))

    row("turns with an advantage", lambda n: percent(n.signal))
    row("  with step-level signal", lambda n: percent(n.step_signal))
    if any(n.dropped for n in numbers.values()):
        row("  dropped from the loss", lambda n: str(n.dropped))
    for key, title in _REPORTED.items():
        if any(key in n.report for n in numbers.values()):
            row(title, lambda n, key=key: f"{n.report[key]:.0f}" if key in n.report else "-")  # type: ignore[misc]
    row("mean advantage", lambda n: f"{n.mean:+.3f}")
    row("  standard deviation", lambda n: f"{n.spread:.3f}")
    row("  minimum", lambda n: f"{n.least:+.3f}")
    row("  maximum", lambda n: f"{n.most:+.3f}")
    return table


def _correlation_table(comparison: RuleComparison, columns: Sequence[str]) -> Table:
    table = _table_of(columns)
    for rule, row in comparison.correlation.items():
        table.add_row(rule, *("-" if row[two] is None else f"{row[two]:+.3f}" for two in columns))
    return table
