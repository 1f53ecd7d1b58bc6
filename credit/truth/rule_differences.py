"""Rules beside each other: which of them say the same, and by how much they differ from one of them.

Differences are paired: both rules are measured on the same draws of tasks, so that what makes a draw easy or hard for
all of them cancels. Two intervals that overlap say nothing about the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from turncredit.credit.columns import Floats
from turncredit.credit.truth.estimates import TINY
from turncredit.credit.truth.metrics import Draws, Interval

__all__ = ["paired_differences", "same_rules"]

CONFIDENCE = 0.95
SAME = 1e-6
"""Share of its largest number by which a column may differ from a multiple of another one: the rules' own `eps`."""


def same_rules(columns: Mapping[str, Sequence[Floats]]) -> dict[str, str]:
    """Return for each rule the first one that says the same: whose columns are positive multiples of its own.

    Rank, sign, leak and the direction of a gradient are equal for such rules. Rules that say zero everywhere are the
    same; a negative multiple is another rule, and so is a mixture of positive factors in the same column.

    >>> same_rules({"a": [np.array([1.0, -2.0])], "b": [np.array([2.0, -4.0])], "c": [np.array([-1.0, 2.0])]})
    {'a': 'a', 'b': 'a', 'c': 'c'}

    Args:
        columns: by rule, one or more float64 [N] over the same turns: what it says, and what it says times its weights.
    """
    distinct: dict[str, list[Floats]] = {}
    same: dict[str, str] = {}
    for name, numbers in columns.items():
        scaled = [_scaled(column) for column in numbers]
        same[name] = next((earlier for earlier, known in distinct.items() if _equal(scaled, known)), name)
        if same[name] == name:
            distinct[name] = scaled
    return same


def _scaled(column: Floats) -> Floats:
    """Return a column in units of its largest number; zeros where that is rounding."""
    largest = float(np.abs(column).max(initial=0.0))
    return column / largest if largest > TINY else np.zeros_like(column)


def _equal(first: Sequence[Floats], second: Sequence[Floats]) -> bool:
    return all(bool((np.abs(left - right) <= SAME).all()) for left, right in zip(first, second, strict=True))


def paired_differences(draws: Mapping[str, Draws], reference: str) -> dict[str, Interval]:
    """Return the number of each rule minus that of the reference, with intervals that hold for all rules at once.

        d_k      difference of rule k; d_ks in draw s; e_k its standard deviation over the draws
        c        0.95 quantile over s of max over k of |d_ks - d_k| / e_k
        interval d_k - c e_k to d_k + c e_k

    So the chance that any of the intervals misses its difference is 5 %, however many rules are compared. There is no
    interval without draws, as for a single task, nor where the difference is the same in all of them: a sample without
    a spread does not say how far off it may be.

    Args:
        draws: by rule, all from the same draws.
        reference: one of the rules.

    Source: P. Westfall and S. Young, Resampling-based multiple testing, 1993: the largest of the statistics.
    """
    base = draws[reference]
    names = [name for name in draws if name != reference]
    if not names:
        return {}
    differences = np.stack([draws[name].values - base.values for name in names])
    value, others = differences[:, 0], differences[:, 1:]
    counts = [min(draws[name].n, base.n) for name in names]
    if not others.shape[1]:
        return {name: _interval(at, None, n) for name, at, n in zip(names, value, counts, strict=True)}
    finite = np.isfinite(others)
    moved = np.where(finite, others - value[:, None], 0.0)
    seen = finite.sum(axis=1)
    centre = moved.sum(axis=1) / np.maximum(seen, 1)
    spread = np.sqrt(np.where(finite, (moved - centre[:, None]) ** 2, 0.0).sum(axis=1) / np.maximum(seen - 1, 1))
    varies = np.isfinite(value) & (seen > 1) & (spread > TINY)
    factor = 0.0
    if varies.any():
        most = (np.abs(moved[varies]) / spread[varies, None]).max(axis=0)
        factor = float(np.quantile(most, CONFIDENCE))
    return {
        name: _interval(at, factor * width if varied else None, n)
        for name, at, width, varied, n in zip(names, value, spread, varies, counts, strict=True)
    }


def _interval(value: float, half: float | None, n: int) -> Interval:
    if not np.isfinite(value):
        return Interval(None, None, None, n)
    at = float(value)
    return Interval(at, None, None, n) if half is None else Interval(at, at - float(half), at + float(half), n)
