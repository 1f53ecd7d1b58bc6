"""Sharing a budget of episodes between groups, so that the sizes add up to it exactly."""

from __future__ import annotations

import numpy as np

from turncredit.credit.columns import Floats, Ints
from turncredit.curriculum.errors import CurriculumError

__all__ = ["best_sizes", "evenly", "proportional"]

_FAINT = 1e-9
"""Share of the largest weight that a weight of 0 counts as, so that it receives what others cannot take."""


def evenly(total: int, groups: int) -> Ints:
    """Return `total` in equal parts; the first ones take the remainder.

    >>> evenly(11, 3).tolist()
    [4, 4, 3]
    """
    return total // groups + (np.arange(groups) < total % groups).astype(np.int64)


def proportional(total: int, weights: Floats, *, least: int, most: int) -> Ints:
    """Return sizes proportional to weights, within bounds, that add up to `total`.

        n[i] = clip(c w[i], least, most),   c such that the sum is total,   rounded by largest remainders

    Weights that are all 0 count as equal. Bounds that the total does not allow are widened. The first of equal
    remainders is rounded up.

    >>> proportional(24, np.array([0.3, 0.5, 0.3]), least=0, most=24).tolist()
    [7, 11, 6]
    >>> proportional(12, np.array([0.3, 0.5, 0.0]), least=2, most=12).tolist()
    [4, 6, 2]

    Args:
        total: sum of the sizes.
        weights: float64 [N], at least 0 and finite.
        least, most: bounds of a size.
    """
    n = len(weights)
    least, most = min(least, total // n), max(most, -(-total // n))
    peak = float(weights.max())
    share = np.maximum(weights / peak, _FAINT) if peak > 0 else np.ones(n)
    sizes, free = np.zeros(n), np.ones(n, dtype=bool)
    while free.any():
        quota = (total - sizes[~free].sum()) * share / share[free].sum()
        low, high = free & (quota < least), free & (quota > most)
        missing, surplus = (least - quota[low]).sum(), (quota[high] - most).sum()
        # The bounds that move the sizes more hold in the end; those on the other side may come free again.
        fixed = low if missing >= surplus else high
        if not (low | high).any():
            sizes[free] = quota[free]
            break
        sizes[fixed] = least if missing >= surplus else most
        free &= ~fixed
    return _rounded(sizes, total)


def _rounded(sizes: Floats, total: int) -> Ints:
    floors = np.floor(sizes + 1e-9)
    first = np.argsort(-np.round(sizes - floors, 9), kind="stable")[: total - int(floors.sum())]
    floors[first] += 1
    return floors.astype(np.int64)


def best_sizes(values: Floats, total: int, cost: Ints | None = None) -> Ints:
    """Return the choice of one column a row with the largest sum of values, whose costs add up to `total` exactly.

        max over k of  sum over i of values[i, k[i]]     subject to     sum over i of cost[i] k[i] = total

    By dynamic programming, in N K total steps. Among equal sums, the last rows take the smallest k.

    >>> best_sizes(np.array([[0.0, 1.0, 1.5], [0.0, 0.9, 2.0]]), 2).tolist()
    [0, 2]

    Args:
        values: float64 [N, K]; -inf for what may not be chosen.
        total: sum of the costs.
        cost: int64 [N], of one unit of k in each row, at least 1; None: 1.

    Raises:
        CurriculumError: no choice adds up to the total.
    """
    n, columns = values.shape
    best = np.full(total + 1, -np.inf)
    best[0] = 0.0
    choices = np.zeros((n, total + 1), dtype=np.int64)
    for row in range(n):
        step = 1 if cost is None else int(cost[row])
        after = np.full(total + 1, -np.inf)
        for k in range(min(columns - 1, total // step) + 1):
            shift = k * step
            sums = best[: total + 1 - shift] + values[row, k]
            better = sums > after[shift:]
            after[shift:][better] = sums[better]
            choices[row, shift:][better] = k
        best = after
    if best[total] == -np.inf:
        raise CurriculumError(f"no sizes of {n} groups add up to {total} episodes")
    sizes, left = np.zeros(n, dtype=np.int64), total
    for row in reversed(range(n)):
        sizes[row] = choices[row, left]
        left -= int(sizes[row]) * (1 if cost is None else int(cost[row]))
    return sizes
