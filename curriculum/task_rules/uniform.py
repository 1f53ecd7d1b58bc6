"""Every task once an epoch, in an order of its own."""

from __future__ import annotations

from collections.abc import Mapping

from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.task_order import TaskSampler


def uniform(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    seed: int = 0,
    weights: Mapping[str, float] | None = None,
    state: int | None = None,
) -> TaskDraw:
    """Return the next tasks of a stream whose every epoch visits each task once, in its own order.

    Args:
        records: of all tasks; only their order counts.
        count: number of groups.
        group: episodes of a group.
        seed: of the order.
        weights: of the parts of a mixture, which take turns by them; None for one environment.
        state: position in the stream.
    """
    start = state or 0
    stream = TaskSampler(records.tasks, seed, weights)
    return TaskDraw(tuple(stream.at(start + index) for index in range(count)), (group,) * count, state=start + count)
