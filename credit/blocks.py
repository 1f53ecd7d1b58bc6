"""The few pieces that estimators are made of: returns, group keys, weights, centring and scaling.

All of it is float64 and vectorised over the whole table; nothing loops over rows. Sums within a group run over the
group's values in sorted order, so a permutation of the rows gives the same bits and not only nearly the same numbers.

Left out on purpose: any statistic over the whole batch, or across groups. No method that is here uses one.
"""

from typing import Literal, get_args

import numpy as np

from turnwise.credit.errors import BadOption, near
from turnwise.credit.steps import Bools, Floats, Ints, Steps

Scale = Literal["std", "none", "mad"]
Unit = Literal["trajectory", "turn"]
Singleton = Literal["zero", "raw"]
PenaltyIn = Literal["reward", "return", "advantage"]
Compat = Literal["verl-agent"]
Middle = Literal["mean", "median"]

ROUNDING = 1e-12
"""A group whose values differ by less than this, relative to the largest, has no spread: its advantages are zero.

Equal rewards that were summed or discounted along different ways differ by some 1e-16; the spread of real rewards is
never this small. Without the rule a standard deviation of rounding noise is scaled up to a full-sized advantage.
"""


def discounted_returns(steps: Steps, gamma: float = 0.95, *, reward: Floats | None = None) -> Floats:
    """Return the discounted sum of rewards from each turn on, float64 [N].

        R[i, t] = sum over k >= 0 of gamma^k * r[i, t + k]

    `t + k` counts the turns that the table has, in the order of `turn`. The sum is taken by doubling, in log2(T) passes
    over the table, T the turns of the longest trajectory. A copy gets the return of its original.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[1, 0], reward=[1.0, 0.0])
        >>> discounted_returns(steps, 0.5).tolist()
        [1.0, 0.5]

    Args:
        steps: the table.
        gamma: discount per turn, in [0, 1].
        reward: float64 [N] to be used in place of `steps.reward`.

    Raises:
        BadOption: gamma is outside [0, 1].
    """
    check_number("gamma", gamma, 0.0, 1.0)
    order = steps.time_order
    total = (steps.reward if reward is None else reward)[order]
    trajectory = steps.trajectory[order]
    hop, factor = 1, float(gamma)
    while hop < len(order) and factor > 0.0:
        same = trajectory[hop:] == trajectory[:-hop]
        if not same.any():
            break
        total[:-hop] += np.where(same, factor * total[hop:], 0.0)
        hop, factor = 2 * hop, factor * factor
    returns = np.zeros(len(steps))
    returns[order] = total
    return returns[steps.source]


def trajectory_scores(steps: Steps, *, reward: Floats | None = None) -> tuple[Floats, Ints, Ints]:
    """Return the score of every trajectory, its task, and the trajectory of every row.

        E[j] = sum over t of r[j, t]        (copies are not counted)

    Args:
        steps: the table.
        reward: float64 [N] to be used in place of `steps.reward`.

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


def compact(*columns: Ints) -> Ints:
    """Return one key per row, int64 [N] from 0 to the number of distinct rows less one; equal rows have equal keys.

    Args:
        *columns: integer [N] each, not negative; a row's key stands for its values in all of them.
    """
    key = _relabelled(columns[0])
    for column in columns[1:]:
        other = _relabelled(column)
        key = _relabelled(key * max(groups_of(other), 1) + other)
    return key


def _relabelled(column: Ints) -> Ints:
    """The values of a column as 0, 1, 2, ... in ascending order; without sorting where they are small."""
    if len(column) and int(column.min()) >= 0 and int(column.max()) <= 8 * len(column):
        return (np.cumsum(np.bincount(column) > 0) - 1)[column]
    return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.int64, copy=False)


def group_sums(key: Ints, value: Floats, count: int) -> Floats:
    """Return the sum of each group, float64 [count], added up in the order of rows.

    Args:
        key: compact int64 [N], the group of each row.
        value: float64 [N].
        count: number of groups.
    """
    return np.bincount(key, weights=value, minlength=count).astype(np.float64, copy=False)


def groups_of(key: Ints) -> int:
    """Return the number of groups of a compact key."""
    return int(key.max()) + 1 if len(key) else 0


def unit_weights(key: Ints, trajectory: Ints, unit: Unit) -> Floats | None:
    """Return how much each row counts in the statistics of its group, float64 [N]; None stands for one each.

    With `unit="trajectory"` a trajectory counts once in each group, evenly split over its rows there, so that neither a
    long episode nor one that walks in a circle outvotes the others. With `unit="turn"` every row counts once.

    Args:
        key: compact int64 [N], the group of each row.
        trajectory: int64 [N].
        unit: what counts once.
    """
    if unit == "turn":
        return None
    cell = compact(key, trajectory)
    visits = np.bincount(cell)
    return None if (visits == 1).all() else (1.0 / visits)[cell]


class Groups:
    """Statistics of a value within groups: how many count, where the centre lies, how wide the spread is.

    Args:
        value: float64 [N].
        key: compact int64 [N], the group of each row.
        weight: float64 [N], how much a row counts (`unit_weights`); None for one each.

    Attributes:
        size: float64 [groups], what counts in each group: rows, or trajectories under `unit="trajectory"`.
        flat: bool [groups], whether the values are equal but for rounding. A group of one is flat.
    """

    def __init__(self, value: Floats, key: Ints, weight: Floats | None = None) -> None:
        """Sort the rows by group and value, and measure every group."""
        self.value, self.key = value, key
        count = groups_of(key)
        order = np.lexsort((value, key)) if weight is None else np.lexsort((weight, value, key))
        self._group = key[order]
        sorted_value = value[order]
        starts = np.flatnonzero(np.diff(self._group, prepend=-1))
        ends = np.append(starts[1:], len(order)) - 1 if count else starts
        self.low = sorted_value[starts]
        self._width = sorted_value[ends] - self.low
        largest = np.maximum(np.abs(self.low), np.abs(sorted_value[ends]))
        self.flat: Bools = self._width <= ROUNDING * largest
        self._unit = np.where(self.flat, 1.0, self._width)
        # Values as a share of their group's width, counted from its lowest: no cancellation, no overflow of squares.
        self._share = (sorted_value - self.low[self._group]) / self._unit[self._group]
        self._weight = np.ones(len(order)) if weight is None else weight[order]
        self.size = group_sums(self._group, self._weight, count)
        if weight is not None:
            self.size = np.round(self.size, 6)

    def _sum(self, sorted_value: Floats) -> Floats:
        return group_sums(self._group, self._weight * sorted_value, len(self.low))

    def _centre(self, middle: Middle) -> Floats:
        """Centre of each group, as a share of its width."""
        if middle == "mean":
            return self._sum(self._share) / self.size
        return _lower_median(self._share, self._group, self._weight, self.size)

    def centred(self, middle: Middle = "mean") -> Floats:
        """Return value less centre, float64 [N]; exactly zero in a flat group."""
        share = (self.value - self.low[self.key]) / self._unit[self.key]
        distance = (share - self._centre(middle)[self.key]) * self._unit[self.key]
        return np.where(self.flat[self.key], 0.0, distance)

    def deviation(self, ddof: int = 1, middle: Middle = "mean") -> Floats:
        """Return sqrt(sum w (x - centre)^2 / (size - ddof)), float64 [groups]; zero in a flat group."""
        squares = self._sum((self._share - self._centre(middle)[self._group]) ** 2)
        deviation = np.sqrt(squares / np.maximum(self.size - ddof, 1.0)) * self._unit
        return np.where(self.flat, 0.0, deviation)

    def median_deviation(self) -> Floats:
        """Return the lower median of |x - lower median|, float64 [groups]; zero in a flat group."""
        away = np.abs(self._share - self._centre("median")[self._group])
        order = np.lexsort((self._weight, away, self._group))
        deviation = _lower_median(away[order], self._group, self._weight[order], self.size) * self._unit
        return np.where(self.flat | (deviation <= ROUNDING * self._unit), 0.0, deviation)


def _lower_median(value: Floats, group: Ints, weight: Floats, size: Floats) -> Floats:
    """Smallest value with at least half of its group's weight at or below it; rows sorted by group, then value."""
    if not len(group):
        return np.zeros(0)
    below = np.cumsum(weight) - np.repeat(np.append(0.0, np.cumsum(size)[:-1]), np.bincount(group))
    rows = np.flatnonzero(below >= 0.5 * size[group] - 1e-6)
    _, first = np.unique(group[rows], return_index=True)
    return value[rows[first]]


def standardise(
    groups: Groups,
    *,
    scale: Scale = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    singleton: Singleton = "zero",
) -> Floats:
    """Return each value relative to its group, float64 [N].

        none:  x - mean
        std:   (x - mean) / (std + eps)          std = sqrt(sum w (x - mean)^2 / (n - ddof))
        mad:   (x - median) / (mad + eps)        mad = median |x - median|, both the lower median

    where n = sum w. Where the mad is zero although the values differ (a lone winner), the deviation around the median
    takes its place: dividing by eps alone would blow the winner up to a million. A group without spread gives exactly
    zero, whatever the scale.

    Args:
        groups: the values with their groups and weights.
        scale, ddof, eps: see above.
        singleton: what a group of one gives: "zero", or "raw", its value, over (1 + eps) when scaled.
    """
    middle: Middle = "median" if scale == "mad" else "mean"
    out = groups.centred(middle)
    raw = groups.value
    if scale != "none":
        spread = groups.deviation(ddof, middle)
        if scale == "mad":
            mad = groups.median_deviation()
            spread = np.where(mad > 0.0, mad, spread)
        denominator = (spread + eps)[groups.key]
        out = np.divide(out, denominator, out=np.zeros(len(out)), where=denominator > 0.0)
        raw = raw / (1.0 + eps)
    alone = (groups.size == 1.0)[groups.key]
    return np.where(alone, raw if singleton == "raw" else 0.0, out)


def penalties(steps: Steps, coefficient: float) -> Floats:
    """Return what each row's invalid action costs, float64 [N] in units of reward: the coefficient, or zero."""
    return np.where(steps.invalid, float(coefficient), 0.0)


def check_choice(name: str, value: object, choices: object) -> None:
    """Raise BadOption, with the near name, unless `value` is one of the strings of a Literal type.

    Args:
        name: the option.
        value: what came.
        choices: the Literal.
    """
    known = get_args(choices)
    if value not in known:
        raise BadOption(f"option {name}={value!r} is unknown; {near(value, known)}")


def check_number(name: str, value: object, low: float, high: float = float("inf"), *, whole: bool = False) -> None:
    """Raise BadOption unless `value` is a number from `low` to `high`, both included.

    Args:
        name: the option.
        value: what came.
        low, high: the range.
        whole: whether it must be an integer.
    """
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(value, bool | np.bool_) or not isinstance(value, kinds) or not low <= value <= high:
        wanted = "a whole number" if whole else "a number"
        reach = f"from {low:g} to {high:g}" if high != float("inf") else f"of at least {low:g}"
        raise BadOption(f"option {name} must be {wanted} {reach}; came {value!r}")
