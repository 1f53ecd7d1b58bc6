"""The results of an ablation as Markdown, as a figure, and as a table for the terminal.

The input is the table of `turncredit.ablation.results`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from turncredit.report.figures import Estimate, save_curves_and_dots
from turncredit.report.number_text import duration
from turncredit.report.plots import Curve
from turncredit.report.table_columns import (
    ABLATION,
    BY_SEED,
    DIAGNOSTICS,
    TESTS,
    TESTS_NOTE,
    TableColumn,
    filled,
    markdown_key,
)

if TYPE_CHECKING:
    from turncredit.ablation.results import ResultTable

SMOOTH = 10
"""Training curves are averaged over one in this many of their iterations."""


def per_cent(value: float | None) -> str:
    """Return a share as a percentage, or a dash for None."""
    return "–" if value is None else f"{100 * value:.1f}"


def interval(mean: ResultTable, *, signed: bool = False, bounded: bool = False) -> str:
    """Return a mean with its interval in per cent, or in percentage points if it is `signed`."""
    if mean["value"] is None:
        return "–"
    text = f"{100 * mean['value']:+.1f}" if signed else per_cent(mean["value"])
    if mean["low"] is None:
        return text
    low, high = (max(0.0, mean["low"]), min(1.0, mean["high"])) if bounded else (mean["low"], mean["high"])
    return f"{text} [{100 * low:{'+' if signed else ''}.1f}, {100 * high:{'+' if signed else ''}.1f}]"


def p_value(p: float) -> str:
    """Return a p-value with three decimals, or as a bound."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def rows(results: ResultTable) -> list[tuple[str, ...]]:
    """Return the rows of the main table: the shared warm start, then the arms in their order."""
    verdicts = {comparison["arm"]: comparison for comparison in results["comparisons"]}
    lines: list[tuple[str, ...]] = []
    for name, arm in [("(warm start)", results["warm_start"]), *results["arms"].items()]:
        pooled, comparison = arm["pooled"], verdicts.get(name)
        lines.append(
            (
                name,
                interval(arm["success"], bounded=True),
                str(arm["success"]["n"]),
                f"{interval(pooled)} ({pooled['k']}/{pooled['n']})",
                "" if name == "(warm start)" else interval(arm["gain"], signed=True),
                "" if comparison is None else interval(comparison["difference"], signed=True),
                "" if comparison is None else comparison["verdict"],
            )
        )
    return lines


def ablation_verdict(results: ResultTable) -> str:
    """Return in a sentence or two which arms differ from the reference beyond the noise."""
    reference, comparisons = next(iter(results["arms"])), results["comparisons"]
    if not comparisons:
        return "No arm has finished a seed that the reference finished too, so nothing is compared."
    beyond = [pair for pair in comparisons if pair["verdict"].endswith("beyond the noise")]
    policies = [pair["arm"] for pair in comparisons if pair["verdict"].endswith("these policies differ")]
    seeds = max(len(pair["seeds"]) for pair in comparisons)
    sentences = [
        f"{pair['arm']} is {pair['verdict'].partition(',')[0]} than {reference} beyond the noise: "
        f"{interval(pair['difference'], signed=True)} points."
        for pair in beyond
    ]
    if not beyond:
        noise = "one seed says nothing about training again" if seeds == 1 else f"{seeds} seeds"
        sentences.append(f"No arm differs from {reference} beyond the noise of training ({noise}).")
    if policies:
        sentences.append(
            f"These policies differ from it on other tasks, but may not if trained again: {', '.join(policies)}."
        )
    return " ".join(sentences)


def left_out_note(results: ResultTable) -> str:
    """Return a sentence about the evaluated episodes that failed, and so are in no rate; "" if there are none."""
    arms = [("(warm start)", results["warm_start"]), *results["arms"].items()]
    failed = [f"{arm['left_out']} of {name}" for name, arm in arms if arm.get("left_out")]
    return f"Episodes that failed are in no rate: {', '.join(failed)}." if failed else ""


def terminal_table(results: ResultTable) -> Table:
    """Return the main table for the terminal."""
    return plain_table([column.head for column in main_columns(results)], rows(results), left={0, 6})


def plain_table(head: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[int]) -> Table:
    """Return a table for the terminal without lines, whose cells are folded where it is narrow.

    Args:
        head: names of the columns.
        lines: rows of cells.
        left: indices of the columns that are aligned to the left.
    """
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number in left else "right", overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table


def main_columns(results: ResultTable) -> list[TableColumn]:
    """Return the columns of the main table."""
    return list(filled(ABLATION, reference=next(iter(results["arms"]))).values())


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    cells = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in cells) + "\n"


def markdown(results: ResultTable, picture: str = "") -> str:
    """Return the results as Markdown, with an explanation of each number."""
    panel, packages = results["panel"], results["packages"]
    tasks = len(panel.get("tasks", ()))
    parts = ["# Ablation\n"]
    if results["command"]:
        parts.append(f"```sh\n{results['command']}\n```\n")
    parts.append(
        f"{len(results['arms'])} arms, seeds {', '.join(map(str, results['seeds']))}. All arms of a seed start from "
        f"the same warm start, and all are evaluated on the same {tasks} tasks of `{panel.get('env', '?')}`, one "
        f"episode each. {_time(results)}\n"
    )
    notes = [*results["remarks"], *_unfinished(results)]
    parts += ["".join(f"- {note}\n" for note in notes)] if notes else []
    parts.append("## Success after training, in per cent\n")
    parts.append(_explained(main_columns(results), rows(results)))
    parts.append(f"**{ablation_verdict(results)}**\n")
    parts += [f"{note}\n"] if (note := left_out_note(results)) else []
    if results["comparisons"]:
        tests = [_tests(comparison) for comparison in results["comparisons"]]
        parts += ["## Tests\n", _explained(TESTS.values(), tests, TESTS_NOTE)]
    if picture:
        parts.append(f"![success while training and after it]({picture})\n")
    parts += ["## Diagnostics, in per cent\n", _diagnostics(results)]
    parts += ["## Seed by seed\n", _by_seed(results)]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    parts.append(f"Python {results['python']}, {versions}; {results['platform']}.\n")
    return "\n".join(parts)


def _explained(columns: Iterable[TableColumn], lines: Sequence[Sequence[str]], *further: str) -> str:
    """Return a table in Markdown, and what its columns mean."""
    shown = list(columns)
    return f"{grid([column.head for column in shown], lines)}\n{markdown_key(shown, *further)}"


def _time(results: ResultTable) -> str:
    calls = results["calls"]
    text = f"{duration(results['seconds'])} of work, summed over runs"
    if not calls:
        return f"{text}."
    clock, most = sum(call["seconds"] for call in calls), max(call["workers"] for call in calls)
    often = f" in {len(calls)} calls" if len(calls) > 1 else ""
    return f"{text}; {duration(clock)} of wall time{often}, {most} {'runs' if most > 1 else 'run'} at a time."


def _unfinished(results: ResultTable) -> list[str]:
    return [
        f"**{name}, seed {seed}: {entry['state']}**, excluded from all numbers below"
        for name, arm in [("warm start", results["warm_start"]), *results["arms"].items()]
        for seed, entry in arm["seeds"].items()
        if entry["state"] != "finished"
    ]


def _tests(comparison: ResultTable) -> list[str]:
    by_seed = "; ".join(f"{s['only_first']} / {s['only_second']} ({p_value(s['p'])})" for s in comparison["seeds"])
    several = len(comparison["seeds"]) > 1
    over = [
        p_value(comparison["p_seeds"]),
        p_value(comparison["p_seeds_holm"]),
        f"{p_value(comparison['p_flips'])} ({comparison['smallest']:.3g})",
    ]
    return [
        comparison["arm"],
        by_seed,
        p_value(comparison["p_tasks"]),
        p_value(comparison["p_tasks_holm"]),
        *(over if several else "–––"),
    ]


def _diagnostics(results: ResultTable) -> str:
    shares = [key for key in DIAGNOSTICS if key not in ("arm", "turns")]
    lines = []
    for name, arm in results["arms"].items():
        measured = arm["diagnostics"]
        length = "–" if measured["turns"] is None else f"{measured['turns']:.1f}"
        lines.append([name, *(per_cent(measured[key]) for key in shares), length])
    return _explained(DIAGNOSTICS.values(), lines)


def _by_seed(results: ResultTable) -> str:
    head = ["seed", "warm start", *results["arms"]]
    everyone = [results["warm_start"], *results["arms"].values()]
    lines = []
    for seed in map(str, results["seeds"]):
        entries = [arm["seeds"][seed] for arm in everyone]
        lines.append([seed, *(per_cent(e["success"]["value"]) if "success" in e else e["state"] for e in entries)])
    return f"{grid(head, lines)}\n{markdown_key(BY_SEED.values())}"


# ---- the figure ----


def short_labels(names: Sequence[str]) -> dict[str, str]:
    """Return a short label for each arm: keys without their section, and without the parts that all arms share.

    >>> short_labels(["gigpo:train.lr=1e-4", "grpo:train.lr=1e-4"])
    {'gigpo:train.lr=1e-4': 'gigpo', 'grpo:train.lr=1e-4': 'grpo'}
    >>> short_labels(["mine:by_time", "mine:by_time:gamma=0.9"])
    {'mine:by_time': 'mine:by_time', 'mine:by_time:gamma=0.9': 'gamma=0.9'}
    """
    parts = {name: [_without_section(part) for part in _parts(name)] for name in names}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    labels = {name: " ".join(part for part in own if part not in shared) or own[0] for name, own in parts.items()}
    return labels if len(set(labels.values())) == len(names) else {name: name for name in names}


def _parts(name: str) -> list[str]:
    """Return the values and settings in the name of an arm, also of crossed axes: "anchor=state, lr=1e-3"."""
    from turncredit.ablation.arm_grammar import parse_arm, parse_axis
    from turncredit.training.errors import ConfigError

    try:
        arms = [parse_arm(word) for word in parse_axis(name)]
    except ConfigError:  # an ablation of an older version
        return [name]
    return [part for arm in arms for part in (arm.value, *(f"{key}={value}" for key, value in arm.settings))]


def _without_section(part: str) -> str:
    key, equals, value = part.partition("=")
    return f"{key.rpartition('.')[2]}{equals}{value}" if equals and key.replace(".", "_").isidentifier() else part


def training_curves(results: ResultTable) -> tuple[str, list[Curve]]:
    """Return a title, and success while training: each arm's mean over its finished seeds, with a band of one error."""
    labels, window, curves, count = short_labels(list(results["arms"])), 1, [], 0
    for name, arm in results["arms"].items():
        series = [_series(entry["training"]) for entry in _finished(arm)]
        if series and any(series):
            window, count = max(1, max(map(len, series)) // SMOOTH), max(count, len(series))
            curves.append(_mean_curve(labels[name], [_smoothed(values, window) for values in series]))
    smooth = f", mean of {window} iterations" if window > 1 else ""
    return f"while training{smooth} ({_seeds(count)}, ± standard error)", curves


def estimates(results: ResultTable) -> tuple[str, list[Estimate]]:
    """Return a title, and each arm's success after training with its interval and the success of every seed."""
    labels, rows, count = short_labels(list(results["arms"])), [], 0
    for name, arm in results["arms"].items():
        mean, done = arm["success"], _finished(arm)
        if mean["value"] is None or not done:
            continue
        count = max(count, len(done))
        ends = arm["pooled"] if mean["low"] is None else mean  # Wilson's interval for a single seed
        low, high = ends["low"], ends["high"]
        seeds = tuple(entry["success"]["value"] for entry in done)
        rows.append(Estimate(labels[name], mean["value"], max(0.0, low), min(1.0, high), seeds))
    tasks = len(results["panel"].get("tasks", ()))
    return f"after training ({tasks} tasks, {_seeds(count)}, 95 % interval)", rows


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"


def _finished(arm: ResultTable) -> list[ResultTable]:
    return [entry for entry in arm["seeds"].values() if entry["state"] == "finished"]


def save_figure(results: ResultTable, path: Path) -> None:
    """Write success while training and after it as a figure; a dotted line marks the warm start.

    Raises:
        ReportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    (left, curves), (right, rows) = training_curves(results), estimates(results)
    start = results["warm_start"]["success"]["value"]
    save_curves_and_dots(curves, rows, path, titles=(left, right), x_label="iteration", reference=start)


def _series(entry: ResultTable) -> dict[int, float]:
    return {int(x): y for x, y in zip(entry["iteration"], entry["success"], strict=True) if y is not None}


def _smoothed(series: Mapping[int, float], window: int) -> dict[int, float]:
    """Return the mean of the last `window` values at each iteration, of fewer at the beginning."""
    xs = sorted(series)
    last = {x: [series[other] for other in xs[max(0, i - window + 1) : i + 1]] for i, x in enumerate(xs)}
    return {x: sum(values) / len(values) for x, values in last.items()}


def _mean_curve(name: str, series: Sequence[Mapping[int, float]]) -> Curve:
    """Return the mean over seeds at the iterations that all of them have, plus and minus its standard error.

    Where all seeds agree the error is unknown, and the ends are NaN: a gap in the band.
    """
    from turncredit.evaluation.seed_statistics import Mean

    xs = sorted(set.intersection(*(set(values_of_seed) for values_of_seed in series)))
    means = [Mean.of([values_of_seed[x] for values_of_seed in series]) for x in xs]
    at, values = tuple(map(float, xs)), tuple(mean.value or 0.0 for mean in means)
    errors = [math.nan if mean.error is None else mean.error for mean in means]
    if all(map(math.isnan, errors)):
        return Curve(name, at, values)
    low = tuple(error if math.isnan(error) else max(0.0, y - error) for y, error in zip(values, errors, strict=True))
    high = tuple(error if math.isnan(error) else min(1.0, y + error) for y, error in zip(values, errors, strict=True))
    return Curve(name, at, values, low, high)
