"""An ablation's results for people: Markdown, a picture, and the table that the terminal shows.

All of it is made of the table of `turnwise.training.ablation_results`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from turnwise.cli.console import duration
from turnwise.cli.plots import Chart, Curve

HEAD = ("arm", "mean over seeds", "seeds", "all episodes", "gain above the warm start", "against {}", "verdict")
SMOOTH = 10
"""The share of iterations that a curve of training is averaged over is one in this many."""


def per_cent(value: float | None) -> str:
    """A share as a number of per cent; a dash where there is none."""
    return "–" if value is None else f"{100 * value:.1f}"


def interval(mean: Mapping[str, Any], *, signed: bool = False, bounded: bool = False) -> str:
    """A mean with its interval, in per cent (in points where it is `signed`)."""
    if mean["value"] is None:
        return "–"
    text = f"{100 * mean['value']:+.1f}" if signed else per_cent(mean["value"])
    if mean["low"] is None:
        return text
    low, high = (max(0.0, mean["low"]), min(1.0, mean["high"])) if bounded else (mean["low"], mean["high"])
    return f"{text} [{100 * low:{'+' if signed else ''}.1f}, {100 * high:{'+' if signed else ''}.1f}]"


def p_value(p: float) -> str:
    """A p-value with three decimals, or as a bound."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def rows(found: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """The main table's rows, the shared warm start first, then the arms in their order."""
    verdicts = {one["arm"]: one for one in found["comparisons"]}
    lines: list[tuple[str, ...]] = []
    for name, arm in [("(warm start)", found["warm_start"]), *found["arms"].items()]:
        pooled, one = arm["pooled"], verdicts.get(name)
        lines.append(
            (
                name,
                interval(arm["success"], bounded=True),
                str(arm["success"]["n"]),
                f"{interval(pooled)} ({pooled['k']}/{pooled['n']})",
                "" if name == "(warm start)" else interval(arm["gain"], signed=True),
                "" if one is None else interval(one["difference"], signed=True),
                "" if one is None else one["verdict"],
            )
        )
    return lines


def terminal_table(found: Mapping[str, Any]) -> Table:
    """The main table for the terminal."""
    table = Table(box=None, padding=(0, 2), header_style="dim")
    for number, name in enumerate(_head(found)):
        table.add_column(name, justify="left" if number in {0, 6} else "right")
    for line in rows(found):
        table.add_row(*line)
    return table


def _head(found: Mapping[str, Any]) -> list[str]:
    reference = next(iter(found["arms"]))
    return [name.format(reference) for name in HEAD]


def grid(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    cells = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in cells) + "\n"


def markdown(found: Mapping[str, Any], picture: str = "") -> str:
    """The results as Markdown, with what each number means."""
    panel, packages = found["panel"], found["packages"]
    tasks = len(panel.get("tasks", ()))
    parts = ["# Ablation\n"]
    if found["command"]:
        parts.append(f"```sh\n{found['command']}\n```\n")
    parts.append(
        f"{len(found['arms'])} arms, seeds {', '.join(map(str, found['seeds']))}. Every arm of a seed begins with the "
        f"same warm start, and all play the same {tasks} tasks of `{panel.get('env', '?')}` after training, one "
        f"episode each. {_time(found)}\n"
    )
    notes = [*found["remarks"], *_unfinished(found)]
    parts += ["".join(f"- {note}\n" for note in notes)] if notes else []
    parts.append("## Success after training, in per cent\n")
    parts.append(grid(_head(found), rows(found)))
    parts.append(LEGEND.format(reference=next(iter(found["arms"]))))
    if found["comparisons"]:
        parts += ["## Tests\n", grid(TEST_HEAD, [_tests(one) for one in found["comparisons"]]), TESTS]
    if picture:
        parts.append(f"![success against iterations]({picture})\n")
    parts += ["## What the rules had to work with, in per cent\n", _diagnostics(found), DIAGNOSED]
    parts += ["## Seed by seed\n", _by_seed(found)]
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    parts.append(f"Python {found['python']}, {versions}; {found['platform']}.\n")
    return "\n".join(parts)


LEGEND = """\
*Mean over seeds*: the mean of the seeds' success rates with a 95 % t-interval: what to expect of another seed on these
tasks. *All episodes*: the episodes of all seeds together with Wilson's 95 % interval (won/played): what to expect of
these policies on more tasks; it does not know that seeds differ. *Gain* and *against {reference}*: points, paired by
seed, with a 95 % t-interval over seeds. The verdict is that of the corrected tests below at 5 %.
"""
TEST_HEAD = (
    "arm",
    "seed by seed: only reference / only arm won (McNemar p)",
    "over tasks",
    "Holm",
    "over seeds",
    "Holm",
    "sign flips over seeds (smallest possible)",
)
TESTS = """\
Two-sided p-values. *McNemar*: exact, within one seed, on the same tasks; not corrected. *Over tasks*: sign-flip
permutation, all seeds' differences of a task flipped together: would these policies differ on other tasks? *Over
seeds*: paired t-test of the seeds' differences: would the arms differ if they were trained again? *Holm*: corrected for
the number of arms. A verdict beyond the noise needs the one over seeds, corrected, below 0.05.
"""
DIAGNOSED = """\
Means over iterations and seeds. *Step-level signal*: turns with a term of their own beside their trajectory's that is
not zero (by the rule's own count; 0 for rules that name no such term). *Within trajectories*: share of the variance of
the advantages that lies between turns of one episode, penalties for invalid actions included. *Shared states*: turns in
a state that another trajectory of the group visited as well. *Groups of one*: states (the arm's anchors) that only one
trajectory of its group visited. *Zero variance*: groups whose episodes all had the same reward. Each arm is measured on
what its own policy played.
"""


def _time(found: Mapping[str, Any]) -> str:
    calls = found["calls"]
    text = f"{duration(found['seconds'])} of work in all, the sum over runs"
    if not calls:
        return f"{text}."
    clock, most = sum(one["seconds"] for one in calls), max(one["workers"] for one in calls)
    often = f" in {len(calls)} calls" if len(calls) > 1 else ""
    return f"{text}; {duration(clock)} by the clock{often}, {most} {'runs' if most > 1 else 'run'} at a time."


def _unfinished(found: Mapping[str, Any]) -> list[str]:
    return [
        f"**{name}, seed {seed}: {entry['state']}**, in no number below"
        for name, arm in [("warm start", found["warm_start"]), *found["arms"].items()]
        for seed, entry in arm["seeds"].items()
        if entry["state"] != "finished"
    ]


def _tests(one: Mapping[str, Any]) -> list[str]:
    by_seed = "; ".join(f"{s['only_first']} / {s['only_second']} ({p_value(s['p'])})" for s in one["seeds"])
    several = len(one["seeds"]) > 1
    over = [p_value(one["p_seeds"]), p_value(one["p_seeds_holm"]), f"{p_value(one['p_flips'])} ({one['smallest']:.3g})"]
    return [one["arm"], by_seed, p_value(one["p_tasks"]), p_value(one["p_tasks_holm"]), *(over if several else "–––")]


def _diagnostics(found: Mapping[str, Any]) -> str:
    columns = {
        "step_signal": "step-level signal",
        "turn_share": "within trajectories",
        "shared_turns": "shared states",
        "singleton_states": "groups of one",
        "no_variance_groups": "zero variance",
        "unparsable": "unparsable",
        "inadmissible": "inadmissible",
    }
    lines = [[name, *(per_cent(arm["diagnostics"][key]) for key in columns)] for name, arm in found["arms"].items()]
    return grid(["arm", *columns.values()], lines)


def _by_seed(found: Mapping[str, Any]) -> str:
    head = ["seed", "warm start", *found["arms"]]
    everyone = [found["warm_start"], *found["arms"].values()]
    lines = []
    for seed in map(str, found["seeds"]):
        entries = [arm["seeds"][seed] for arm in everyone]
        lines.append([seed, *(per_cent(e["success"]["value"]) if "success" in e else e["state"] for e in entries)])
    return grid(head, lines)


# ---- the picture ----


def charts(found: Mapping[str, Any]) -> list[Chart]:
    """Success against iterations while training and on the panel, the mean of each arm over its finished seeds."""
    training, judged, window = [], [], 1
    played: set[int] = set()
    for name, arm in found["arms"].items():
        done = [entry for entry in arm["seeds"].values() if entry["state"] == "finished"]
        if not done:
            continue
        label = f"{name} (n = {len(done)} seed{'s' if len(done) > 1 else ''})"
        series = [_series(entry["training"]) for entry in done]
        window = max(1, max(map(len, series)) // SMOOTH)
        training.append(_curve(label, [_smoothed(one, window) for one in series], quantile=False, points=False))
        played |= {n for entry in done for n in entry["evaluations"]["n"] if n}
        judged.append(_curve(label, [_series(entry["evaluations"]) for entry in done], quantile=True, points=True))
    smooth = f", mean of the last {window} iterations" if window > 1 else ""
    tasks = len(found["panel"].get("tasks", ()))
    between = f" ({min(played)} of them in between)" if played and min(played) < max(played) else ""
    return [
        Chart("while training; band: ± standard error over seeds", f"success{smooth}", tuple(training)),
        Chart(f"on {tasks} tasks{between}; bars: 95 % t-interval over seeds", "success", tuple(judged)),
    ]


def _series(entry: Mapping[str, Sequence[Any]]) -> dict[int, float]:
    return {int(x): y for x, y in zip(entry["iteration"], entry["success"], strict=True) if y is not None}


def _smoothed(series: Mapping[int, float], window: int) -> dict[int, float]:
    """The mean of the last values, as many as there are up to `window`."""
    xs = sorted(series)
    return {
        x: sum(series[other] for other in xs[max(0, i - window + 1) : i + 1]) / len(xs[max(0, i - window + 1) : i + 1])
        for i, x in enumerate(xs)
    }


def _curve(name: str, series: Sequence[Mapping[int, float]], *, quantile: bool, points: bool) -> Curve:
    """The mean over seeds at the iterations that all of them have, between ends that are in [0, 1]."""
    from turnwise.agents.seed_statistics import Mean

    xs = sorted(set.intersection(*(set(one) for one in series)))
    means = [Mean.of([one[x] for one in series]) for x in xs]
    values = [mean.value or 0.0 for mean in means]
    if any(mean.error is None for mean in means):
        return Curve(name, tuple(map(float, xs)), tuple(values), points=points)
    ends = [
        (mean.low, mean.high) if quantile else (value - (mean.error or 0.0), value + (mean.error or 0.0))
        for mean, value in zip(means, values, strict=True)
    ]
    low = tuple(max(0.0, end[0] or 0.0) for end in ends)
    high = tuple(min(1.0, 1.0 if end[1] is None else end[1]) for end in ends)
    return Curve(name, tuple(map(float, xs)), tuple(values), low, high, points=points)
