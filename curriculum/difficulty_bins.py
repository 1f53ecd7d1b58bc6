"""Bins of tasks by how often a visit had a winner, and the losses of what was played of each bin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.errors import BadOption
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import PlayedSince

__all__ = ["EDGES", "bin_odds", "bins_of", "check_edges", "losses_of"]

EDGES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.9)
"""Edges of the bins in the released script of GDRO."""


def check_edges(edges: Sequence[float]) -> None:
    """Raise BadOption unless the edges of bins grow and lie in (0, 1)."""
    if isinstance(edges, str) or not isinstance(edges, Sequence) or not edges:
        raise BadOption(f"edges must be numbers that grow, such as {list(EDGES)}, got {edges!r}")
    for edge in edges:
        check_number("edges", edge, 0.0, 1.0, open_low=True)
    if list(edges) != sorted(set(edges)):
        raise BadOption(f"edges must be numbers that grow, such as {list(EDGES)}, got {edges!r}")


def bins_of(records: TaskRecords, edges: Sequence[float], margin: float, before: Ints | None) -> Ints:
    """Return the bin of each task: the number of edges at or below its share of visits with a winner.

    The share is that of the visits in the records' window, 0 for a task that was never played. A task leaves the bin
    that it had before only when its share passes the edge by `margin`.

    Args:
        records: with rows in the order of their ids.
        edges: of the bins.
        margin: of the share.
        before: int64 [N], the bins at the previous draw.
    """
    seen = np.isfinite(records.window)
    share = (np.nan_to_num(records.window, nan=0.0) > 0).sum(axis=1) / np.maximum(seen.sum(axis=1), 1)
    bins: Ints = np.searchsorted(np.asarray(edges), share, side="right").astype(np.int64)
    if before is None:
        return bins
    bounds = np.array([-np.inf, *edges, np.inf])
    stays = (bounds[before] - margin <= share) & (share < bounds[before + 1] + margin)
    return np.asarray(np.where(stays, before, bins))


def losses_of(records: TaskRecords, played: PlayedSince, column: str | None) -> Floats:
    """Return the loss of each task that was played; NaN for the others.

    Args:
        records: with rows in the order of their ids.
        played: since the previous draw.
        column: what was remembered of each task's last group; None: the share of lost episodes.
    """
    losses = 1 - played.success if column is None else records.column(column)
    return np.where(played.episodes > 0, losses, np.nan)


def bin_odds(scores: Floats, eta: float, gamma: float) -> Floats:
    """Return (1 - gamma) softmax(eta scores) + gamma / B for B scores.

    >>> bin_odds(np.array([1.0, 0.0, -1.0]), 0.65, 0.01).round(4).tolist()
    [0.555, 0.2913, 0.1537]

    Args:
        scores: float64 [B].
        eta: how much a score counts.
        gamma: share of the uniform distribution.
    """
    powers = np.exp(eta * (scores - scores.max()))
    return np.asarray((1 - gamma) * powers / powers.sum() + gamma / len(scores))
