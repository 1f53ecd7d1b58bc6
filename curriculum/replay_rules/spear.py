"""SPEAR: successes are imitated again once there are enough of them, relative to what groups earn by now."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.replay import ReplayBatch
from turncredit.curriculum.stored_episodes import Index


def spear(
    index: Index,
    *,
    scores: tuple[float, ...],
    factor: float = 1.5,
    batch: int = 128,
    percentile: float = 50.0,
    warmup: int = 200,
    weight: float = 1.0,
    history: int = 10240,
    state: Mapping[str, Sequence[float]] | None = None,
) -> ReplayBatch:
    """Return all stored episodes that are better than the memory of group means, as soon as there are many.

        b = percentile of the last `history` group means
        fires when the number of stored episodes with a reward > b exceeds factor * batch; the store is then emptied
        A = reward - b, episodes with A < 0 are left out
        weight = weight * (1 - cos(pi min(c, warmup) / warmup)) / 2          c = iterations so far

    Args:
        index: the stored episodes; use experience with keep = "positive", and an age of 5 to 10.
        scores: mean reward of each group of this iteration.
        factor: see above.
        batch: episodes of an iteration.
        percentile: in [0, 100].
        warmup: iterations over which the weight rises.
        weight: at the end of it.
        history: group means that are remembered.
        state: iterations and group means so far.

    Source: Qin et al. 2025 (SPEAR), arXiv 2509.22601, after its public code. There the batch is cut to a power of two.
    """
    check_number("factor", factor, 0.0)
    check_number("batch", batch, 1, whole=True)
    check_number("percentile", percentile, 0.0, 100.0)
    check_number("warmup", warmup, 0, whole=True)
    check_number("weight", weight, 0.0)
    check_number("history", history, 1, whole=True)
    means = [*(state["means"] if state else ()), *scores][-history:]
    calls = (int(state["calls"][0]) if state else 0) + 1
    memory = {"means": means, "calls": [calls]}
    baseline = float(np.percentile(means, percentile)) if means else 0.0
    if sum(episode.reward > baseline for episode in index.episodes) <= factor * batch:
        return ReplayBatch(state=memory)
    better = [episode for episode in index.episodes if episode.reward >= baseline]
    return ReplayBatch(
        tuple(episode.id for episode in better),
        tuple(episode.reward - baseline for episode in better),
        weight * rising(calls, warmup),
        empty=True,
        state=memory,
    )


def rising(calls: int, warmup: int) -> float:
    """Return a weight that rises from 0 to 1 along half a cosine.

    >>> [round(rising(calls, 200), 3) for calls in (0, 100, 200, 300)]
    [0.0, 0.5, 1.0, 1.0]
    """
    return (1.0 - math.cos(math.pi * min(1.0, calls / warmup))) / 2.0 if warmup else 1.0
