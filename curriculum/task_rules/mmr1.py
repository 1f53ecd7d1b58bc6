"""A share of the groups by the spread of outcomes and other metrics of a task, the rest from all tasks in turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, TypedDict

import numpy as np
from numpy.random import Generator

from turncredit.credit.columns import Floats
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id, success_or


class MMR1State(TypedDict):
    """The scores of all tasks, the place in the stream of all tasks, and how far the last sweep of probes has come."""

    scores: Floats | None
    others: Inner | None
    sweep: NotRequired[tuple[int, int]]
    """Finished iterations when it began, and tasks that it has drawn."""


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
    probe: int = 0,
    state: MMR1State | None = None,
) -> TaskDraw:
    """Return int(share count) tasks drawn with replacement by their scores, and others of a stream of all tasks.

        score <- mu score + (1 - mu) minmax(learnability p (1 - p) + sum over m of metrics[m] m)

    where minmax maps the smallest value of the pool to 0 and the largest to 1; a pool of equal values, or of scores of
    0, is drawn from uniformly. p is the share of won episodes at the last visit, 1/2 for a task without one. A single
    group, such as one in the place of a dropped one, is drawn by score with probability `share`.

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
        probe: iterations from one sweep of the whole pool to the next; 0 for none. The groups of a sweep come first,
            with the option "probe", by which the group rule `probe` drops them; then those that are trained on.
        state: of the previous draw.

    Source: Leng et al. 2025 (MMR1, variance-aware sampling), code of LengSicong/MMR1. There, a sweep every four
        iterations renews all scores before the next draw; here, what it came to counts from the next iteration on, and
        columns other than p are renewed by groups that are trained on. There, the weights are 0.8 and 0.2 for the
        similarity of answers (which raises the score), and the stream of all tasks is shuffled once only.
    """
    check_number("share", share, 0.0, 1.0)
    check_number("learnability", learnability)
    check_number("mu", mu, 0.0, 1.0)
    check_number("probe", probe, 0, whole=True)
    for name, weight in (metrics or {}).items():
        check_number(f"metrics[{name!r}]", weight)
    pool = by_id(records)
    before: MMR1State = {"scores": None, "others": None} if state is None else state
    probes, sweep = _probes(pool, before, count, probe, iteration)
    tasks, scores, others = probes, before["scores"], before["others"]
    left = count - len(probes)
    if left:
        scores = _scores(pool, learnability, metrics or {}, mu, scores)
        by_score = int(left * share) if left > 1 else int(rng.random() < share)
        weights = scores / scores.sum() if scores.sum() > 0 else None
        tasks += tuple(pool.tasks[row] for row in rng.choice(len(pool.tasks), by_score, p=weights))
    if count > len(tasks):
        more = count - len(tasks)
        stream, others = drawn_by(
            "uniform", pool, others, count=more, group=group, iteration=iteration, total=total, rng=rng
        )
        tasks += stream.tasks
    after: MMR1State = {"scores": scores, "others": others}
    if probe:
        after["sweep"] = sweep
    options = tuple({"probe": True} if number < len(probes) else {} for number in range(count)) if probes else ()
    return TaskDraw(tasks, (group,) * count, options=options, state=after)


def _probes(
    pool: TaskRecords, state: MMR1State, count: int, probe: int, iteration: int
) -> tuple[tuple[str, ...], tuple[int, int]]:
    """Return the next tasks of the sweep of an iteration, and how far it has come then."""
    begun, drawn = state.get("sweep", (-1, 0))
    if not probe or iteration % probe:
        return (), (begun, drawn)
    first = drawn if begun == iteration else 0
    tasks = pool.tasks[first : first + count]
    return tasks, (iteration, first + len(tasks))


def _scores(
    pool: TaskRecords, learnability: float, metrics: Mapping[str, float], mu: float, before: Floats | None
) -> Floats:
    """Return the score of each task."""
    p = success_or(pool, 0.5)
    raw = learnability * p * (1 - p)
    for name, weight in metrics.items():
        raw = raw + weight * np.nan_to_num(pool.column(name), nan=0.0)
    return _minmax(raw) if before is None else mu * before + (1 - mu) * _minmax(raw)


def _minmax(values: Floats) -> Floats:
    low, high = values.min(), values.max()
    return (values - low) / (high - low) if high - low > 1e-12 else np.ones(len(values))
