"""What tasks that were played say of tasks like them."""

from __future__ import annotations

import numpy as np

from turncredit.credit.columns import Floats
from turncredit.training.sampling.annotators.texts import hashed
from turncredit.training.sampling.records import TaskRecords

__all__ = ["from_similar"]

REFERENCES = 256
"""Tasks that were played last, and that others are compared with."""


def from_similar(records: TaskRecords, values: Floats, temperature: float) -> Floats:
    """Return values in which those that are not known are means of known ones, weighted by the likeness of tasks.

        v[i] = sum over j of w[i, j] v[j],    w[i] = softmax over j of cos(e[i], e[j]) / temperature

    over the `REFERENCES` tasks j with a value that were played last; e is the vector of a task's id, counts of its
    trigrams hashed into 64 cells. Without a known value, none is added.

    Args:
        records: of all tasks.
        values: float64 [N]; NaN where not known.
        temperature: above 0.

    Source: Sun et al. 2025 (DOTS), arXiv 2506.05316, where attention over embeddings of questions, adapted to the run,
    predicts the difficulty of those that were not played. The ids instead of embeddings are ours.
    """
    played = np.flatnonzero(np.isfinite(values))
    missing = np.flatnonzero(~np.isfinite(values))
    if not len(played) or not len(missing):
        return values
    names = np.array(records.tasks)
    latest = played[np.lexsort((names[played], -records.last[played]))][:REFERENCES]
    references = np.array([hashed(records.tasks[row], 64, 3) for row in latest])
    filled = values.copy()
    for row in missing:
        likeness = references @ np.array(hashed(records.tasks[row], 64, 3)) / temperature
        weights = np.exp(likeness - likeness.max())
        filled[row] = float(weights @ values[latest] / weights.sum())
    return filled
