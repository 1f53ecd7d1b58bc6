"""Rank correlation with an interval that resamples the seeds: do two measurements of the same runs rise together?

Not included: p-values. Runs share tasks and warm starts, and several correlations are looked at together, so a p-value
would promise more than such data can give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.errors import EvaluationError

FEWEST = 5
"""Runs below which there is no correlation: the order of three or four says next to nothing."""
RESAMPLES = 2000


def ranks(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the ranks from 1 along the last axis; equal values share the mean of their ranks.

    >>> ranks(np.array([10, 30, 20, 20])).tolist()
    [1.0, 4.0, 2.5, 2.5]
    """
    column, row = values[..., :, None], values[..., None, :]
    positions = (row < column).sum(-1) + ((row == column).sum(-1) + 1) / 2
    return np.asarray(positions, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class RankCorrelation:
    """Spearman's rank correlation with a 95 % bootstrap interval."""

    value: float | None
    """In [-1, 1]; None if all values of one measurement are equal, or if there are fewer than `FEWEST` runs."""
    low: float | None
    """None without a value, and where all resamples agree."""
    high: float | None
    n: int

    @classmethod
    def of(cls, strata: Sequence[Sequence[tuple[float, float]]], confidence: float = 0.95) -> RankCorrelation:
        """Return the correlation of the ranks of x and y over all runs, with a percentile interval.

        Each resample draws as many runs from each stratum as it has, with replacement: other seeds of the same
        experiments. Resamples without a spread are left out. With few runs such intervals are too narrow, and where all
        resamples agree there is none.

        >>> RankCorrelation.of([[(1, 10), (2, 30), (3, 20)], [(4, 50), (5, 40)]]).value
        0.8

        Args:
            strata: pairs (x, y), one for each run, by experiment.
            confidence: confidence of the interval, in (0, 1).

        Raises:
            EvaluationError: a measurement is not finite.

        Source: C. Spearman, 1904, American Journal of Psychology 15; B. Efron, 1979, Annals of Statistics 7.
        """
        tables = [np.asarray(pairs, dtype=np.float64) for pairs in strata if len(pairs)]
        n = sum(map(len, tables))
        if n < FEWEST:
            return cls(None, None, None, n)
        if not all(np.isfinite(table).all() for table in tables):
            raise EvaluationError("measurements must be finite to have ranks")
        value = _correlations(np.concatenate(tables)[None])
        if not len(value):
            return cls(None, None, None, n)
        rng = np.random.default_rng(0)
        drawn = [table[rng.integers(0, len(table), size=(RESAMPLES, len(table)))] for table in tables]
        ends = [(1 - confidence) / 2, (1 + confidence) / 2]
        resampled = _correlations(np.concatenate(drawn, axis=1))
        if not len(resampled) or np.ptp(resampled) <= 1e-12:
            return cls(float(value[0]), None, None, n)
        low, high = np.quantile(resampled, ends)
        return cls(float(value[0]), float(low), float(high), n)


def _correlations(samples: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rank correlation of each sample, float64 [<= S], of pairs [S, n, 2]; not of those without a spread."""
    x, y = (ranks(samples[..., side]) for side in (0, 1))
    x, y = x - x.mean(-1, keepdims=True), y - y.mean(-1, keepdims=True)
    spread = np.sqrt((x * x).sum(-1) * (y * y).sum(-1))
    return np.asarray(((x * y).sum(-1)[spread > 0] / spread[spread > 0]).clip(-1.0, 1.0))
