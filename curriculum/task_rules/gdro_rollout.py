"""Group sizes by difficulty: each bin has its own, and the budget is kept exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.option_checks import check_flag
from turncredit.curriculum.difficulty_bins import EDGES, bin_odds, bins_of, check_edges, losses_of
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.group_sizes import best_sizes, proportional
from turncredit.curriculum.inner_rule import Inner, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, by_id, counts_of, played_since, rows_of, success_or


class RolloutSizes(TypedDict):
    """The bin of each task, the size of its last group (0 for none), the scores, and the records before."""

    bins: Ints
    sizes: Ints
    scores: Floats
    counts: Counts
    tasks: Inner | None


def gdro_rollout(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    closed_form: bool = False,
    explore: bool = True,
    column: str | None = None,
    edges: Sequence[float] = EDGES,
    state: RolloutSizes | None = None,
) -> TaskDraw:
    """Return the tasks of a stream with one size for each bin of difficulty, which add up to count * group.

        max over n of  sum over b of ln P[b](n[b])      subject to  sum over the groups of n[bin] = count group
        P[b] = 0.99 exp(0.65 S[b, n]) / (sum over n) + 0.01 / (number of sizes),    n in 2 .. 2 group

        S[b, n] <- S[b, n] + mean loss of what was played of bin b with n episodes a group

    Every size is allowed in every bin, so that the budget can always be met, and the paper's multiplier for what is
    above it stays 0. Among equal sums, sizes near `group` are taken. Since scores only add up, the best sizes stay once
    a loss is above 0: `explore` adds Gumbel noise to ln P, so that sizes are drawn instead (ours).

    With `closed_form`, n is proportional to sqrt(p (1 - p)) of the bin by largest remainders, and at least 2; p is the
    mean share of won episodes at the last visits of its tasks, 1/2 for a bin without one. This is what the paper's
    analysis finds, and ours as a rule.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group, on average.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        closed_form: no scores, only the spread of each bin.
        explore: draw the sizes.
        column: remembered column with the loss of the task's last group; "loss": its mean policy-gradient loss, which
            every iteration writes (`task_columns`); None: the share of lost episodes (ours).
        edges: of the bins, by the share of visits with a winner (`bins_of`, with a margin of 0.03).
        state: of the previous draw.

    Source: GDRO, 2026, arXiv 2601.19280, and the code of its release. There, an iteration uses the bins of the tasks
        that stood at the same positions of the previous batch; here, bins are those of the tasks themselves.
    """
    check_edges(edges)
    check_flag("closed_form", closed_form)
    check_flag("explore", explore)
    pool = by_id(records)
    n, last = len(pool.tasks), state
    played = played_since(pool, None if last is None else last["counts"])
    past = np.zeros(n, dtype=np.int64) if last is None else last["bins"]
    used = np.zeros(n, dtype=np.int64) if last is None else last["sizes"]
    scores = np.zeros((len(edges) + 1, 2 * group + 1))
    if last is not None:  # the run may have another size of groups now
        shared = min(scores.shape[1], last["scores"].shape[1])
        scores[:, :shared] = last["scores"][:, :shared]
    losses = losses_of(pool, played, column)
    for number, size in sorted({(int(past[row]), int(used[row])) for row in np.flatnonzero(used)}):
        cell = (past == number) & (used == size) & np.isfinite(losses)
        if cell.any() and size < scores.shape[1]:
            scores[number, size] += np.average(losses[cell], weights=played.episodes[cell])
    bins = bins_of(pool, edges, 0.03, None if last is None else past)
    inner = None if last is None else last["tasks"]
    stream, inner = drawn_by(
        "uniform", pool, inner, count=count, group=group, iteration=iteration, total=total, rng=rng
    )
    rows = rows_of(pool, stream.tasks)
    if closed_form:
        sizes = proportional(count * group, _spread(pool, bins)[bins[rows]], least=2, most=count * group)
    else:
        sizes = arm_sizes(scores, bins[rows], group, rng if explore else None)
    used = used.copy()
    used[rows] = sizes
    after: RolloutSizes = {
        "bins": bins,
        "sizes": used,
        "scores": scores,
        "counts": counts_of(pool),
        "tasks": inner,
    }
    return TaskDraw(stream.tasks, tuple(sizes.tolist()), state=after)


def arm_sizes(scores: Floats, bins: Ints, group: int, rng: Generator | None = None) -> Ints:
    """Return the size of each group of a draw, equal within a bin, with the sum of one `group` for each.

    >>> scores = np.zeros((2, 9))
    >>> scores[0, 6] = 1.0
    >>> arm_sizes(scores, np.array([0, 0, 1, 1]), 4).tolist()
    [6, 6, 2, 2]

    Args:
        scores: float64 [bins, 2 group + 1], of each size.
        bins: int64 [G], of each group.
        group: episodes of a group, on average.
        rng: draws the sizes; None: the best ones.
    """
    present, rows, counts = np.unique(bins, return_inverse=True, return_counts=True)
    least = min(2, group)
    arms = np.arange(least, 2 * group + 1)
    odds = np.stack([np.log(bin_odds(scores[number, least:], 0.65, 0.01)) for number in present])
    values = odds + (0.0 if rng is None else rng.gumbel(size=odds.shape))
    values = values - 1e-9 * counts[:, None] * (arms - group) ** 2
    spare = len(bins) * (group - least)
    return np.asarray(least + best_sizes(values, spare, counts.astype(np.int64))[rows], dtype=np.int64)


def _spread(pool: TaskRecords, bins: Ints) -> Floats:
    """float64 [bins], sqrt(p (1 - p)) of the tasks of each bin that were played; 1/2 without one."""
    seen = np.isfinite(pool.success)
    size = int(bins.max()) + 1
    counts = np.bincount(bins[seen], minlength=size)
    sums = np.bincount(bins[seen], weights=success_or(pool, 0.0)[seen], minlength=size)
    p = np.where(counts > 0, sums / np.maximum(counts, 1), 0.5)
    return np.asarray(np.sqrt(np.clip(p * (1 - p), 0.0, None)))
