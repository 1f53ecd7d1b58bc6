"""Tasks whose predicted difficulty is nearest to a target."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.picking import weighted
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id
from turncredit.curriculum.similar_tasks import from_similar


def dots(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    rng: Generator,
    target: float = 0.5,
    temperature: float = 1e-3,
    column: str = "difficulty",
    similar: float = 0.0,
    weights: Mapping[str, float] | None = None,
) -> TaskDraw:
    """Return tasks drawn without replacement, with probability proportional to exp(-|d - target| / temperature).

        d = predicted share of lost episodes, from the column; else that of the last visit; else, with `similar`, what
            tasks like it say (`from_similar`); else the target

    So tasks of which nothing is known come first, in random order.

    Args:
        records: of all tasks. The prediction is the remembered column of that name, in [0, 1].
        count: number of groups.
        group: episodes of a group.
        rng: generator of the draw.
        target: difficulty that is looked for, in [0, 1].
        temperature: above 0; 0.001 is almost the nearest only.
        column: name of the predictions.
        similar: temperature of the likeness of tasks; 0: tasks of which nothing is known come first.
        weights: weights of the parts of a mixture, whose tasks are unlike those of other parts; None without parts.

    Source: Sun et al. 2025 (DOTS), arXiv 2506.05316. There, every second iteration plays 256 tasks for reference, and
        an adapter on embeddings predicts the difficulty of all others from them; here those that were played last are
        the reference, and predictions of your own go into the column. The share of tasks that come from replay instead
        is no matter of this rule.
    """
    check_number("target", target, 0.0, 1.0)
    check_number("temperature", temperature, 0.0, open_low=True)
    check_number("similar", similar, 0.0)
    pool = by_id(records)
    predicted = pool.column(column)
    difficulty = np.where(np.isfinite(predicted), predicted, 1 - pool.success)
    if similar:
        difficulty = from_similar(pool, difficulty, similar, weights)
    distance = np.where(np.isfinite(difficulty), np.abs(difficulty - target), 0.0)
    rows = weighted(rng, -distance / temperature, count)
    return TaskDraw(tuple(pool.tasks[row] for row in rows), (group,) * count)
