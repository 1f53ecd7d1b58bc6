"""Choosing rows of a pool: the heaviest, at random by weight, or those that waited longest.

Where fewer rows than wanted exist, every row is taken once before any is taken again.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats, Ints

__all__ = ["heaviest", "logs", "waiting", "weighted"]


def heaviest(scores: Floats, count: int) -> Ints:
    """Return the rows with the largest scores, the largest first; the smaller row wins a tie.

    >>> heaviest(np.array([0.1, 0.5, 0.5]), 2).tolist(), heaviest(np.array([0.1, 0.5]), 3).tolist()
    ([1, 2], [1, 0, 1])

    Args:
        scores: float64 [N], finite.
        count: number of rows.
    """
    return np.resize(np.argsort(-scores, kind="stable"), count)


def logs(weights: Floats) -> Floats:
    """Return the logarithms of weights for `weighted`; -inf for a weight of 0."""
    return np.log(weights, out=np.full(len(weights), -np.inf), where=weights > 0)


def weighted(rng: Generator, log_weights: Floats, count: int) -> Ints:
    """Return rows drawn one after the other, without replacement, with probability proportional to exp(log_weights).

    Rows of weight 0 (-inf) follow when no others are left, in random order. When all are drawn, all may be drawn again.

    Args:
        rng: of the draw.
        log_weights: float64 [N], not NaN; only their differences count.
        count: number of rows.

    Source: the largest of log-weights plus Gumbel noise are such a draw (Yellott 1977).
    """
    n = len(log_weights)
    rounds = []
    for _ in range(-(-count // n)):
        noise = rng.gumbel(size=n)
        rounds.append(np.lexsort((-noise, -(log_weights + noise))))
    return np.concatenate(rounds)[:count]


def waiting(rng: Generator, drawn: Ints, rows: Ints, count: int) -> Ints:
    """Return those of some rows that were drawn longest ago, in random order where that is equally long.

    Args:
        rng: of the draw.
        drawn: int64 [N], a mark that grows from draw to draw; 0 for a row that was never drawn.
        rows: int64 [M], the rows to choose from.
        count: number of rows.
    """
    order = rows[np.lexsort((rng.random(len(rows)), drawn[rows]))]
    return np.resize(order, count)
