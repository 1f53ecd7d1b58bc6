"""Tasks whose episodes all end alike make room for those of the largest value."""

from __future__ import annotations

from collections import Counter
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, RuleChoice, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import Counts, by_id, counts_of, played_since, rows_of


class VSPOState(TypedDict):
    """The value of each task, NaN for one that was never played, the records before, and the rule that draws."""

    values: Floats
    counts: Counts
    tasks: Inner | None


def vspo(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    best: float = 1.0,
    smooth: bool = True,
    tasks: RuleChoice = "uniform",
    state: VSPOState | None = None,
) -> TaskDraw:
    """Return the tasks of a stream, those of value 0 replaced by tasks drawn in proportion to their values.

        value = (best - mean) std        over the rewards of the episodes of the last visits, std with ddof 0

    Tasks are drawn with replacement. A task that is drawn k times has the weight 1 / k in each of its groups. A task
    that was never played stays; while no task has a value above 0, all stay.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        best: largest reward of an episode.
        smooth: weigh tasks that are drawn several times.
        tasks: rule of the stream.
        state: of the previous draw.

    Source: VSPO, 2025, arXiv 2512.07478, of which the abstract and a description by others could be read. There, groups
        without spread are replaced within the batch; here, tasks are replaced whose last visit had none. The form of
        the weights is ours.
    """
    check_number("best", best)
    check_flag("smooth", smooth)
    pool = by_id(records)
    values = _values(pool, best, state)
    inner = None if state is None else state["tasks"]
    stream, inner = drawn_by(tasks, pool, inner, count=count, group=group, iteration=iteration, total=total, rng=rng)
    names, weights = list(stream.tasks), np.nan_to_num(values, nan=0.0)
    dull = np.flatnonzero(values[rows_of(pool, names)] == 0)
    if len(dull) and weights.sum() > 0:
        chosen = rng.choice(len(weights), len(dull), p=weights / weights.sum())
        for index, row in zip(dull, chosen, strict=True):
            names[index] = pool.tasks[row]
    times = Counter(names)
    after: VSPOState = {"values": values, "counts": counts_of(pool), "tasks": inner}
    shares = tuple(1 / times[task] for task in names) if smooth else ()
    return TaskDraw(tuple(names), stream.episodes, shares, state=after)


def _values(pool: TaskRecords, best: float, state: VSPOState | None) -> Floats:
    """float64 [N]; rewards above `best` have no value, and a spread below rounding is none."""
    played = played_since(pool, None if state is None else state["counts"])
    n = np.maximum(played.episodes, 1)
    mean = played.reward / n
    variance = played.reward2 / n - mean**2
    spread = np.sqrt(np.where(variance > 1e-9 * np.maximum(mean**2, 1e-9), variance, 0.0))
    before = np.full(len(pool.tasks), np.nan) if state is None else state["values"]
    return np.where(played.episodes > 0, np.maximum(best - mean, 0.0) * spread, before)
