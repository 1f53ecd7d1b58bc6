"""The paired comparison of two results on one panel: is the difference more than noise?

Success is compared by the exact McNemar test, scores by a paired permutation. Left out on purpose: results on different
panels, which cannot be paired, and corrections for many comparisons.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from turnwise.agents.errors import EvaluationError
from turnwise.agents.evaluation import EvaluationResult, Panel, Rate
from turnwise.agents.statistics import mcnemar_exact, paired_permutation


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two results on the same panel, task by task. A difference is the second minus the first."""

    pairs: int
    """Tasks that both played without a failure."""
    left_out: int
    """Tasks where at least one of them failed."""
    first: Rate
    second: Rate
    only_first: int
    """Tasks that only the first won."""
    only_second: int
    p_success: float
    """Exact McNemar, two-sided."""
    score_difference: float
    p_score: float
    """Paired sign-flip permutation, two-sided."""
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
        return text + (f"; {self.left_out} tasks left out because an episode failed." if self.left_out else ".")


def compare(
    first: EvaluationResult, second: EvaluationResult, *, alpha: float = 0.05, rng: np.random.Generator | None = None
) -> Comparison:
    """Return the paired comparison of two results on the same panel.

    Args:
        first: the base.
        second: what is compared with it.
        alpha: a p-value at or above it counts as noise.
        rng: for the random sign vectors of the permutation test; None: seeded with 0.

    Raises:
        EvaluationError: the panels differ (the message says in how many tasks), or no task was played by both.

    """
    _same_panel(first.panel, second.panel)
    others = {row.task: row for row in second.rows}
    both = [(row, others[row.task]) for row in first.rows if row.task in others]
    pairs = [(a, b) for a, b in both if a.stop != "error" and b.stop != "error"]
    if not pairs:
        raise EvaluationError("no task of the panel was played without a failure by both: there is nothing to compare")
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
            f"{len(extra)} of {len(b.tasks)} only in the second, {shared} are shared; evaluate both on one panel"
        )
    if (a.env, dict(a.kwargs), a.seed) != (b.env, dict(b.kwargs), b.seed):
        raise EvaluationError(
            f"the results are of different environments, though 0 tasks differ by id: {a.env} {dict(a.kwargs)} "
            f"seed {a.seed}, and {b.env} {dict(b.kwargs)} seed {b.seed}"
        )


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"
