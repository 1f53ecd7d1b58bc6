"""Statistics over training seeds: means with t-intervals, and the paired comparison of two arms.

There are two questions. Does one of *these* trained policies win more tasks of this kind? A test over tasks answers it.
Would one method be better if both were *trained again*? That is the claim that papers make; a test over seeds answers
it, with as many observations as there are seeds.

Student's t is computed here and not with scipy, which would be a large dependency of every installation for two short
functions; the tests compare both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turncredit.agents.errors import EvaluationError
from turncredit.credit.student_t import student_p, student_quantile
from turncredit.evaluation.comparison import compare
from turncredit.evaluation.results import EvaluationResult, Rate
from turncredit.evaluation.statistics import paired_permutation, wilson

ROUNDING = 1e-12
"""Share of the largest value below which a spread is rounding."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over seeds with its 95 % t-interval."""

    value: float | None
    """None if n is 0."""
    low: float | None
    """None if n is below 2, since one seed says nothing about the next, or if all values are the same: without a spread
    there is no telling how far off the mean may be."""
    high: float | None
    error: float | None
    """Standard error of the mean; None in the same cases."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float], confidence: float = 0.95) -> Mean:
        """Return the mean of one value for each seed: ``mean +- t(n - 1) * sd / sqrt(n)``, sd with n - 1."""
        n = len(values)
        if n < 2:
            return cls(values[0] if n else None, None, None, None, n)
        mean = math.fsum(values) / n
        error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
        if error <= ROUNDING * max(map(abs, values)):
            return cls(mean, None, None, None, n)
        half = student_quantile(confidence, n - 1) * error
        return cls(mean, mean - half, mean + half, error, n)

    @classmethod
    def of_rates(cls, rates: Sequence[Rate], confidence: float = 0.95) -> Mean:
        """Return the mean of one rate for each seed.

        Equal rates have no spread, and so no t-interval. The interval is then Wilson's, over the episodes of all seeds.
        """
        valid = [rate for rate in rates if rate.value is not None]
        mean = cls.of([float(rate.value) for rate in valid if rate.value is not None], confidence)
        if mean.n < 2 or mean.error is not None:
            return mean
        low, high = wilson(sum(rate.k for rate in valid), sum(rate.n for rate in valid), confidence)
        return cls(mean.value, low, high, None, mean.n)


def paired_t(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the paired t-test.

    Without a spread there is no t, and the exact sign-flip test is used instead.

    >>> round(paired_t([0.1, 0.2, 0.3]), 4)
    0.0742

    Args:
        differences: float [n], one for each seed.

    Returns:
        The p-value; 1.0 for a single seed.
    """
    n, mean = len(differences), Mean.of(differences)
    if n < 2 or mean.value is None:
        return 1.0
    if mean.error is None:
        return paired_permutation([0.0] * n, differences)
    return student_p(mean.value / mean.error, n - 1)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values with Holm's correction for multiple tests.

    The k-th smallest of m is multiplied by m - k + 1 and raised to the largest before it::

        q_(k) = max over j <= k of min(1, (m - j + 1) p_(j))

    >>> [round(q, 3) for q in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]

    Args:
        p: p-values of one family of tests.

    Source: S. Holm, 1979, Scandinavian Journal of Statistics 6.
    """
    corrected, largest = [0.0] * len(p), 0.0
    for rank, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        largest = max(largest, min(1.0, (len(p) - rank) * p[index]))
        corrected[index] = largest
    return corrected


@dataclass(frozen=True, slots=True)
class SeedPair:
    """Two arms trained with one seed, on the panel."""

    seed: int
    pairs: int
    only_first: int
    only_second: int
    difference: float
    """Success of the second minus success of the first, over the pairs."""
    p: float
    """Exact McNemar, two-sided, not corrected."""


@dataclass(frozen=True, slots=True)
class SeedComparison:
    """Two arms over the seeds that both finished; differences are the second's success minus the first's."""

    seeds: tuple[SeedPair, ...]
    left_out: int
    """Pairs of episodes of which at least one ended as an error."""
    difference: Mean
    p_tasks: float
    """Sign flips over tasks, all seeds of a task together: other tasks, the same policies."""
    p_seeds: float
    """Paired t-test over seeds: the same tasks, policies trained again."""
    p_flips: float
    """Sign flips over seeds, exact for up to 16: the same question without assuming a normal distribution."""
    smallest: float
    """Smallest p-value that sign flips over this many seeds can give."""


def compare_seeds(first: Mapping[int, EvaluationResult], second: Mapping[int, EvaluationResult]) -> SeedComparison:
    """Return the comparison of two arms, paired by seed and by task.

    Args:
        first: results of the reference by seed.
        second: results of the other arm; seeds that only one arm has are left out.

    Raises:
        EvaluationError: the arms have no seed in common, or were evaluated on different panels.
    """
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        raise EvaluationError("the arms have no finished seed in common")
    pairs, left_out = [], 0
    by_task: dict[str, int] = {}
    for seed in seeds:
        comparison = compare(first[seed], second[seed])
        share = (comparison.only_second - comparison.only_first) / comparison.pairs
        pairs.append(
            SeedPair(seed, comparison.pairs, comparison.only_first, comparison.only_second, share, comparison.p_success)
        )
        left_out += comparison.left_out
        for task, difference in _differences(first[seed], second[seed]):
            by_task[task] = by_task.get(task, 0) + difference
    shares = [pair.difference for pair in pairs]
    return SeedComparison(
        seeds=tuple(pairs),
        left_out=left_out,
        difference=Mean.of(shares),
        p_tasks=paired_permutation([0.0] * len(by_task), list(by_task.values())),
        p_seeds=paired_t(shares),
        p_flips=paired_permutation([0.0] * len(shares), shares),
        smallest=2.0 ** (1 - len(shares)),
    )


def _differences(first: EvaluationResult, second: EvaluationResult) -> list[tuple[str, int]]:
    """Return the success of the second minus the first, 1, 0 or -1, for each task that both played."""
    others = {row.task: row for row in second.rows if row.stop != "error"}
    return [
        (row.task, int(others[row.task].won) - int(row.won))
        for row in first.rows
        if row.stop != "error" and row.task in others
    ]


ALPHA = 0.05


def verdict(p_tasks: float, p_seeds: float, difference: float | None, seeds: int, alpha: float = ALPHA) -> str:
    """Return a comparison over seeds in words.

    Args:
        p_tasks: p-value over tasks, corrected if there are several comparisons.
        p_seeds: p-value over seeds, with the same correction.
        difference: mean difference; its sign decides between better and worse.
        seeds: number of seeds; a single one says nothing about training again.
        alpha: level below which a p-value is beyond the noise.
    """
    word = "better" if (difference or 0.0) > 0 else "worse"
    if seeds > 1 and p_seeds < alpha:
        return f"{word}, beyond the noise"
    if p_tasks < alpha:
        return f"within the noise of training ({'one seed' if seeds == 1 else f'{seeds} seeds'}); these policies differ"
    return "within the noise"
