"""What a credit rule is measured by, given the truth: does it find the turns that mattered?

    rank      Spearman's correlation of the rule and the true advantage over all turns
    within    the mean of the same within episodes, where both vary
    sign      share of turns with the right sign among those whose true advantage is beyond two standard errors
    leak      mean |rule| over turns that probably did nothing, divided by mean |rule| over all turns
    error     RMSE after the best scale and shift of the rule by task, divided by the truth's standard deviation

Intervals come from a bootstrap over tasks: turns of a task share their games, so they are drawn together.

Not included: gradients (`turncredit.training.truth.gradients`), which say whether a rule trains in the right direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.truth.estimates import TINY, TrueCredit

__all__ = [
    "IDENTIFICATION",
    "RESAMPLES",
    "Density",
    "Draws",
    "Interval",
    "MeasuredTurns",
    "density",
    "draws_of",
    "identification",
    "identification_draws",
    "interval_of",
    "reliability",
]

RESAMPLES = 1000
NOTHING = 0.02
"""A turn did nothing if its advantage lies within this share of the range of returns around zero."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with its 95 % interval; None where it cannot be computed. `n` counts what it was computed from.

    An interval has two ends that differ, or none: draws that all agree do not say how far off the number may be.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """A number in each draw of a bootstrap, float64 [1 + S]; the first draw has each unit once.

    NaN where the number cannot be computed. `n` counts what it was computed from. Two rules whose draws have the same
    seed were measured on the same units, so their draws can be paired.
    """

    values: Floats
    n: int

    @property
    def interval(self) -> Interval:
        """The number with its 95 % interval."""
        return interval_of(self.values, self.n)


@dataclass(frozen=True, slots=True)
class Density:
    """How many turns matter: the share beyond two standard errors, and what the top tenth holds of the sum of |A|."""

    significant: float
    top_tenth: float


@dataclass(frozen=True, slots=True, eq=False)
class MeasuredTurns:
    """N turns with a known truth, and what a rule says about them.

    Args:
        rule: float64 [N], the rule's advantages, rounded so that equal ones stay equal.
        advantage: float64 [N], the true advantages.
        error: float64 [N], their standard errors.
        task: int64 [N], codes from 0 without gaps.
        trajectory: int64 [N], codes of the episodes.
        span: the range of the returns.
    """

    rule: Floats
    advantage: Floats
    error: Floats
    task: Ints
    trajectory: Ints
    span: float

    def by_task(self, values: Floats) -> Floats:
        """Return the sum of some values in each task, float64 [tasks]."""
        sums: Floats = np.bincount(self.task, values, int(self.task.max()) + 1).astype(np.float64)
        return sums


Measure = Callable[[MeasuredTurns, Floats], tuple[Floats, int]]
"""(turns, weights float64 [S, tasks] of the tasks in S draws) -> the number in each draw, NaN if there is none, and the
number of turns or episodes that it was computed from."""


def ranks(values: Floats) -> Floats:
    """Return the ranks from 1; equal values share the mean of their ranks.

    >>> ranks(np.array([10.0, 30.0, 20.0, 20.0])).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    weighted: Floats = _weighted_ranks(values, np.ones((1, len(values))))[0]
    return weighted + 0.5


def _weighted_ranks(values: Floats, weights: Floats) -> Floats:
    """Return how much weight lies below each value, with half of that at it, float64 [S, N]."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    inverse = inverse.reshape(-1)
    total = np.cumsum(weights[:, np.argsort(inverse, kind="stable")], axis=1)
    ends = total[:, np.cumsum(counts) - 1]
    starts = np.concatenate([np.zeros((len(weights), 1)), ends[:, :-1]], axis=1)
    result: Floats = ((starts + ends) / 2.0)[:, inverse]
    return result


def correlations(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Return Pearson's correlation of the rows of x and y [S, N] under weights [S, N]; NaN where one is constant."""
    total = np.maximum(weights.sum(axis=1, keepdims=True), TINY)
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    scale = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
    return _divide((weights * x * y).sum(axis=1), scale)


def correlation(x: Floats, y: Floats) -> float:
    """Return Pearson's correlation; NaN where one of them is constant."""
    return float(correlations(x[None], y[None], np.ones((1, len(x))))[0]) if len(x) > 1 else float("nan")


def rank(turns: MeasuredTurns, weights: Floats) -> tuple[Floats, int]:
    """Return Spearman's correlation over all turns."""
    of_turns = weights[:, turns.task]
    x, y = (_weighted_ranks(values, of_turns) for values in (turns.rule, turns.advantage))
    return correlations(x, y, of_turns), len(turns.rule)


def within(turns: MeasuredTurns, weights: Floats) -> tuple[Floats, int]:
    """Return the mean of Spearman's correlation within each episode where both vary."""
    order = np.argsort(turns.trajectory, kind="stable")
    episodes = np.split(order, np.flatnonzero(np.diff(turns.trajectory[order])) + 1)
    values = np.asarray([correlation(ranks(turns.rule[rows]), ranks(turns.advantage[rows])) for rows in episodes])
    task, finite = turns.task[[rows[0] for rows in episodes]], np.isfinite(values)
    counts = weights[:, task[finite]]
    return _divide(counts @ values[finite], counts.sum(axis=1)), int(finite.sum())


def sign(turns: MeasuredTurns, weights: Floats) -> tuple[Floats, int]:
    """Return the share of turns with the right sign; a rule that says zero is half right."""
    rows = np.abs(turns.advantage) > 2.0 * turns.error + TINY
    right = (1.0 + np.sign(turns.rule) * np.sign(turns.advantage)) / 2.0
    return _ratio(turns, weights, np.where(rows, right, 0.0), rows.astype(np.float64)), int(rows.sum())


def leak(turns: MeasuredTurns, weights: Floats) -> tuple[Floats, int]:
    """Return how much credit goes to turns that probably did nothing, in units of the mean |rule|.

        sum of w |rule| / sum of w / mean |rule|        w = Phi((d - A) / se) - Phi((-d - A) / se)

    with d = `NOTHING` times the range of the returns: w is the chance that the turn did nothing. The count is the sum
    of w, rounded; where that is zero, there is no leak to speak of.
    """
    weight = chance_of_nothing(turns.advantage, turns.error, NOTHING * turns.span)
    count = round(float(weight.sum()))
    if not count:
        return np.full(len(weights), np.nan), 0
    size = np.abs(turns.rule)
    everywhere = _ratio(turns, weights, size, np.ones(len(size)))
    return _divide(_ratio(turns, weights, weight * size, weight), everywhere), count


def chance_of_nothing(advantage: Floats, error: Floats, limit: float) -> Floats:
    """Return the probability that each true advantage lies within a limit around zero, float64 [N].

        >>> chance_of_nothing(np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.05, 0.05]), 0.02).round(3).tolist()
        [1.0, 0.311, 0.0]

    Args:
        advantage: float64 [N], the estimates.
        error: float64 [N], their standard errors; 0 where the advantage is known exactly.
        limit: distance of both ends from 0; the interval is -limit to limit.
    """
    exact = (np.abs(advantage) <= limit + TINY).astype(np.float64)
    scale = np.where(error > 0.0, error, 1.0) * math.sqrt(2.0)
    above, below = ((limit - advantage) / scale).tolist(), ((-limit - advantage) / scale).tolist()
    inside = [0.5 * (math.erf(high) - math.erf(low)) for high, low in zip(above, below, strict=True)]
    return np.where(error > 0.0, np.asarray(inside, dtype=np.float64), exact)


def error(turns: MeasuredTurns, weights: Floats) -> tuple[Floats, int]:
    """Return the RMSE after the best scale and shift of the rule in each task, in units of the truth's deviation.

    A rule that says nothing has about 1, the truth itself 0.
    """
    count = turns.by_task(np.ones(len(turns.rule)))
    x, y = (values - (turns.by_task(values) / count)[turns.task] for values in (turns.rule, turns.advantage))
    xx, xy = turns.by_task(x * x), turns.by_task(x * y)
    slope = np.divide(xy, xx, out=np.zeros(len(xx)), where=xx > TINY * TINY)
    mean_square = _ratio(turns, weights, (y - slope[turns.task] * x) ** 2, np.ones(len(x)))
    mean = _ratio(turns, weights, turns.advantage, np.ones(len(x)))
    variance = _ratio(turns, weights, turns.advantage**2, np.ones(len(x))) - mean**2
    return np.sqrt(_divide(mean_square, variance)), len(turns.rule)


IDENTIFICATION: Mapping[str, Measure] = {"rank": rank, "within": within, "sign": sign, "leak": leak, "error": error}
"""The measures of the first family, by name."""


def identification(
    rule: Floats, truth: TrueCredit, task: Ints, trajectory: Ints, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Interval]:
    """Return every measure of a rule with its interval; see `identification_draws`."""
    draws = identification_draws(rule, truth, task, trajectory, resamples=resamples, seed=seed)
    return {name: measured.interval for name, measured in draws.items()}


def identification_draws(
    rule: Floats, truth: TrueCredit, task: Ints, trajectory: Ints, *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Draws]:
    """Return every measure of a rule in each draw of a bootstrap over tasks.

    Args:
        rule: float64 [N], the advantages that the rule gives.
        truth: of the same N turns; those without an error are left out.
        task: int64 [N], the task of each turn: what the bootstrap draws.
        trajectory: int64 [N], the episode of each turn.
        resamples: draws of the bootstrap.
        seed: of the bootstrap.
    """
    rows = np.flatnonzero(truth.known)
    if not len(rows):
        return {name: Draws(np.array([np.nan]), 0) for name in IDENTIFICATION}
    _, tasks = np.unique(task[rows], return_inverse=True)
    values, advantage = np.round(rule[rows], 9), np.round(truth.advantage[rows], 9)
    turns = MeasuredTurns(
        values, advantage, truth.error[rows], tasks.reshape(-1).astype(np.int64), trajectory[rows], truth.span
    )
    weights = draws_of(int(turns.task.max()) + 1, resamples, seed)
    return {name: Draws(*measure(turns, weights)) for name, measure in IDENTIFICATION.items()}


def draws_of(count: int, resamples: int = RESAMPLES, seed: int = 0) -> Floats:
    """Return how often each unit is in each draw of a bootstrap, float64 [1 + resamples, count].

    The first row has each of them once. There is no other for less than two units.

    Source: B. Efron, 1979, Annals of Statistics 7.
    """
    rng = np.random.default_rng(seed)
    draws = rng.multinomial(count, np.full(count, 1.0 / max(1, count)), size=resamples if count > 1 else 0)
    return np.concatenate([np.ones((1, count)), draws.reshape(-1, count)])


def interval_of(values: Floats, n: int) -> Interval:
    """Return the number of the first draw, with the 95 % percentile interval of the others; none where they agree."""
    if not np.isfinite(values[0]):
        return Interval(None, None, None, n)
    finite = values[1:][np.isfinite(values[1:])]
    if not len(finite) or float(np.ptp(finite)) <= TINY:
        return Interval(float(values[0]), None, None, n)
    low, high = np.quantile(finite, [0.025, 0.975])
    return Interval(float(values[0]), float(low), float(high), n)


def reliability(truth: TrueCredit) -> float | None:
    """Return how much of the variance of the estimated advantages is truth: R = 2 rho / (1 + rho).

    rho is the correlation of the advantages from the two halves of the forks. The correlation of a rule with the true
    advantages is about its correlation with the estimated ones, divided by sqrt(R). None where it cannot be computed.

    Source: C. Spearman, 1910, and W. Brown, 1910, British Journal of Psychology 3.
    """
    both = truth.halves[:, np.isfinite(truth.halves).all(axis=0)]
    rho = correlation(both[0], both[1])
    return float(2.0 * rho / (1.0 + rho)) if np.isfinite(rho) and rho > -1.0 else None


def density(truth: TrueCredit) -> Density:
    """Return how the true advantages are spread over the turns."""
    size = np.sort(np.abs(truth.advantage[truth.known]))[::-1]
    total = float(size.sum())
    top = float(size[: max(1, round(len(size) / 10))].sum()) if len(size) else 0.0
    significant = truth.significant[truth.known]
    return Density(float(significant.mean()) if len(significant) else 0.0, top / total if total > TINY else 0.0)


def _ratio(turns: MeasuredTurns, weights: Floats, numerator: Floats, denominator: Floats) -> Floats:
    """Return the ratio of two sums over turns in each draw."""
    return _divide(weights @ turns.by_task(numerator), weights @ turns.by_task(denominator))


def _divide(numerator: Floats, denominator: Floats) -> Floats:
    """Return a ratio, NaN where the denominator is zero but for rounding."""
    result: Floats = np.divide(
        numerator, denominator, out=np.full(len(numerator), np.nan), where=denominator > TINY * TINY
    )
    return result
