"""Building blocks of credit rules: returns, group keys, and statistics within groups.

Everything is float64 and vectorised over the whole table. Sums within a group are exact, so permuting the rows gives
bit-identical results.
"""

from typing import Literal

import numpy as np

from turncredit.credit.option_checks import check_number
from turncredit.credit.steps import Bools, Floats, Ints, Steps

Scale = Literal["std", "none", "mad"]
Unit = Literal["trajectory", "turn"]
Singleton = Literal["zero", "raw"]
PenaltyIn = Literal["reward", "return", "advantage"]
Compat = Literal["verl-agent"]
Middle = Literal["mean", "median"]

ROUNDING = 1e-12
"""A group whose values differ by less than this has no spread, and its advantages are zero.

The tolerance is relative to the size of the summed terms: equal rewards added in different orders differ by about 1e-16
of it, real differences are far larger. Without it, rounding noise would be scaled up to a full-sized advantage.
"""


def discounted_returns(steps: Steps, gamma: float = 0.95, *, reward: Floats | None = None) -> Floats:
    """Return the discounted sum of rewards from each turn to the end, float64 [N].

        R[i, t] = sum over k >= 0 of gamma^k * r[i, t + k]

    `t + k` counts the turns in the table, in the order of `turn`. The sum takes log2(T) passes over the table, with T
    the length of the longest trajectory. A copy gets the return of its original.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[1, 0], reward=[1.0, 0.0])
        >>> discounted_returns(steps, 0.5).tolist()
        [1.0, 0.5]

    Args:
        steps: the table.
        gamma: discount per turn, in [0, 1].
        reward: float64 [N], used instead of `steps.reward`.

    Raises:
        BadOption: gamma is outside [0, 1].
    """
    check_number("gamma", gamma, 0.0, 1.0)
    order = steps.time_order
    paid = (steps.reward if reward is None else reward)[order]
    returns = np.zeros(len(steps))
    returns[order] = discounted_sums(paid, steps.trajectory[order], gamma)
    return returns[steps.source]


def discounted_sums(value: Floats, owner: Ints, factor: float) -> Floats:
    """Return the sum of each value and all later ones of its owner, discounted by distance, float64 [N].

    Args:
        value: float64 [N], owner after owner, each in order of time.
        owner: int64 [N]; the values of one owner lie together.
        factor: discount per place, in [0, 1].
    """
    total = value.copy()
    hop, power = 1, float(factor)
    while hop < len(total) and power > 0.0:
        same = owner[hop:] == owner[:-hop]
        if not same.any():
            break
        total[:-hop] += np.where(same, power * total[hop:], 0.0)
        hop, power = 2 * hop, power * power
    return total


def trajectory_scores(steps: Steps, *, reward: Floats | None = None) -> tuple[Floats, Ints, Ints]:
    """Return the score of every trajectory, its task, and the trajectory of every row.

        E[j] = sum over t of r[j, t]        (copies are not counted)

    Args:
        steps: the table.
        reward: float64 [N], used instead of `steps.reward`.

    Returns:
        scores float64 [J], tasks int64 [J] (codes), and member int64 [N] with the number j of each row's trajectory.
    """
    order = steps.time_order
    member = compact(steps.trajectory)
    count = groups_of(member)
    rewards = (steps.reward if reward is None else reward)[order]
    scores = group_sums(member[order], rewards, count)
    tasks = np.zeros(count, dtype=np.int64)
    tasks[member] = steps.task
    return scores, tasks, member


def positions(steps: Steps) -> Ints:
    """Return the number of turns before each row in its trajectory, int64 [N]; gaps do not count.

    >>> positions(Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[7, 2], reward=[0.0, 0.0])).tolist()
    [1, 0]
    """
    order = steps.time_order
    trajectory = steps.trajectory[order]
    starts = np.flatnonzero(np.append(True, trajectory[1:] != trajectory[:-1])) if len(order) else order
    passed = np.zeros(len(steps), dtype=np.int64)
    passed[order] = np.arange(len(order)) - np.repeat(starts, np.diff(np.append(starts, len(order))))
    return passed[steps.source]


def compact(*columns: Ints) -> Ints:
    """Return one key per row, int64 [N] from 0 to the number of distinct keys - 1; equal rows have equal keys.

    Args:
        *columns: integer [N] each, >= 0; rows are equal if they agree in all columns.
    """
    key = columns[0]
    for column in columns[1:]:
        if not _is_small(key, column):
            key, column = _relabelled(key), _relabelled(column)
        key = key * max(groups_of(column), 1) + column
    return _relabelled(key)


def _is_small(*columns: Ints) -> bool:
    """Whether the keys fit in an array not much longer than the table."""
    most = 1
    for column in columns:
        if not len(column) or int(column.min()) < 0:
            return False
        most *= int(column.max()) + 1
    return most <= 8 * len(columns[0])


def _relabelled(column: Ints) -> Ints:
    """The values of a column as 0, 1, 2, ... in ascending order."""
    if not _is_small(column):
        return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)
    there = np.bincount(column) > 0
    return column if there.all() else (np.cumsum(there) - 1)[column]


def group_sums(key: Ints, value: Floats, count: int) -> Floats:
    """Return the sum of each group, float64 [count], added up in the order of rows.

    Args:
        key: compact int64 [N], the group of each row.
        value: float64 [N].
        count: number of groups.
    """
    return np.bincount(key, weights=value, minlength=count).astype(np.float64, copy=False)


def exact_sums(key: Ints, share: Floats, count: int) -> Floats:
    """Return the sum of each group, float64 [count], bit-identical for every order of rows.

    Each value is rounded to a multiple of 2^-52 and split into two integers below 2^26, whose sums are exact up to 2^27
    rows. With weights above 1, such as numbers of tokens, the weights must not add up to more.

    Args:
        key: compact int64 [N], the group of each row.
        share: float64 [N] from 0 to 1.
        count: number of groups.
    """
    grain = 2.0**26
    high = np.floor(share * grain)
    low = np.rint((share * grain - high) * grain)
    return (group_sums(key, high, count) + group_sums(key, low, count) / grain) / grain


def groups_of(key: Ints) -> int:
    """Return the number of groups of a compact key."""
    return int(key.max()) + 1 if len(key) else 0


def unit_weights(key: Ints, trajectory: Ints, unit: Unit) -> Floats | None:
    """Return the weight of each row in the statistics of its group, float64 [N]; None means 1 each.

    With unit="trajectory" a trajectory counts once in each group, evenly split over its rows there, so that long
    episodes do not dominate. With unit="turn" every row counts once.

    Args:
        key: compact int64 [N], the group of each row.
        trajectory: int64 [N].
        unit: see `GroupOptions`.
    """
    if unit == "turn":
        return None
    cell = compact(key, trajectory)
    visits = np.bincount(cell)
    return None if (visits == 1).all() else (1.0 / visits)[cell]


class Groups:
    """Statistics of a value within groups: size, centre and spread.

    Args:
        value: float64 [N].
        key: compact int64 [N], the group of each row.
        weight: float64 [N], weight of each row (`unit_weights`); None means 1 each.
        size_of_terms: float64 [N], sum of the absolute terms of each value, for the rounding tolerance; None takes
            |value|.

    Attributes:
        size: float64 [groups], number of rows, or of trajectories under unit="trajectory".
        flat: bool [groups], whether the values are equal up to rounding. A group of one is flat.
    """

    def __init__(
        self, value: Floats, key: Ints, weight: Floats | None = None, *, size_of_terms: Floats | None = None
    ) -> None:
        """Compute the range of every group."""
        self.value, self.key = value, key
        self._centres: dict[Middle, Floats] = {}
        self._count = groups_of(key)
        self._weight = np.ones(len(value)) if weight is None else weight
        self._low, high = np.full(self._count, np.inf), np.full(self._count, -np.inf)
        np.minimum.at(self._low, key, value)
        np.maximum.at(high, key, value)
        largest = np.zeros(self._count)
        np.maximum.at(largest, key, np.abs(value) if size_of_terms is None else size_of_terms)
        width, self._noise = high - self._low, ROUNDING * largest
        self.flat: Bools = width <= self._noise
        # Values relative to the group's minimum, in units of the next power of two above its range: this avoids
        # cancellation and overflow, and keeps means of integers exact.
        self._unit = np.where(self.flat, 1.0, np.ldexp(1.0, np.frexp(width)[1]))
        self._share = np.where(self.flat[key], 0.0, (value - self._low[key]) / self._unit[key])
        self.size = exact_sums(key, self._weight, self._count)
        whole = np.rint(self.size)  # three thirds are exactly one
        self.size = np.where(np.abs(self.size - whole) < 1e-6, whole, self.size)

    def _centre(self, middle: Middle) -> Floats:
        """Centre of each group, in its units."""
        if middle not in self._centres and middle == "mean":
            self._centres[middle] = exact_sums(self.key, self._weight * self._share, self._count) / self.size
        elif middle not in self._centres:
            self._centres[middle] = self._lower_median(self._share)
        return self._centres[middle]

    def _lower_median(self, value: Floats) -> Floats:
        """Smallest value of each group with at least half of the group's weight at or below it."""
        order = np.lexsort((self._weight, value, self.key))
        group = self.key[order]
        before = np.append(0.0, np.cumsum(self.size))[group]
        rows = np.flatnonzero(np.cumsum(self._weight[order]) - before >= 0.5 * self.size[group] - 1e-6)
        return value[order[rows[np.unique(group[rows], return_index=True)[1]]]]

    def centre(self, middle: Middle = "mean") -> Floats:
        """Return the mean or lower median of each group, float64 [groups]; for a flat group its minimum."""
        return self._low + self._centre(middle) * self._unit

    def mean(self) -> Floats:
        """Return the mean of each group, float64 [groups]."""
        return self._low + np.where(self.flat, 0.0, self._centre("mean") * self._unit)

    def centred(self, middle: Middle = "mean") -> Floats:
        """Return value minus centre, float64 [N]; exactly zero in a flat group and within rounding of the centre."""
        distance = (self._share - self._centre(middle)[self.key]) * self._unit[self.key]
        return np.where(np.abs(distance) <= self._noise[self.key], 0.0, distance)

    def row_centres(self, middle: Middle = "mean") -> Floats:
        """Return the centre of each row's group, float64 [N]; in a flat group the row's own value."""
        centre = self._low + self._centre(middle) * self._unit
        return np.where(self.flat[self.key], self.value, centre[self.key])

    def deviation(self, ddof: int = 1, middle: Middle = "mean") -> Floats:
        """Return sqrt(sum w (x - centre)^2 / (size - ddof)), float64 [groups]; zero in a flat group."""
        squares = exact_sums(self.key, self._weight * (self._share - self._centre(middle)[self.key]) ** 2, self._count)
        return np.where(self.flat, 0.0, np.sqrt(squares / np.maximum(self.size - ddof, 1.0)) * self._unit)

    def median_deviation(self) -> Floats:
        """Return the lower median of |x - lower median|, float64 [groups]; zero in a flat group."""
        deviation = self._lower_median(np.abs(self._share - self._centre("median")[self.key])) * self._unit
        return np.where(self.flat | (deviation <= self._noise), 0.0, deviation)


def standardise(
    groups: Groups,
    *,
    scale: Scale = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    singleton: Singleton = "zero",
) -> Floats:
    """Return each value normalised within its group, float64 [N].

        none:  x - mean
        std:   (x - mean) / (std + eps)          std = sqrt(sum w (x - mean)^2 / (n - ddof))
        mad:   (x - median) / (mad + eps)        mad = median |x - median|, both the lower median

    where n = sum w. If the mad is zero although the values differ (a single winner), the standard deviation around the
    median replaces it. A group without spread gives exactly zero under every scale.

    Args:
        groups: the values with their groups and weights.
        scale, ddof, eps: see above.
        singleton: value of a group of one: "zero", or "raw", its value, divided by (1 + eps) if scaled.
    """
    middle: Middle = "median" if scale == "mad" else "mean"
    out = groups.centred(middle)
    raw = groups.value
    if scale != "none":
        denominator = divisors(groups, scale=scale, ddof=ddof, eps=eps)[groups.key]
        out = np.divide(out, denominator, out=np.zeros(len(out)), where=denominator > 0.0)
        raw = raw / (1.0 + eps)
    alone = (groups.size == 1.0)[groups.key]
    return np.where(alone, raw if singleton == "raw" else 0.0, out)


def divisors(groups: Groups, *, scale: Scale = "std", ddof: int = 1, eps: float = 1e-6) -> Floats:
    """Return the divisor of `standardise` for each group, float64 [groups]: the spread plus eps, or 1 without scale.

    Args:
        groups: the values with their groups and weights.
        scale, ddof, eps: see `standardise`.
    """
    if scale == "none":
        return np.ones(len(groups.size))
    if scale == "std":
        return groups.deviation(ddof) + eps
    mad = groups.median_deviation()
    return np.where(mad > 0.0, mad, groups.deviation(ddof, "median")) + eps


def whiten(
    value: Floats,
    tokens: Floats | Ints | Bools | None = None,
    *,
    ddof: int = 1,
    eps: float = 1e-8,
    size_of_terms: Floats | None = None,
) -> Floats:
    """Return the values whitened over all their tokens, float64 [N].

        W_i = (x_i - m) / sqrt(v + eps)
        m = sum n_i x_i / n        v = sum n_i (x_i - m)^2 / (n - ddof)        n = sum n_i

    where n_i is the number of tokens with the value x_i. Values without tokens do not count and become zero; without
    spread all values become zero. The order of rows has no effect.

        >>> whiten(np.array([1.0, 3.0, 9.0]), np.array([1, 1, 0]), eps=0.0).round(6).tolist()
        [-0.707107, 0.707107, 0.0]

    Args:
        value: float64 [N].
        tokens: [N], n_i >= 0, or a mask if the values are tokens. None counts each value once.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the variance, inside the root.
        size_of_terms: float64 [N], see `Groups`.
    """
    number = np.ones(len(value)) if tokens is None else np.asarray(tokens, dtype=np.float64)
    counted = number > 0.0
    terms = None if size_of_terms is None else size_of_terms[counted]
    batch = Groups(value[counted], np.zeros(int(counted.sum()), dtype=np.int64), number[counted], size_of_terms=terms)
    spread = np.hypot(batch.deviation(ddof), np.sqrt(eps))[batch.key]
    out = np.zeros(len(value))
    out[counted] = np.divide(batch.centred(), spread, out=np.zeros(len(spread)), where=spread > 0.0)
    return out


def penalties(steps: Steps, coefficient: float) -> Floats:
    """Return the penalty of each row, float64 [N], in units of reward; zero for valid actions."""
    return np.where(steps.invalid, float(coefficient), 0.0)
