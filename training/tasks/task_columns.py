"""Numbers of tasks that only an iteration itself tells, for the records that task rules read.

    loss        what the update starts from: the mean of -A over the tokens of the task's episodes that carry loss
    any other   a column of the table of turns, at the first turn: the mean over the task's episodes. An environment, a
                sampler, an annotator or forks for values (`value`) put it there

A group rule writes others by itself (`Growth.remember`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from turncredit.credit.columns import KEYS, Floats
from turncredit.credit.numerics import positions
from turncredit.credit.steps import Steps
from turncredit.training.batch.batch import Batch

__all__ = ["LOSS", "task_columns"]

LOSS = "loss"
LARGEST = 5.0
"""Advantages are cut at this size for the loss."""


def task_columns(
    names: Collection[str], steps: Steps, batch: Batch, tasks: Sequence[str], weights: Sequence[float]
) -> dict[str, dict[str, float]]:
    """Return the columns that an iteration tells, for each name the numbers of its tasks.

    Args:
        names: of columns that are wanted; those that it does not tell are left out.
        steps: table of the turns, with the columns of annotators.
        batch: what is trained on.
        tasks: task of each group, in the order of the batch's groups.
        weights: factor of the advantages of each group.
    """
    numeric = [name for name in sorted(names) if name in steps and name not in KEYS and steps.column(name).ndim == 1]
    told = {name: _first_turns(name, steps, tasks) for name in numeric}
    if LOSS in names and LOSS not in told:
        told[LOSS] = _losses(batch, tasks, weights)
    return {name: numbers for name, numbers in told.items() if numbers}


def _first_turns(name: str, steps: Steps, tasks: Sequence[str]) -> dict[str, float]:
    """The mean of a column over the episodes of each task, at their first turns; of several groups the last one's."""
    column, first = steps.column(name), positions(steps) == 0
    labels = steps.ids("task")
    groups = {label: column[first & (labels == label)] for label in dict.fromkeys(labels.tolist())}
    return {_task(str(label), tasks): float(np.mean(values)) for label, values in groups.items()}


def _task(label: str, tasks: Sequence[str]) -> str:
    """The task of a group by its label in the table, which differs where a task was drawn twice."""
    return label if label in tasks else label.rpartition(" (group ")[0]


def _losses(batch: Batch, tasks: Sequence[str], weights: Sequence[float]) -> dict[str, float]:
    group = batch.episodes.group[batch.trajectory]
    tokens: Floats = batch.mask.sum(axis=1).astype(np.float64)
    losses = {}
    for number, (task, weight) in enumerate(zip(tasks, weights, strict=True)):
        rows = group == number
        if weight > 0 and tokens[rows].sum() > 0:
            cut = np.clip(batch.advantages[rows] / weight, -LARGEST, LARGEST)
            losses[task] = float(-cut.sum() / tokens[rows].sum())
    return losses
