"""A share of the groups by the spread of outcomes and other metrics of a task, the rest from all tasks in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import numpy as np
from numpy.random import Generator

from turnwise.credit.columns import Floats
from turnwise.credit.option_checks import check_number
from turnwise.training.sampling.draws import TaskDraw
from turnwise.training.sampling.inner_rule import Inner, drawn_by
from turnwise.training.sampling.records import TaskRecords
from turnwise.training.sampling.rows import by_id, success_or


class MMR1State(TypedDict):
    """The scores of all tasks, and the place in the stream of all tasks."""

    scores: Floats
    others: Inner | None


def mmr1(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    share: float = 0.5,
    learnability: float = 1.0,
    metrics: Mapping[str, float] | None = None,
    mu: float = 0.0,
    state: MMR1State | None = None,
) -> TaskDraw:
    """Return int(share count) tasks drawn with replacement by their scores, and others of a stream of all tasks.

        score <- mu score + (1 - mu) minmax(learnability p (1 - p) + sum over m of metrics[m] m)

    where minmax maps the smallest value of the pool to 0 and the largest to 1; a pool of equal values, or of scores of
    0, is drawn from uniformly. p is the share of won episodes at the last visit, 1/2 for a task without one.

    Args:
        records: of all tasks. A metric is a remembered column; 0 where nothing was.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        share: share of the groups that are drawn by score, in [0, 1].
        learnability: weight of p (1 - p).
        metrics: weight of each remembered column, such as {"self_bleu": -0.2}; it may be negative.
        mu: weight of the previous score, in [0, 1].
        state: of the previous draw.

    Source: Leng et al. 2025 (MMR1, variance-aware sampling), code of LengSicong/MMR1. There, the whole pool is played
        every four iterations to renew all scores, which a draw of `count` groups cannot ask for; here a score is
        renewed by the visits of its task. There, the weights are 0.8 and 0.2 for the similarity of answers (which
        raises the score), and the stream of all tasks is shuffled once only.
    """
    check_number("share", share, 0.0, 1.0)
    check_number("learnability", learnability)
    check_number("mu", mu, 0.0, 1.0)
    for name, weight in (metrics or {}).items():
        check_number(f"metrics[{name!r}]", weight)
    pool = by_id(records)
    p = success_or(pool, 0.5)
    raw = learnability * p * (1 - p)
    for name, weight in (metrics or {}).items():
        raw = raw + weight * np.nan_to_num(pool.column(name), nan=0.0)
    scores = _minmax(raw) if state is None else mu * state["scores"] + (1 - mu) * _minmax(raw)
    by_score = int(count * share)
    weights = scores / scores.sum() if scores.sum() > 0 else None
    rows = rng.choice(len(pool.tasks), by_score, p=weights)
    tasks = tuple(pool.tasks[row] for row in rows)
    others = None if state is None else state["others"]
    if count > by_score:
        stream, others = drawn_by(
            "uniform", pool, others, count=count - by_score, group=group, iteration=iteration, total=total, rng=rng
        )
        tasks += stream.tasks
    after: MMR1State = {"scores": scores, "others": others}
    return TaskDraw(tasks, (group,) * count, state=after)


def _minmax(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high - low > 1e-12 else np.ones(len(values))
