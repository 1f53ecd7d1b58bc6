"""A card in the terminal, and as Markdown with a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from turncredit.cli.console import out, say, warn
from turncredit.cli.evaluate import effort
from turncredit.cli.printing.tables import say_key
from turncredit.report.errors import ReportError
from turncredit.report.number_text import count, duration, percent
from turncredit.report.table_columns import BENCH, EFFORT, TableColumn, filled, markdown_key
from turncredit.tools.visible_text import escaped

if TYPE_CHECKING:
    from turncredit.evaluation.benchmark_card import Card, CardPanel
    from turncredit.evaluation.results import EvaluationResult, EvaluationSummary

Rows = list[list[str]]
NOTHING = "-"
WORDS = {"unavailable": "not available", "unplayable": "not playable by this player", "played": "errors"}
"""Status of a panel, for notes."""


def scale_of(card: Card, scale: Sequence[Card]) -> list[str]:
    """Return the names of the other players that played one of the card's panels, in order, without its own."""
    names = dict.fromkeys(other.name for other in scale if any(other.result_of(panel.digest) for panel in card.panels))
    return [name for name in names if name != card.name]


def success_rows(card: Card, scale: Sequence[Card]) -> Rows:
    """Return a header, a row of success for each panel, and their mean, as cells of a table.

    Args:
        card: the result.
        scale: cards of other players, whose success on the same panels stands beside it.
    """
    names = scale_of(card, scale)
    rows = [[*_heads(BENCH, "others"), *names]]
    for panel in card.panels:
        if panel.result is None:
            continue
        summary = panel.result.summary()
        beside = [_success(_result_of(scale, name, panel)) for name in names]
        rows.append([panel.name, str(summary.success.n), *_rate(summary), _number(summary.score, "{:.3f}"), *beside])
    mean = card.mean()
    if mean is not None and len(card.played) > 1:
        value, low, high = mean
        beside = [_mean(card, scale, name) for name in names]
        interval = f"{100 * low:.1f} to {100 * high:.1f}"
        rows.append([f"mean of {len(card.played)}", "", percent(value), interval, "", *beside])
    return rows


def _heads(columns: Mapping[str, TableColumn], without: str = "") -> list[str]:
    return [column.head for key, column in columns.items() if key != without]


def success_columns(card: Card, scale: Sequence[Card]) -> list[TableColumn]:
    """Return the columns of the table of success."""
    names = scale_of(card, scale)
    return [column for key, column in filled(BENCH, others=", ".join(names)).items() if names or key != "others"]


def effort_rows(card: Card) -> Rows:
    """Return a header and a row for each panel: turns, shares of bad answers, tokens, seconds and cost of a task."""
    rows = [_heads(EFFORT)]
    for panel in card.panels:
        if panel.result is None:
            continue
        summary = panel.result.summary()
        shares = [NOTHING if share is None else percent(share) for share in _shares(summary)]
        more = "" if summary.counted is None or summary.counted >= 1 else f" ({percent(summary.counted)} known)"
        numbers = (summary.prompt_tokens, summary.response_tokens)
        tokens = [NOTHING if number is None else count(number) + more for number in numbers]
        seconds = panel.result.seconds / max(1, len(panel.result.rows))
        priced = "" if summary.priced is None or summary.priced >= 1 else f" ({percent(summary.priced)} known)"
        cost = NOTHING if summary.cost is None else _few_digits(summary.cost) + priced
        rows.append([panel.name, _number(summary.turns, "{:.1f}"), *shares, *tokens, _few_digits(seconds), cost])
    return rows


def _few_digits(value: float) -> str:
    """Return a number >= 0 with about two digits, and whole from 100 on."""
    return f"{value:.2g}" if value < 1 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _shares(summary: EvaluationSummary) -> tuple[float | None, ...]:
    return summary.unparsable, summary.inadmissible, summary.truncated


def _rate(summary: EvaluationSummary) -> tuple[str, str]:
    rate = summary.success
    if rate.value is None:
        return NOTHING, ""
    return percent(rate.value), f"{100 * rate.low:.1f} to {100 * rate.high:.1f}"


def _number(value: float | None, form: str) -> str:
    return NOTHING if value is None else form.format(value)


def _result_of(scale: Sequence[Card], name: str, panel: CardPanel) -> EvaluationResult | None:
    results = (other.result_of(panel.digest) for other in scale if other.name == name)
    return next((result for result in results if result is not None), None)


def _value(result: EvaluationResult | None) -> float | None:
    return None if result is None else result.summary().success.value


def _success(result: EvaluationResult | None) -> str:
    value = _value(result)
    return NOTHING if value is None else percent(value)


def _mean(card: Card, scale: Sequence[Card], name: str) -> str:
    """Return the mean success of another player on the panels that the card played, if it played all of them."""
    played = [panel for panel in card.panels if panel.result in card.played]
    results = [_result_of(scale, name, panel) for panel in played]
    values = [_value(result) for result in results]
    rates = [value for value in values if value is not None]
    return percent(sum(rates) / len(rates)) if len(rates) == len(played) else NOTHING


def notes(card: Card) -> list[str]:
    """Return a line for each reason why panels were not played, had errors, or had answers without a text."""
    panels: dict[str, list[str]] = {}
    for panel in card.panels:
        if panel.reason:
            panels.setdefault(f"{WORDS[panel.status]}: {panel.reason}", []).append(panel.name)
        for kind in ("refused", "empty"):
            rows = () if panel.result is None else panel.result.rows
            if number := sum(getattr(row, kind) for row in rows):
                note = f"{number} of {sum(row.turns for row in rows)} answers were {kind}"
                panels.setdefault(note, []).append(panel.name)
    return [f"{', '.join(names)}: {reason}" for reason, names in panels.items()]


def print_card(card: Card, scale: Sequence[Card]) -> None:
    """Print a card as two tables and its notes."""
    say()
    say(f"{card.name} on the suite {card.suite}", "bold")
    success = success_rows(card, scale)
    if len(success) > 1:
        _print_table(success)
        say_key(success_columns(card, scale))
        say()
        _print_table(effort_rows(card))
        say_key(EFFORT.values())
    for panel, text in _efforts(card):
        say(f"  {panel}: {text}", "dim")
    for note in notes(card):
        say(f"  {note}", "dim")


def _efforts(card: Card) -> list[tuple[str, str]]:
    """Return what is known of speed and memory, as (panel, text)."""
    played = [(panel.name, panel.result) for panel in card.panels if panel.result is not None]
    return [(name, text) for name, result in played for text in effort(result)]


def _print_table(rows: Rows) -> None:
    """Print a table, the first column on the left."""
    table = Table(box=None, padding=(0, 1), header_style="dim")
    for number, title in enumerate(rows[0]):
        table.add_column("" if number == 0 else title, justify="left" if number == 0 else "right", no_wrap=True)
    for row in rows[1:]:
        table.add_row(*row, style="bold" if row[1] == "" else None)
    out().print(table)


def write_card(card: Card, scale: Sequence[Card], folder: Path, name: str = "card") -> None:
    """Write NAME.json, NAME.md, and with matplotlib NAME.svg into a folder.

    Raises:
        OSError: a file cannot be written.
    """
    card.save(folder / f"{name}.json")
    picture = ""
    if card.played:
        try:
            _draw(card, scale, folder / f"{name}.svg")
            picture = f"{name}.svg"
        except ReportError as error:
            warn(f"no picture: {error}")
    from turncredit.agents.files.json_files import write_text

    write_text(folder / f"{name}.md", markdown(card, scale, picture))


def _draw(card: Card, scale: Sequence[Card], path: Path) -> None:
    from turncredit.report.bench_picture import save_picture

    panels = [panel for panel in card.panels if panel.result in card.played]
    rates = {panel.name: panel.result.summary().success for panel in panels if panel.result is not None}
    marks = {name: [_value(_result_of(scale, name, panel)) for panel in panels] for name in scale_of(card, scale)}
    save_picture(card.name, rates, marks, path)


def markdown(card: Card, scale: Sequence[Card], picture: str = "") -> str:
    """Return a card as Markdown.

    Args:
        card: the result.
        scale: cards of other players that stand beside it.
        picture: name of a picture to show, or "".
    """
    parts = [f"# {card.name}: suite {card.suite}"]
    if card.about.get("suite"):
        parts.append(f"{card.about['suite']}.")
    if picture:
        parts.append(f"![Success of {card.name} on each panel]({picture})")
    if card.played:
        key = markdown_key(success_columns(card, scale)).rstrip()
        parts += ["## Success", _markdown_table(success_rows(card, scale)), key]
        parts += [
            "## Turns, tokens and time",
            _markdown_table(effort_rows(card)),
            markdown_key(EFFORT.values()).rstrip(),
        ]
        parts += ["\n".join(f"- {panel}: {line}" for panel, line in _efforts(card))]
    if lines := notes(card):
        parts += ["## Not in the table", "\n".join(f"- {escaped(line, keep='')}" for line in lines)]
    if any(panel.result for panel in card.panels):
        parts += ["## Panels", _markdown_table(_panel_rows(card), "---"), _PANELS]
    parts += ["## How it was made", _facts(card)]
    return "\n\n".join(part for part in parts if part) + "\n"


_PANELS = (
    "Each task is played once. `turncredit compare A.json B.json` compares two cards on panels with equal digests."
)


def _panel_rows(card: Card) -> Rows:
    rows = [
        ["panel", "environment", "arguments", "tasks", "digest", "prompt", "parser", "turns", "tokens", "temperature"]
    ]
    for panel in card.panels:
        if panel.result is None:
            continue
        settings = panel.result.settings
        history = settings.get("history")
        prompt = f"{settings.get('prompt')}({history})" if history is not None else str(settings.get("prompt"))
        kwargs = " ".join(f"{key}={value}" for key, value in panel.result.panel.kwargs.items())
        cells = [prompt, *(str(settings.get(key)) for key in ("parser", "max_turns", "max_tokens", "temperature"))]
        size = str(len(panel.result.panel.tasks))
        rows.append([panel.name, panel.env, f"`{kwargs}`" if kwargs else "", size, f"`{panel.digest}`", *cells])
    return rows


def _facts(card: Card) -> str:
    about = card.about
    lines = [f"- command: `{about['command']}`"] if about.get("command") else []
    if about.get("finished"):
        seconds = sum(panel.result.seconds for panel in card.panels if panel.result is not None)
        lines.append(f"- finished {about['finished']}, after {duration(seconds)} of play")
    for key in ("versions", "machine", "options"):
        if about.get(key):
            text = ", ".join(f"{name} {value}" for name, value in about[key].items())
            lines.append(f"- {key}: {text}")
    return "\n".join(lines)


def _markdown_table(rows: Rows, align: str = "---:") -> str:
    head, *body = rows
    lines = [head, ["---", *[align] * (len(head) - 1)], *body]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
