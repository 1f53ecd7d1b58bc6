"""The paired comparison of two results on one panel: is the difference more than noise?

Success is compared by the exact McNemar test, scores by a paired permutation test. Results on different panels cannot
be paired.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turncredit.agents.errors import EvaluationError
from turncredit.evaluation.panels import Panel
from turncredit.evaluation.results import EvaluationResult, Rate
from turncredit.evaluation.statistics import mcnemar_exact, paired_permutation


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results on the same panel, task by task; differences are second minus first."""

    pairs: int
    """Tasks that both played without an error."""
    left_out: int
    """Tasks on which at least one of them ended as an error."""
    first: Rate
    second: Rate
    only_first: int
    """Tasks that only the first won."""
    only_second: int
    p_success: float
    """Exact McNemar, two-sided."""
    score_difference: float
    p_score: float
    """Paired sign-flip test, two-sided."""
    alpha: float

    @property
    def verdict(self) -> str:
        """The comparison in one sentence."""
        assert self.first.value is not None
        assert self.second.value is not None
        points = 100 * (self.second.value - self.first.value)
        kind = "within the noise" if self.p_success >= self.alpha else "beyond the noise"
        who = "both win the same share" if points == 0 else f"the {'second' if points > 0 else 'first'} wins more"
        text = (
            f"Success {points:+.1f} points on {self.pairs} tasks ({who}; {self.only_second} won only by the second, "
            f"{self.only_first} only by the first): {kind} (exact McNemar p={_p(self.p_success)}); "
            f"score {self.score_difference:+.3f} (paired permutation p={_p(self.p_score)})"
        )
        return text + (f"; {self.left_out} tasks left out because of errors." if self.left_out else ".")


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
    others = {row.task: row for row in second.rows}
    both = [(row, others[row.task]) for row in first.rows if row.task in others]
    pairs = [(a, b) for a, b in both if a.stop != "error" and b.stop != "error"]
    if not pairs:
        raise EvaluationError("no task of the panel was played by both without an error")
    only_first = sum(a.won and not b.won for a, b in pairs)
    only_second = sum(b.won and not a.won for a, b in pairs)
    x, y = [a.score for a, _ in pairs], [b.score for _, b in pairs]
    return Comparison(
        pairs=len(pairs),
        left_out=len(first.panel.tasks) - len(pairs),
        first=Rate.of(sum(a.won for a, _ in pairs), len(pairs)),
        second=Rate.of(sum(b.won for _, b in pairs), len(pairs)),
        only_first=only_first,
        only_second=only_second,
        p_success=mcnemar_exact(only_first, only_second),
        score_difference=sum(y) / len(y) - sum(x) / len(x),
        p_score=paired_permutation(x, y, rng),
        alpha=alpha,
    )


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
