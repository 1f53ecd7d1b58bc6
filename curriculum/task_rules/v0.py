"""Group sizes by the expected number of useful episodes, with rates of success from a value model."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats, Ints
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.group_sizes import best_sizes, evenly
from turncredit.curriculum.inner_rule import Inner, RuleChoice, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id, rows_of
from turncredit.curriculum.similar_tasks import from_similar

Solver = Literal["optimum", "greedy"]
LIKENESS = 0.1
"""Temperature of the likeness of tasks."""


def v0(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    least: int = 2,
    most: int = 128,
    solver: Solver = "optimum",
    column: str = "value",
    tasks: RuleChoice = "uniform",
    weights: Mapping[str, float] | None = None,
    state: Inner | None = None,
) -> TaskDraw:
    """Return the tasks of another rule with sizes by `v0_sizes`, which add up to count * group.

    p is the prediction of the column; else the share of won episodes at the last visit; else what tasks like it say
    (`from_similar`); else, before any task was played, 1/2. Groups differ in size, which a credit rule with
    `unit = "trajectory"` expects.

    Args:
        records: of all tasks. The prediction is the remembered column of that name, in [0, 1].
        count: number of groups.
        group: episodes of a group, on average.
        iteration, total: finished iterations, and those of the whole run.
        rng: generator of the draw.
        least, most: bounds of a size, episodes.
        solver: "greedy", one episode after the other, or the "optimum".
        column: name of the predictions.
        tasks: rule that draws the tasks.
        weights: weights of the parts of a mixture, whose tasks are unlike those of other parts; None without parts.
        state: state of the previous draw.

    Source: V0, 2026, arXiv 2602.03584, as described by others. There, p comes from a trained value model that reads 256
        outcomes of the policy on other tasks, and the task; here the 256 tasks that were played last say it by their
        likeness, and the numbers of such a model go into the column. The optimum is ours.
    """
    check_number("least", least, 1, whole=True)
    check_number("most", most, least, whole=True)
    check_choice("solver", solver, Solver)
    pool = by_id(records)
    draw, inner = drawn_by(tasks, pool, state, count=count, group=group, iteration=iteration, total=total, rng=rng)
    predicted = pool.column(column)
    rates = from_similar(pool, np.where(np.isfinite(predicted), predicted, pool.success), LIKENESS, weights)
    rates = np.clip(np.where(np.isfinite(rates), rates, 0.5), 0.0, 1.0)
    p = rates[rows_of(pool, draw.tasks)]
    sizes = v0_sizes(p, count * group, least=least, most=most, solver=solver)
    return TaskDraw(draw.tasks, tuple(sizes.tolist()), draw.weight, draw.options, state=inner)


def v0_sizes(p: Floats, total: int, *, least: int = 2, most: int = 128, solver: Solver = "optimum") -> Ints:
    """Return group sizes that add up to a number of episodes.

        max over n of  sum of U(n[i], p[i])                 least <= n[i] <= most
        U(n, p) = n (1 - p) (1 - (1 - p)^(n - 1))

    "greedy" gives every task `least`, then one episode after the other to the largest gain, the first of equal ones; U
    is not concave in n, so this may miss the optimum. Tasks of p = 0 or 1 gain nothing: they get more than `least` only
    when all others have `most`. Then, and where `most` lets nobody take more, episodes are spread evenly.

    >>> [v0_sizes(np.array([0.25, 0.5, 0.75]), 24, solver=solver).tolist() for solver in ("greedy", "optimum")]
    [[18, 4, 2], [20, 2, 2]]

    Args:
        p: float64 [N], in [0, 1].
        total: sum of the sizes.
        least, most: bounds of a size.
        solver: "greedy" or "optimum".
    """
    least = min(least, total // len(p))
    sizes = np.full(len(p), least, dtype=np.int64)
    left = total - int(sizes.sum())
    useful = (p > 0) & (p < 1)
    shared = min(left, int(useful.sum()) * max(most - least, 0))
    if shared:
        n = least + np.arange(most - least + 1)
        values = _useful(p[useful][:, None], n[None, :])
        sizes[useful] += _greedy(values, shared) if solver == "greedy" else best_sizes(values, shared)
    others = useful if useful.all() else ~useful
    sizes[others] += evenly(left - shared, int(others.sum()))
    return sizes


def _useful(p: Floats, n: Ints) -> Floats:
    return np.asarray(n * (1 - p) * (1 - (1 - p) ** (n - 1)))


def _greedy(values: Floats, episodes: int) -> Ints:
    sizes = np.zeros(len(values), dtype=np.int64)
    gains = np.diff(values, axis=1)
    heap = [(-gain, row) for row, gain in enumerate(gains[:, 0].tolist())]
    heapq.heapify(heap)
    for _ in range(episodes):
        _, row = heapq.heappop(heap)
        sizes[row] += 1
        if sizes[row] < gains.shape[1]:
            heapq.heappush(heap, (-float(gains[row, sizes[row]]), row))
    return sizes
