"""Group sizes by dynamic programming: more episodes where the next one is likelier to make a group useful."""

from __future__ import annotations

import math

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Bools, Floats, Ints
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.group_sizes import best_sizes, evenly
from turncredit.curriculum.inner_rule import Inner, RuleChoice, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id, rows_of


def knapsack(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    least: int = 2,
    most: int = 128,
    alpha: float = 0.9,
    released: bool = False,
    tasks: RuleChoice = "uniform",
    state: Inner | None = None,
) -> TaskDraw:
    """Return the tasks of another rule with the sizes that make the expected gain of the batch as large as possible.

    `knapsack_sizes` has the equations. p is the share of won episodes at the last visit; a task without one gets
    `group` episodes. The sizes add up to count * group. Groups differ in size, which a credit rule with
    `unit = "trajectory"` expects.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group, on average.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        least: episodes of every group.
        most: largest size, unless only tasks with p = 0 or 1 could take more.
        alpha: probability of a useful group with which a task has had enough, in (0, 1).
        released: compute as the released code does.
        tasks: rule that draws the tasks.
        state: of the previous draw.

    Source: Knapsack RL, 2025, arXiv 2509.25849, and its code.
    """
    check_number("least", least, 1, whole=True)
    check_number("most", most, least, whole=True)
    check_number("alpha", alpha, 0.0, 1.0 - 1e-9, open_low=True)
    check_flag("released", released)
    pool = by_id(records)
    draw, inner = drawn_by(tasks, pool, state, count=count, group=group, iteration=iteration, total=total, rng=rng)
    p = pool.success[rows_of(pool, draw.tasks)]
    sizes = np.full(count, group, dtype=np.int64)
    if np.isfinite(p).any():
        measured = np.isfinite(p)
        sizes[measured] = knapsack_sizes(p[measured], group, least=least, most=most, alpha=alpha, released=released)
    return TaskDraw(draw.tasks, tuple(sizes.tolist()), draw.weight, draw.options, state=inner)


def knapsack_sizes(
    p: Floats, group: int, *, least: int = 2, most: int = 128, alpha: float = 0.9, released: bool = False
) -> Ints:
    """Return group sizes by the rate of success of each task.

        max over n of  sum of V(n[i], p[i])                 least <= n[i] <= most, sum of n = N group
        V(n, p) = (1 - p^n - (1 - p)^n) p (1 - p)^2

    Every task first gets `least` episodes. Without a task of 0 < p < 1, the others go to those of p = 0 in equal parts,
    or to all if there are none. Otherwise a task has had enough with its cost, ln(1 - alpha) / ln max(p, 1 - p)
    episodes: if the costs do not take what is left, those of p = 0 share the surplus (those of p = 1 if there are
    none), the first of them its remainder. What `most` does not let others take goes to 0 < p < 1 in equal parts.

    >>> knapsack_sizes(np.array([0.0, 0.25, 0.5, 0.75, 1.0]), 8, most=16).tolist()
    [13, 11, 7, 7, 2]

    Args:
        p: float64 [N], in [0, 1].
        group: episodes of a group, on average.
        least, most: bounds of a size.
        alpha: probability of a useful group with which a task has had enough.
        released: V(least) counts as 0, as in the released code, which makes the first further episode of a task look
            better than it is.
    """
    least = min(least, group)
    sizes = np.full(len(p), least, dtype=np.int64)
    left = len(p) * (group - least)
    open_, lost, won = (p > 0) & (p < 1), p == 0, p == 1
    if not open_.any():
        return _given(sizes, lost if lost.any() else won, left)
    cost = math.log(1 - alpha) / np.log(np.maximum(p[open_], 1 - p[open_]))
    surplus = left - int(np.minimum(most, cost).astype(np.int64).sum())
    if surplus > 0 and (lost.any() or won.any()):
        sizes = _given(sizes, lost if lost.any() else won, surplus)
        left -= surplus
    more = np.arange(max(most - least, 0) + 1)
    values = _gain(p[open_][:, None], least + more[None, :])
    if released:
        values[:, 0] = 0.0
    shared = min(left, int(open_.sum()) * int(more[-1]))
    sizes[open_] += best_sizes(values, shared)
    return _given(sizes, open_, left - shared)


def _gain(p: Floats, n: Ints) -> Floats:
    return np.asarray((1 - p**n - (1 - p) ** n) * p * (1 - p) ** 2)


def _given(sizes: Ints, rows: Bools, episodes: int) -> Ints:
    after = sizes.copy()
    after[rows] += evenly(episodes, int(rows.sum()))
    return after
