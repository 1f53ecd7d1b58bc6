"""`turnwise credit`: stored trajectories under several credit rules side by side, and a task's graph as a picture.

Advantages are computed here from the file; they are not stored with the trajectories.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from turnwise.cli.console import out, say, say_json, warn
from turnwise.cli.options import Trust, parse_options
from turnwise.cli.show import CREDIT_HELP, ITERATION_HELP, PATH_HELP
from turnwise.report.credit_comparison import RULES, compare_rules
from turnwise.report.credit_picture import check_picture, most_instructive, save_picture
from turnwise.report.credit_settings import credit_settings
from turnwise.report.number_text import percent
from turnwise.report.stored_groups import read_groups, require_turns

if TYPE_CHECKING:
    from turnwise.agents.steps import Anchor
    from turnwise.report.credit_comparison import RuleComparison, RuleStatistics, TrajectoryFacts

_REPORTED = {
    "groups": "groups",
    "groups_of_one": "  of one",
    "groups_without_spread": "  zero variance",
    "step_groups": "state groups",
    "step_groups_of_one": "  of one",
    "step_groups_without_spread": "  zero variance",
}
_CELL = 11


def credit(
    path: Annotated[Path, typer.Argument(metavar="PATH", help=PATH_HELP)],
    options: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Options for the rules that have them.")
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option("--credit", metavar="A,B,...", help=CREDIT_HELP.format(f"{RULES} and the run's")),
    ] = None,
    anchor: Annotated[
        str | None,
        typer.Option(help="What makes two turns comparable: state, observation or history. Default: the run's."),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only tasks whose id contains this text.")] = None,
    iteration: Annotated[int | None, typer.Option(min=0, help=ITERATION_HELP)] = None,
    picture: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="Draw a task as .svg or .html, or write its graph as .graphml, .dot, .json."),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="Format of the picture: full, or column (3.3 inches wide, .svg or .pdf).")
    ] = "full",
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
    trust: Trust = False,
) -> None:
    """Compare credit rules on stored trajectories: where each sees a difference, and where they agree.

    Rules, options and the anchor default to those of the run that the trajectories belong to.
    """
    from turnwise.training.run_folder.paths import trajectory_file

    file = trajectory_file(path, iteration)
    settings = credit_settings(file, rules, parse_options(options), anchor, RULES)
    if picture is not None:
        check_picture(picture, form)
    groups = read_groups(file, task)
    require_turns(groups, file)
    comparison = compare_rules(groups, settings)
    for reason in comparison.left_out.values():
        warn(f"left out: {reason}")
    number = most_instructive(groups)
    if picture is not None:  # before printing, so that `| head` does not prevent it
        save_picture(picture, form, groups, number, comparison, settings.anchor)
    if as_json:
        say_json({"file": str(file), "settings": settings.as_dict(), **comparison.as_dict()})
        return
    _print(comparison, [str(file), *settings.describe()], settings.anchor)
    if picture is None:
        words = [*(options or ()), *(["--credit", rules] if rules else []), *(["--anchor", anchor] if anchor else [])]
        words += ["--task", task] if task else []
        say(
            f"to draw a task: {shlex.join(['turnwise', 'credit', str(file), *words, '--picture', 'graph.html'])}", "dim"
        )
    else:
        say(f"task {groups[number].task} drawn: {picture}")


def _print(comparison: RuleComparison, settings: Sequence[str], anchor: Anchor) -> None:
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
    for one, row in comparison.correlation.items():
        table.add_row(one, *("-" if row[two] is None else f"{row[two]:+.3f}" for two in columns))
    return table
