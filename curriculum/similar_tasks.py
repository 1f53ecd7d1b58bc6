"""What tasks that were played say of tasks like them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from turncredit.credit.columns import Floats
from turncredit.curriculum.annotators.texts import hashed
from turncredit.curriculum.records import TaskRecords
from turncredit.task_ids import part_of, within

__all__ = ["from_similar"]

REFERENCES = 256
"""Tasks that were played last, and that others are compared with."""


def from_similar(
    records: TaskRecords, values: Floats, temperature: float, parts: Collection[str] | None = None
) -> Floats:
    """Return values in which those that are not known are means of known ones, weighted by the likeness of tasks.

        v[i] = sum over j of w[i, j] v[j],    w[i] = softmax over j of cos(e[i], e[j]) / temperature

    over the `REFERENCES` tasks j with a value that were played last; e is the vector of a task's id, counts of its
    trigrams hashed into 64 cells. Without a known value, none is added. In a mixture, tasks of one part alone are
    compared, by the ids that they have in it: another environment's numbers say nothing of them.

    Args:
        records: of all tasks.
        values: float64 [N]; NaN where not known.
        temperature: above 0.
        parts: names of the parts of a mixture; None for one environment.

    Source: Sun et al. 2025 (DOTS), arXiv 2506.05316, where attention over embeddings of questions, adapted to the run,
    predicts the difficulty of those that were not played. The ids instead of embeddings are ours.
    """
    names, filled = np.array(records.tasks), values.copy()
    own = np.array([part_of(task, parts or ()) for task in records.tasks])
    for part in np.unique(own).tolist():
        played = np.flatnonzero((own == part) & np.isfinite(values))
        missing = np.flatnonzero((own == part) & ~np.isfinite(values))
        if not len(played) or not len(missing):
            continue
        latest = played[np.lexsort((names[played], -records.last[played]))][:REFERENCES]
        references = np.array([_vector(records.tasks[row], part) for row in latest])
        for row in missing:
            likeness = references @ np.array(_vector(records.tasks[row], part)) / temperature
            weights = np.exp(likeness - likeness.max())
            filled[row] = float(weights @ values[latest] / weights.sum())
    return filled


def _vector(task: str, part: str) -> Sequence[float]:
    return hashed(within(task, part) if part else task, 64, 3)
