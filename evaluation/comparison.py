"""The paired comparison of two results on one panel: is the difference more than noise?

Success is compared by the exact McNemar test, scores by a paired permutation test. Episodes are paired by task and
trial. With several trials of a task, both tests are permutation tests over tasks, each with the sum of its differences,
since trials of one task are alike. With one trial, that test of success is McNemar's. Results on different panels
cannot be paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EpisodeRow, EvaluationResult, Rate
from turncredit.evaluation.statistics import mcnemar_exact, paired_permutation


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results on the same panel, task by task and trial by trial; differences are second minus first."""

    pairs: int
    """Tasks, or trials of tasks, that both played without an error."""
    left_out: int
    """Those in which at least one of them ended as an error."""
    first: Rate
    second: Rate
    only_first: int
    """Pairs of which only the first was won."""
    only_second: int
    p_success: float
    """Exact McNemar, two-sided; with several trials, a paired sign-flip test over tasks."""
    score_difference: float
    p_score: float
    """Paired sign-flip test over tasks, two-sided."""
    alpha: float
    tasks: int = 0
    """Different tasks among the pairs."""
    trials: int = 1
    """Trials of each task that both played."""
    unpaired: int = 0
    """Further trials of each task that only one of them played, which are left out."""

    @property
    def verdict(self) -> str:
        """The comparison in one sentence."""
        assert self.first.value is not None
        assert self.second.value is not None
        points = 100 * (self.second.value - self.first.value)
        kind = "within the noise" if self.p_success >= self.alpha else "beyond the noise"
        who = "both win the same share" if points == 0 else f"the {'second' if points > 0 else 'first'} wins more"
        test = "exact McNemar" if self.trials == 1 else "paired permutation over tasks,"
        text = (
            f"Success {points:+.1f} points on {self.unit} ({who}; {self.only_second} won only by the second, "
            f"{self.only_first} only by the first): {kind} ({test} p={_p(self.p_success)}); "
            f"score {self.score_difference:+.3f} (paired permutation p={_p(self.p_score)})"
        )
        noun = "tasks" if self.trials == 1 else "episodes"
        if self.left_out:
            text += f"; {self.left_out} {noun} left out because of errors"
        if self.unpaired:
            noun = "trial" if self.unpaired == 1 else "trials"
            text += f"; {self.unpaired} {noun} of each task left out, since only one of the results has more"
        return text + "."

    @property
    def unit(self) -> str:
        """How many pairs of what were compared: "50 tasks", "300 episodes of 50 tasks"."""
        return f"{self.pairs} tasks" if self.trials == 1 else f"{self.pairs} episodes of {self.tasks} tasks"


def compare(
    first: EvaluationResult, second: EvaluationResult, *, alpha: float = 0.05, rng: np.random.Generator | None = None
) -> Comparison:
    """Return the paired comparison of two results on the same panel.

    Args:
        first: the baseline.
        second: the result that is compared with it.
        alpha: level below which a p-value is beyond the noise.
        rng: generator of the permutation test's random signs; None: seeded with 0.

    Raises:
        EvaluationError: the panels differ, or no task was played by both without an error.
    """
    _same_panel(first.panel, second.panel)
    trials = min(first.trials, second.trials)
    others = {(row.task, row.trial): row for row in second.rows}
    both = [(row, others[row.task, row.trial]) for row in first.rows if (row.task, row.trial) in others]
    pairs = [(a, b) for a, b in both if a.stop != "error" and b.stop != "error"]
    if not pairs:
        raise EvaluationError("no task of the panel was played by both without an error")
    only_first = sum(a.won and not b.won for a, b in pairs)
    only_second = sum(b.won and not a.won for a, b in pairs)
    tasks: dict[str, list[tuple[EpisodeRow, EpisodeRow]]] = {}
    for pair in pairs:
        tasks.setdefault(pair[0].task, []).append(pair)
    won = [(sum(a.won for a, _ in own), sum(b.won for _, b in own)) for own in tasks.values()]
    scores = [(sum(a.score for a, _ in own), sum(b.score for _, b in own)) for own in tasks.values()]
    return Comparison(
        pairs=len(pairs),
        left_out=len(first.panel.tasks) * trials - len(pairs),
        first=Rate.of_tasks([(k, len(own)) for (k, _), own in zip(won, tasks.values(), strict=True)]),
        second=Rate.of_tasks([(k, len(own)) for (_, k), own in zip(won, tasks.values(), strict=True)]),
        only_first=only_first,
        only_second=only_second,
        p_success=mcnemar_exact(only_first, only_second) if trials == 1 else _permutation(won, rng),
        score_difference=sum(b.score for _, b in pairs) / len(pairs) - sum(a.score for a, _ in pairs) / len(pairs),
        p_score=_permutation(scores, rng),
        alpha=alpha,
        tasks=len(tasks),
        trials=trials,
        unpaired=max(first.trials, second.trials) - trials,
    )


def _permutation(sums: Sequence[tuple[float, float]], rng: np.random.Generator | None) -> float:
    """Return the p-value of the permutation test over tasks, from the sums of first and second of each."""
    return paired_permutation([x for x, _ in sums], [y for _, y in sums], rng)


def _same_panel(a: Panel, b: Panel) -> None:
    missing, extra = set(a.tasks) - set(b.tasks), set(b.tasks) - set(a.tasks)
    if missing or extra:
        shared = len(set(a.tasks) & set(b.tasks))
        raise EvaluationError(
            f"the results are of different panels: {len(missing)} of {len(a.tasks)} tasks are only in the first, "
            f"{len(extra)} of {len(b.tasks)} only in the second, {shared} in both; evaluate both on one panel"
        )
    if (a.env, dict(a.kwargs), a.seed) != (b.env, dict(b.kwargs), b.seed):
        raise EvaluationError(
            f"the results are of different environments: {a.env} {dict(a.kwargs)} seed {a.seed}, and "
            f"{b.env} {dict(b.kwargs)} seed {b.seed}"
        )


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"
