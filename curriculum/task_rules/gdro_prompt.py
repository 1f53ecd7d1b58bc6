"""Weights of groups by difficulty: an adversary raises those of the bins with the largest loss."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.difficulty_bins import EDGES, bin_odds, bins_of, check_edges, losses_of
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, by_id, counts_of, played_since, rows_of


class PromptWeights(TypedDict):
    """The bin of each task, the score of each bin (NaN for none), the records before, and the rule that draws."""

    bins: Ints
    scores: Floats
    counts: Counts
    tasks: Inner | None


def gdro_prompt(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    edges: Sequence[float] = EDGES,
    margin: float = 0.03,
    eta: float = 0.65,
    column: str | None = None,
    state: PromptWeights | None = None,
) -> TaskDraw:
    """Return the tasks of a stream with weights that grow with the losses of their bins.

        weight of an episode = min(q[b] / mean of q over the episodes of the draw, 15)
        q[b] = 0.99 exp(eta S[b]) / (sum over the B bins of the draw) + 0.01 / B
        S[b] <- 0.88 S[b] + 0.12 L[b]       L[b]: mean loss of the bin's episodes / the bin's share of the episodes

    after what was played since the previous draw; the first L[b] is taken as it is, and a bin without one has S = 0.
    Bins are by the share of visits with a winner (`bins_of`). Groups of one episode are fine.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        edges: of the bins.
        margin: by which a task must pass an edge to change its bin.
        eta: how much a score counts, at least 0.
        column: remembered column with the loss of the task's last group; "loss": its mean policy-gradient loss, which
            every iteration writes (`task_columns`); None: the share of lost episodes (ours).
        state: of the previous draw.

    Source: GDRO, 2026, arXiv 2601.19280, and the code and constants of its release. There, a window has 100 visits
        (here `WINDOW`), advantages are clipped to 5, and an option lets the first and last bin count more. The paper
        writes the weight without its normalisation.
    """
    check_edges(edges)
    check_number("margin", margin, 0.0, 1.0)
    check_number("eta", eta, 0.0)
    pool = by_id(records)
    played = played_since(pool, None if state is None else state["counts"])
    before = np.full(len(edges) + 1, np.nan) if state is None else state["scores"]
    past = np.zeros(len(pool.tasks), dtype=np.int64) if state is None else state["bins"]
    scores = bin_scores(before, past, losses_of(pool, played, column), played.episodes)
    bins = bins_of(pool, edges, margin, None if state is None else past)
    stream, inner = drawn_by(
        "uniform",
        pool,
        None if state is None else state["tasks"],
        count=count,
        group=group,
        iteration=iteration,
        total=total,
        rng=rng,
    )
    weights = bin_weights(np.nan_to_num(scores, nan=0.0), bins[rows_of(pool, stream.tasks)], eta)
    after: PromptWeights = {"bins": bins, "scores": scores, "counts": counts_of(pool), "tasks": inner}
    return TaskDraw(stream.tasks, stream.episodes, tuple(weights.tolist()), state=after)


def bin_scores(scores: Floats, bins: Ints, losses: Floats, episodes: Ints, beta: float = 0.12) -> Floats:
    """Return the scores of all bins after the losses of what was played; NaN for a bin of which nothing ever was.

    Args:
        scores: float64 [B], before; NaN for none.
        bins: int64 [N], of each task.
        losses: float64 [N], mean over the episodes of the task; NaN for none.
        episodes: int64 [N], that were played.
        beta: weight of the new loss.
    """
    used = np.isfinite(losses) & (episodes > 0)
    counts = np.bincount(bins[used], weights=episodes[used], minlength=len(scores))
    sums = np.bincount(bins[used], weights=losses[used] * episodes[used], minlength=len(scores))
    present = counts > 0
    fresh = np.zeros(len(scores))
    fresh[present] = sums[present] / counts[present] / (counts[present] / counts.sum())
    smooth = np.where(np.isfinite(scores), (1 - beta) * scores + beta * fresh, fresh)
    return np.where(present, smooth, scores)


def bin_weights(scores: Floats, bins: Ints, eta: float, gamma: float = 0.01, cap: float = 15.0) -> Floats:
    """Return the weight of each group of a draw; groups of equal size have mean 1 unless the cap is reached.

    >>> bin_weights(np.array([1.0, 0.0, -1.0]), np.array([0, 1, 1, 2]), 0.65).round(4).tolist()
    [1.7191, 0.9024, 0.9024, 0.476]

    Args:
        scores: float64 [B], of all bins.
        bins: int64 [G], of each group.
        eta: how much a score counts.
        gamma: share of the uniform distribution.
        cap: largest weight.
    """
    present, rows = np.unique(bins, return_inverse=True)
    odds = bin_odds(scores[present], eta, gamma)[rows]
    return np.asarray(np.minimum(odds / odds.mean(), cap))
