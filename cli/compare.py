"""`turncredit compare`: two results on the same panel, or two cards of a benchmark, task by task."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from turncredit.cli.console import out, say, say_json
from turncredit.cli.errors import UserError
from turncredit.cli.evaluate import describe_kwargs, rate_row
from turncredit.cli.printing.tables import print_table, say_wrapped
from turncredit.report.number_text import percent
from turncredit.report.table_columns import CARD_COMPARISON, EVAL, filled
from turncredit.tools.bounded_input import InputError, read_json

if TYPE_CHECKING:
    from turncredit.evaluation.benchmark_card import Card, CardComparison
    from turncredit.evaluation.comparison import Comparison
    from turncredit.evaluation.results import EvaluationResult


def compare(
    first: Annotated[
        Path, typer.Argument(metavar="A.json", help="Result of `turncredit eval --output`, or the card of a benchmark.")
    ],
    second: Annotated[Path, typer.Argument(metavar="B.json", help="Another result on the same panels.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")] = False,
) -> None:
    """Compare two results on the same panels, task by task: is the difference more than noise?"""
    cards = [_is_card(path) for path in (first, second)]
    if cards[0] != cards[1]:
        raise UserError(f"{first if cards[0] else second} is a card, and the other file is not")
    content = _compare_cards(first, second, as_json) if cards[0] else _compare_results(first, second, as_json)
    if as_json:
        say_json(content)


def _is_card(path: Path) -> bool:
    """Return whether a file looks like a card; loading reports a file that is not JSON."""
    try:
        content = read_json(path)
    except InputError:
        return False
    return isinstance(content, dict) and "cards" in content


def _compare_results(first: Path, second: Path, as_json: bool) -> dict[str, object]:
    from turncredit.evaluation.comparison import compare as compare_results
    from turncredit.evaluation.results import EvaluationResult

    a, b = EvaluationResult.load(first), EvaluationResult.load(second)
    comparison = compare_results(a, b)
    if not as_json:
        print_comparison(a, b, comparison)
    return _content(comparison)


def _compare_cards(first: Path, second: Path, as_json: bool) -> dict[str, object]:
    from turncredit.evaluation.benchmark_card import Card, compare_cards

    a, b = Card.load(first), Card.load(second)
    comparison = compare_cards(a, b)
    if not as_json:
        print_card_comparison(a, b, comparison)
    return {
        "overall": _content(comparison.overall),
        "panels": {
            name: {**_content(result), "p_holm": comparison.holm[name]} for name, result in comparison.panels.items()
        },
        "left_out": dict(comparison.left_out),
    }


def _content(comparison: Comparison) -> dict[str, object]:
    return {**asdict(comparison), "verdict": comparison.verdict}


def _names(first: str, second: str) -> tuple[str, str]:
    names = (first or "first", second or "second")
    return (f"{names[0]} (first)", f"{names[1]} (second)") if names[0] == names[1] else names


def print_comparison(first: EvaluationResult, second: EvaluationResult, comparison: Comparison) -> None:
    """Print two results side by side, and whether they differ."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    table.add_column("")
    for column in EVAL.values():
        table.add_column(column.head, justify="right")
    names = _names(first.name, second.name)
    for name, rate in zip(names, (comparison.first, comparison.second), strict=True):
        table.add_row(*rate_row(name, rate))
    console = out()
    console.print(f"{first.panel.env} {describe_kwargs(first.panel)}, paired over {comparison.unit}", soft_wrap=True)
    print_table(table, EVAL.values())
    _say_verdict(comparison)


def _say_verdict(comparison: Comparison) -> None:
    say_wrapped(comparison.verdict, "bold green" if comparison.p_success < comparison.alpha else "bold yellow")


def print_card_comparison(first: Card, second: Card, comparison: CardComparison) -> None:
    """Print two cards panel by panel, and whether they differ overall."""
    names = _names(first.name, second.name)
    tasks, _, *numbers = (column.head for column in CARD_COMPARISON.values())
    table = Table(box=None, padding=(0, 1), header_style="dim")
    table.add_column("", no_wrap=True)
    for title in (tasks, *names, *numbers):
        table.add_column(title, justify="right")
    for name, result in comparison.panels.items():
        table.add_row(name, *_cells(result), _p(comparison.holm[name]))
    table.add_row("all tasks", *_cells(comparison.overall), "", style="bold")
    print_table(table, filled(CARD_COMPARISON, first=names[0], second=names[1]).values())
    for name, reason in comparison.left_out.items():
        say(f"  {name} is left out: {reason}", "dim")
    _say_verdict(comparison.overall)


def _cells(comparison: Comparison) -> tuple[str, ...]:
    values = [rate.value or 0.0 for rate in (comparison.first, comparison.second)]
    points = f"{100 * (values[1] - values[0]):+.1f}"
    counts = (str(comparison.only_first), str(comparison.only_second))
    return str(comparison.pairs), *(percent(value) for value in values), points, *counts, _p(comparison.p_success)


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"
