"""The statistics of evaluation: intervals for rates, and two paired tests, in Python and numpy.

Not included: tests of unpaired results, since panels are fixed so that results can be paired.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

from turncredit.agents.errors import EvaluationError
from turncredit.credit.student_t import student_quantile

EXACT_PAIRS = 16
"""Largest number of nonzero differences for which all 2^n sign vectors are tried."""


def wilson(k: float, n: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the Wilson score interval of a rate.

    With p = k/n and z the normal quantile at (1 + confidence) / 2::

        centre = (p + z^2 / 2n) / (1 + z^2 / n)
        half   = z / (1 + z^2 / n) * sqrt(p (1 - p) / n + z^2 / 4n^2)

    Args:
        k: successes, or the sum of n numbers in [0, 1], whose spread is at most that of successes.
        n: trials; 0 gives the interval (0, 1). An effective number of them need not be an integer.
        confidence: probability that the interval contains the true rate, in (0, 1).

    Returns:
        Lower and upper end, in [0, 1].

    Raises:
        EvaluationError: k is not in 0..n, or the confidence is not in (0, 1).

    Source: E. B. Wilson, 1927, Journal of the American Statistical Association 22.

    >>> [round(end, 4) for end in wilson(8, 10)]
    [0.4902, 0.9433]

    """
    if not 0 <= k <= n:
        raise EvaluationError(f"successes must be from 0 to {n}, the number of trials, got {k}")
    if not 0 < confidence < 1:
        raise EvaluationError(f"confidence must be in (0, 1), got {confidence}")
    if n == 0:
        return 0.0, 1.0
    p = k / n
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    scale = 1 + z * z / n
    centre = (p + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    # at the ends the formula gives exactly 0 or 1; rounding must not change that
    return (0.0 if k == 0 else max(0.0, centre - half)), (1.0 if k == n else min(1.0, centre + half))


def wilson_of_tasks(counts: Sequence[tuple[int, int]], confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of a rate over several trials of each task: Wilson's, with an effective number of trials.

    Trials of one task are alike, so they say less about further tasks than as many trials of different tasks. With k_g
    successes in n_g trials of each of G tasks, N = sum n_g, p = sum k_g / N, the variance v of p as a ratio estimate
    with tasks as its units, and the quantiles z (normal) and t (Student's, G - 1 degrees of freedom)::

        v         = G / (G - 1) * sum_g (k_g - p n_g)^2 / N^2
        least     = N^2 / sum_g n_g^2
        effective = max(least, min(N, p (1 - p) / v) * (z / t)^2)
        interval  = wilson(p * effective, effective)

    `least` is G where all tasks have as many trials: the trials of a task then count as one, as if they always agreed.
    That is also assumed where the sample cannot tell how alike they are: with p = 0, p = 1 or one task. With one trial
    of each task, this is Wilson's interval of the N trials.

    Args:
        counts: (successes, trials) of each task; tasks without trials are left out.
        confidence: probability that the interval contains the true rate, in (0, 1).

    Returns:
        Lower and upper end, in [0, 1]; (0, 1) without trials.

    Raises:
        EvaluationError: a number of successes or the confidence is out of range.

    Source: E. L. Korn and B. I. Graubard, 1998, Survey Methodology 24, who use Clopper's and Pearson's interval where
    we use Wilson's, and no lower limit of the effective number.

    >>> [round(end, 4) for end in wilson_of_tasks([(4, 4), (4, 4), (0, 4), (0, 4)])]
    [0.15, 0.85]
    >>> wilson_of_tasks([(1, 1), (1, 1), (0, 1)]) == wilson(2, 3)
    True

    """
    played = [(k, n) for k, n in counts if n or k]
    if any(not 0 <= k <= n for k, n in played):
        raise EvaluationError(f"successes must be from 0 to the number of trials of each task, got {played}")
    tasks, successes, trials = len(played), sum(k for k, _ in played), sum(n for _, n in played)
    if all(n == 1 for _, n in played):
        return wilson(successes, trials, confidence)
    p, least = successes / trials, trials * trials / sum(n * n for _, n in played)
    if tasks < 2 or successes in (0, trials):
        return wilson(p * least, least, confidence)
    variance = tasks / (tasks - 1) * math.fsum((k - p * n) ** 2 for k, n in played) / trials**2
    effective = min(trials, p * (1 - p) / variance) if variance else trials
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    effective = max(least, effective * (z / student_quantile(confidence, tasks - 1)) ** 2)
    return wilson(p * effective, effective, confidence)


def mean_of_rates(counts: Sequence[tuple[int, int]], confidence: float = 0.95) -> tuple[float, float, float]:
    """Return the unweighted mean of independent rates, with its interval.

    With Wilson's interval [l_i, u_i] of each of the m rates p_i = k_i / n_i (method of variance estimates recovery)::

        mean = sum_i p_i / m
        low  = mean - sqrt(sum_i (p_i - l_i)^2) / m
        high = mean + sqrt(sum_i (u_i - p_i)^2) / m

    Args:
        counts: (successes, trials) of each rate, with at least one trial.
        confidence: probability that the interval contains the true mean, in (0, 1).

    Returns:
        The mean, and the lower and upper end of its interval, in [0, 1].

    Raises:
        EvaluationError: there are no rates, or one has no trials.

    Source: G. Y. Zou and A. Donner, 2008, Statistics in Medicine 27.

    >>> [round(value, 4) for value in mean_of_rates([(8, 10), (5, 10)])]
    [0.65, 0.4467, 0.7999]

    """
    if not counts or min(n for _, n in counts) < 1:
        raise EvaluationError("a mean of rates needs at least one rate, each with at least one trial")
    rates = [k / n for k, n in counts]
    intervals = [wilson(k, n, confidence) for k, n in counts]
    mean = sum(rates) / len(rates)
    below = math.hypot(*(rate - low for rate, (low, _) in zip(rates, intervals, strict=True))) / len(rates)
    above = math.hypot(*(high - rate for rate, (_, high) in zip(rates, intervals, strict=True))) / len(rates)
    return mean, mean - below, mean + above


def mcnemar_exact(b: int, c: int) -> float:
    """Return the two-sided p-value of the exact McNemar test for paired successes.

    Under the null hypothesis each discordant pair falls on either side with probability 1/2::

        p = min(1, 2 * sum_{i <= min(b, c)} C(b + c, i) / 2^(b + c))

    Args:
        b: pairs that only the first won.
        c: pairs that only the second won.

    Raises:
        EvaluationError: a negative count.

    Source: Q. McNemar, 1947, Psychometrika 12, with the exact binomial distribution.

    >>> mcnemar_exact(1, 7)
    0.0703125

    """
    if b < 0 or c < 0:
        raise EvaluationError(f"counts of discordant pairs must be >= 0, got {b} and {c}")
    total = b + c
    tail = term = 1  # C(n, 0); C(n, i) follows from C(n, i - 1) in exact integers
    for i in range(1, min(b, c) + 1):
        term = term * (total - i + 1) // i
        tail += term
    return float(min(1.0, 2 * tail / 2**total))  # the quotient of two integers is rounded once


def paired_permutation(
    x: Sequence[float], y: Sequence[float], rng: np.random.Generator | None = None, draws: int = 20_000
) -> float:
    """Return the two-sided p-value of the paired sign-flip test for a difference of means.

    Under the null hypothesis every d_i = y_i - x_i has either sign with equal probability. The p-value is the share of
    sign vectors s with ``|sum s_i d_i| >= |sum d_i|``: of all 2^n vectors if at most `EXACT_PAIRS` differences are not
    zero, else of random vectors, with the observed one counted::

        p = (1 + #{|sum s_i d_i| >= |sum d_i|}) / (1 + draws)

    Args:
        x: scores of the first, float [n].
        y: scores of the second on the same tasks in the same order, float [n].
        rng: generator of the random signs; None: seeded with 0, so that repeated comparisons agree.
        draws: number of random sign vectors.

    Returns:
        The p-value; 1.0 if no pair differs.

    Raises:
        EvaluationError: the lengths differ, or a score is not finite.

    Source: R. A. Fisher, The Design of Experiments, 1935, section 21.

    >>> paired_permutation([0, 0, 0, 0], [1, 1, 1, 1])
    0.125

    """
    if len(x) != len(y):
        raise EvaluationError(f"paired scores must have equal length, got {len(x)} and {len(y)}")
    difference = np.asarray(y, dtype=np.float64) - np.asarray(x, dtype=np.float64)
    if not np.isfinite(difference).all():
        raise EvaluationError("scores must be finite")
    difference = difference[difference != 0]
    n = len(difference)
    if n == 0:
        return 1.0
    # sums of the same numbers in another order differ by rounding, so the comparison has a tolerance
    observed = abs(float(difference.sum()))
    threshold = observed - 1e-12 * float(np.abs(difference).sum())
    if n <= EXACT_PAIRS:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ difference) >= threshold))
    rng = rng or np.random.default_rng(0)
    count = 0
    for start in range(0, draws, 1000):
        signs = rng.integers(0, 2, size=(min(1000, draws - start), n)) * 2 - 1
        count += int(np.sum(np.abs(signs @ difference) >= threshold))
    return (1 + count) / (1 + draws)
