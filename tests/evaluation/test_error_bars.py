"""A law of every error bar, interval and standard error: it is never zero, since no sample is certain.

One unit and units that all agree have no spread. What is computed from them says that the error is unknown (None, NaN,
no ends), or is an interval that has a width.
"""

from __future__ import annotations

import ast
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from toys.training_helpers import trajectory, turn

from turncredit.agents.trajectory import Group
from turncredit.credit.truth import TrueCredit, estimate, identification, paired_differences, smoothed_variance
from turncredit.credit.truth.directions import gradient_draws, gradient_scores
from turncredit.credit.truth.metrics import Draws, identification_draws, interval_of
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.rank_correlation import RankCorrelation
from turncredit.evaluation.reliability import best_of, reliability
from turncredit.evaluation.results import EpisodeRow, EvaluationResult, Rate
from turncredit.evaluation.seed_statistics import Mean, compare_seeds
from turncredit.evaluation.statistics import mean_of_rates, wilson, wilson_of_tasks
from turncredit.report.ablation_tables import training_curves
from turncredit.training.monitor.success_falls import Fall, SuccessWindow
from turncredit.training.run_folder.metrics import part_metrics, play_metrics, success_error

ROOT = Path(__file__).parents[2]
Bars = Iterator["tuple[float | None, float | None] | float | None"]
"""Intervals as pairs of ends, and errors as numbers."""


def benchmark(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def ends(*intervals: object) -> Bars:
    for interval in intervals:
        yield interval.low, interval.high  # type: ignore[attr-defined]


def result(*won: bool, trials: int = 1) -> EvaluationResult:
    tasks = tuple(f"t{number}" for number in range(len(won)))
    rows = [
        EpisodeRow(task, "kind", outcome, float(outcome), 1, "terminated", 0, 0, None, harm=outcome, trial=trial)
        for trial in range(trials)
        for task, outcome in zip(tasks, won, strict=True)
    ]
    return EvaluationResult(Panel("toy", tasks, {}, 0), tuple(rows))


SAMPLES = ([True], [False], [True] * 4, [False] * 4)
"""Outcomes without a spread."""


def of_truth() -> Bars:
    for returns in ([[1.0, 0.0], [1.0, 1.0]], [[0.0] * 8, [1.0] * 8], [[1.0], [1.0, 0.0]], [[1.0] * 4, [1.0] * 4]):
        truth = estimate([0.0, 0.0], [0, 1], [1, -1], returns, gamma=1.0)
        yield from truth.error.tolist()
    for values in ([1.0], [0.0] * 4, [1.0] * 4, [0.5] * 3):
        yield math.sqrt(smoothed_variance(values, 0.0, 1.0))


def of_measures() -> Bars:
    advantage = np.array([0.5, -0.5, 0.4, -0.4])
    truth = TrueCredit(advantage, advantage, np.full(4, 0.1), np.stack([advantage] * 2), np.full(4, 8), 1.0)
    for rule in (advantage, -advantage, np.zeros(4), np.ones(4)):
        for task in (np.zeros(4, dtype=np.int64), np.array([0, 0, 1, 1])):
            yield from ends(*identification(rule, truth, task, task).values())
            draws = {
                name: identification_draws(values, truth, task, task)
                for name, values in {"r": rule, "same": rule, "other": advantage, "negative": -advantage}.items()
            }
            for measure in draws["r"]:
                measured = {name: measures[measure] for name, measures in draws.items()}
                yield from ends(*paired_differences(measured, "r").values())
    constant = {"r": Draws(np.zeros(9), 5), "a": Draws(np.ones(9), 5)}
    yield from ends(*paired_differences(constant, "r").values(), interval_of(np.full(9, 0.5), 4))


def of_gradients() -> Bars:
    for count in (1, 4):
        gradients, ones, group = np.ones((count, 2)), np.ones(count), np.arange(count)
        yield from ends(*gradient_scores(gradients, ones, ones, group).values())
        draws = gradient_draws(gradients, ones, ones, group)
        for measured in draws.values():
            yield from ends(*paired_differences({"r": measured, "a": measured}, "r").values())
    noise = gradient_scores(np.ones((1, 2)), np.ones(1), np.ones(1), np.zeros(1, dtype=np.int64))["noise"]
    assert noise.value is None  # one group does not say how many it takes


def of_rates() -> Bars:
    for k, n in ((0, 0), (0, 1), (1, 1), (0, 5), (5, 5), (2, 4)):
        yield wilson(k, n)
        yield from ends(Rate.of(k, n), Rate.of_tasks([(k, n)]), Rate.of_tasks([(k, n)] * 4))
        yield wilson_of_tasks([(k, n)] * 3)
        if n:
            yield mean_of_rates([(k, n)])[1:]
            yield mean_of_rates([(k, n)] * 3)[1:]


def of_evaluations() -> Bars:
    for won in SAMPLES:
        for trials in (1, 3):
            single = result(*won, trials=trials)
            summary = single.summary()
            yield from ends(summary.success, *summary.by_type.values(), summary.harm)
            yield from ends(*reliability([single]), *best_of([single]))
            seeds = dict.fromkeys(range(3), single)
            for compared in ({0: single}, seeds):
                difference = compare_seeds(compared, compared).difference
                yield from ends(difference)
                yield difference.error


def of_seeds() -> Bars:
    for values in ([], [0.5], [0.0] * 3, [0.7] * 5, [0.1 + 0.2, 0.3, 0.3]):
        mean = Mean.of(values)
        yield from ends(mean)
        yield mean.error
    for rates in ([Rate.of(0, 9)], [Rate.of(0, 9)] * 3, [Rate.of(9, 9)] * 3, [Rate.of(3, 9)] * 2):
        mean = Mean.of_rates(rates)
        yield from ends(mean)
        yield mean.error
    rising = [(float(k), float(k)) for k in range(8)]
    yield from ends(
        RankCorrelation.of([rising]), RankCorrelation.of([[(1.0, 1.0)] * 8]), RankCorrelation.of([[(1.0, 1.0)]])
    )


def of_groups() -> Bars:
    won, lost = trajectory([turn([1], [2])], won=True), trajectory([turn([1], [2])])
    part = "part"
    for groups in ([], [(won, lost)], [(won, won)] * 4, [(lost,)] * 4, [(won, lost)] * 3):
        played = [Group(f"{part}/{number}", members) for number, members in enumerate(groups)]
        yield success_error(played)
        yield play_metrics(played)["success_error"]
        yield part_metrics(played, [part]).get(f"success_error/{part}")


def of_falls() -> Bars:
    """Windows of success that never changed say nothing by themselves; that of the whole run counts there."""
    flat = SuccessWindow.of([0.5] * 3, [0.01] * 3)
    yield Fall(flat, flat).error(0.0)
    yield Fall(SuccessWindow.of([0.5] * 3, [None] * 3), flat).error(0.01)


def of_curves() -> Bars:
    for seeds in ([[1.0, 1.0]], [[1.0, 1.0]] * 3, [[1.0, 0.5], [1.0, 0.7]]):
        entries = {
            str(number): {"state": "finished", "training": {"iteration": [1, 2], "success": values}}
            for number, values in enumerate(seeds)
        }
        for curve in training_curves({"arms": {"a": {"seeds": entries}}})[1]:
            yield from zip(curve.low, curve.high, strict=True)


def of_benchmarks() -> Bars:
    search, rules = benchmark("search"), benchmark("task_rules")
    for gold, hits in ((["a"], ["a"]), (["a", "b"], ["a"]), (["a", "b"], [])):
        for count in (1, 3):
            questions = [search.Question(id="q", text="q", answers=["x"], gold=gold)] * count
            lists = [[(name, 1.0) for name in hits]] * count
            yield tuple(search.recall(questions, lists, 2)[1:])
            yield tuple(search.complete(questions, lists, 2)[1:])
    for k, n in ((0, 1), (1, 1), (4, 4)):
        yield tuple(search.rate(k, n)[1:])
    for values in ([0.5], [0.5] * 4):
        yield rules.interval(np.asarray(values))[1]


TABLE: dict[Callable[[], Bars], Sequence[str]] = {
    of_truth: ("smoothed_variance", "_variance_of_mean", "TrueCredit"),
    of_measures: ("interval_of", "Interval"),
    of_gradients: (),
    of_rates: ("wilson", "wilson_of_tasks", "Rate"),
    of_evaluations: ("Reliability",),
    of_seeds: ("Mean", "RankCorrelation"),
    of_groups: ("success_error",),
    of_falls: ("error",),
    of_curves: ("Curve",),
    of_benchmarks: ("recall", "rate", "interval"),
}
"""What computes error bars, and the names of functions and classes that it covers."""


@pytest.mark.parametrize("bars", TABLE, ids=lambda bars: bars.__name__)
def test_no_error_is_zero(bars: Callable[[], Bars]) -> None:
    checked = 0
    for bar in bars():
        checked += 1
        if bar is None:
            continue
        if isinstance(bar, tuple):
            low, high = bar
            known = [end for end in (low, high) if end is not None and not math.isnan(end)]
            assert len(known) in (0, 2), f"one end alone: {bar}"
            assert not known or known[1] - known[0] > 1e-6, f"an interval without a width: {bar}"
        else:
            assert math.isnan(bar) or bar > 1e-6, f"an error of {bar}"
    assert checked


FOLDERS = (
    "evaluation",
    "credit/truth",
    "ablation",
    "report",
    "training/run_folder",
    "training/monitor",
    "training/truth",
    "benchmarks",
)
NAMES = ("error", "stderr", "variance", "variance_of_mean", "interval", "interval_of", "wilson", "wilson_of_tasks")
ELSEWHERE = {
    "MeasuredTurns": "holds the errors of `TrueCredit`",
    "Estimate": "report/figures.py draws one that it gets",
    "_interval": "a pair of ends from a half-width, for `paired_differences`",
    "_variance": "of iterations over a run, behind `Fall.error`",
    "_share_without_variance": "a share of groups",
}


def defined() -> Iterator[str]:
    """Yield the functions with such a name, and the classes that have ends or errors as fields."""
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.FunctionDef):
                    returned = "" if node.returns is None else ast.unparse(node.returns).lower()
                    number = "float" in returned or "interval" in returned
                    if number and any(node.name == name or node.name.endswith(f"_{name}") for name in NAMES):
                        yield node.name
                elif isinstance(node, ast.ClassDef):
                    fields = {
                        line.target.id: ast.unparse(line.annotation)
                        for line in node.body
                        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
                    }
                    number = "float" in fields.get("error", "") or "Floats" in fields.get("error", "")
                    if number or {"low", "high"} <= fields.keys():
                        yield node.name


def test_every_error_bar_of_the_project_is_in_the_table() -> None:
    known = {name for names in TABLE.values() for name in names} | ELSEWHERE.keys()
    missing = sorted(set(defined()) - known)
    assert not missing, f"add {', '.join(missing)} to the table of error bars, with one unit and with units that agree"
    assert known - set(defined()) <= {"recall", "rate"}, "names that are gone"
