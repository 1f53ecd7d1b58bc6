"""Statistics over training seeds: the mean with its t-interval, and the paired comparison of two arms seed by seed.

Two questions are kept apart. Of *these* trained policies, does one win more of tasks like these? That is asked task by
task. If both arms were *trained again*, would the one still be better? That is asked seed by seed, the tasks of a seed
being one draw only. The second is the claim that papers make, and has as many degrees of freedom as there are seeds.

Left out on purpose: models with random effects, and bootstraps: with a handful of seeds neither is to be trusted more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnwise.agents.comparison import compare
from turnwise.agents.errors import EvaluationError
from turnwise.agents.evaluation import EvaluationResult
from turnwise.agents.statistics import paired_permutation


def student_p(t: float, degrees: int) -> float:
    """Return the two-sided p-value of Student's t.

    With theta = atan(|t| / sqrt(degrees)), and the product of the odd (even) numbers below the even (odd) ones::

        odd:   P(|T| < |t|) = 2/pi (theta + sin theta (cos theta + 2/3 cos^3 theta + 2*4/(3*5) cos^5 theta + ...))
        even:  P(|T| < |t|) = sin theta (1 + 1/2 cos^2 theta + 1*3/(2*4) cos^4 theta + ...)

    the sums ending with the power degrees - 2 of the cosine.

    >>> round(student_p(2.776445, 4), 6)
    0.05

    Args:
        t: the statistic.
        degrees: of freedom, from 1.

    Raises:
        EvaluationError: no degree of freedom: one value has no spread.

    Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 1964, 26.7.3 and 26.7.4.

    """
    if degrees < 1:
        raise EvaluationError(f"Student's t with {degrees} degrees of freedom: at least 1 was wanted, from two values")
    theta = math.atan(abs(t) / math.sqrt(degrees))
    cosine, odd = math.cos(theta), degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for power in range(3 if odd else 2, degrees - 1, 2):
        term *= cosine * cosine * (power - 1) / power
        total += term
    inside = 2 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total
    return min(1.0, max(0.0, 1.0 - inside))


def student_quantile(confidence: float, degrees: int) -> float:
    """Return the t that |T| stays below with the probability `confidence`, by bisection of `student_p`.

    >>> round(student_quantile(0.95, 4), 4)
    2.7764

    Args:
        confidence: in (0, 1).
        degrees: of freedom, from 1.

    Raises:
        EvaluationError: the confidence is not within (0, 1), or there is no degree of freedom.

    """
    if not 0 < confidence < 1:
        raise EvaluationError(f"confidence is {confidence}: between 0 and 1 was wanted")
    low, high = 0.0, 1.0
    while student_p(high, degrees) > 1 - confidence:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_p(middle, degrees) > 1 - confidence else (low, middle)
    return high


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over seeds with its 95 % t-interval."""

    value: float | None
    """None when n is 0."""
    low: float | None
    """None when n is below 2: one seed says nothing about the next."""
    high: float | None
    error: float | None
    """Standard error of the mean."""
    n: int

    @classmethod
    def of(cls, values: Sequence[float], confidence: float = 0.95) -> Mean:
        """Return the mean of one value a seed: ``mean +- t(n - 1) * sd / sqrt(n)``, sd with n - 1."""
        n = len(values)
        if n < 2:
            return cls(values[0] if n else None, None, None, None, n)
        mean = math.fsum(values) / n
        error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1) / n)
        half = student_quantile(confidence, n - 1) * error
        return cls(mean, mean - half, mean + half, error, n)


def paired_t(differences: Sequence[float]) -> float:
    """Return the two-sided p-value of the paired t-test for one difference a seed.

    Differences without spread have no t; the exact sign-flip test takes its place.

    >>> round(paired_t([0.1, 0.2, 0.3]), 4)
    0.0742

    Args:
        differences: float [n], one a seed.

    Returns:
        The p-value; 1.0 for a single seed, which cannot tell anything.

    """
    n, mean = len(differences), Mean.of(differences)
    if n < 2 or mean.error is None or mean.value is None:
        return 1.0
    if mean.error <= 1e-12 * max(map(abs, differences)):
        return paired_permutation([0.0] * n, differences)
    return student_p(mean.value / mean.error, n - 1)


def holm(p: Sequence[float]) -> list[float]:
    """Return p-values corrected for their number: each may be compared with alpha as if it were the only one.

    The k-th smallest of m is multiplied by m - k + 1, and made at least as large as those before it::

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
class OneSeed:
    """Two arms of one seed on the panel."""

    seed: int
    pairs: int
    only_first: int
    only_second: int
    difference: float
    """Of success, second minus first, over the pairs."""
    p: float
    """Exact McNemar, two-sided, not corrected."""


@dataclass(frozen=True, slots=True)
class SeedComparison:
    """Two arms over the seeds that both finished. A difference is the second's success minus the first's."""

    seeds: tuple[OneSeed, ...]
    left_out: int
    """Pairs of episodes of which at least one failed."""
    difference: Mean
    p_tasks: float
    """Sign flips over tasks, the seeds' differences of a task flipped together: these policies, other tasks."""
    p_seeds: float
    """Paired t over seeds: the same tasks, policies trained again."""
    p_flips: float
    """Sign flips over seeds, exact for up to 16 seeds: the same question without a normal distribution."""
    smallest: float
    """The smallest p that the flips over this many seeds can give."""


def compare_seeds(first: Mapping[int, EvaluationResult], second: Mapping[int, EvaluationResult]) -> SeedComparison:
    """Return the comparison of two arms, paired by seed and by task.

    Args:
        first: the reference's results by seed.
        second: the other arm's; seeds that only one has are left out.

    Raises:
        EvaluationError: no seed in common, or results of different panels.

    """
    seeds = sorted(first.keys() & second.keys())
    if not seeds:
        raise EvaluationError("the arms have no finished seed in common: there is nothing to compare")
    ones, left_out = [], 0
    by_task: dict[str, int] = {}
    for seed in seeds:
        pair = compare(first[seed], second[seed])
        share = (pair.only_second - pair.only_first) / pair.pairs
        ones.append(OneSeed(seed, pair.pairs, pair.only_first, pair.only_second, share, pair.p_success))
        left_out += pair.left_out
        for task, difference in _differences(first[seed], second[seed]):
            by_task[task] = by_task.get(task, 0) + difference
    shares = [one.difference for one in ones]
    return SeedComparison(
        seeds=tuple(ones),
        left_out=left_out,
        difference=Mean.of(shares),
        p_tasks=paired_permutation([0.0] * len(by_task), list(by_task.values())),
        p_seeds=paired_t(shares),
        p_flips=paired_permutation([0.0] * len(shares), shares),
        smallest=2.0 ** (1 - len(shares)),
    )


def _differences(first: EvaluationResult, second: EvaluationResult) -> list[tuple[str, int]]:
    """Second minus first of each task that both played: 1, 0 or -1."""
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
        p_tasks, p_seeds: of the comparison, corrected if there are several.
        difference: the mean one, for better or worse.
        seeds: their number; with one, nothing can be said about training again.
        alpha: a p-value at or above it counts as noise.

    """
    word = "better" if (difference or 0.0) > 0 else "worse"
    if seeds > 1 and p_seeds < alpha:
        return f"{word}, beyond the noise"
    if p_tasks < alpha:
        return f"within the noise of training ({'one seed' if seeds == 1 else f'{seeds} seeds'}); these policies differ"
    return "within the noise"
