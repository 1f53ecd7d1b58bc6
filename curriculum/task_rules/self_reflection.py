"""Tasks that are mostly lost are marked, so that their prompt can show a wrong attempt."""

from __future__ import annotations

from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, RuleChoice, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id


def self_reflection(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    threshold: float = 0.5,
    tasks: RuleChoice = "uniform",
    state: Inner | None = None,
) -> TaskDraw:
    """Return the tasks of another rule, with the option {"reflect": True} for those that are mostly lost.

    These are the tasks whose share of won episodes, over all visits, is below `threshold`. The group rule of the same
    name reads the option, and shows a stored wrong attempt at the task. A task that was never played is not marked.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw.
        threshold: share of won episodes, in [0, 1].
        tasks: rule that draws the tasks; its options are kept.
        state: of the previous draw.

    Source: R3 (in-context self-reflection), 2026, arXiv 2601.19620. The threshold is ours.
    """
    check_number("threshold", threshold, 0.0, 1.0)
    pool = by_id(records)
    draw, inner = drawn_by(tasks, pool, state, count=count, group=group, iteration=iteration, total=total, rng=rng)
    lost = {
        task
        for task, wins, episodes in zip(pool.tasks, pool.wins.tolist(), pool.episodes.tolist(), strict=True)
        if wins < threshold * episodes
    }
    before = draw.options or ({},) * len(draw.tasks)
    options = tuple(
        {**table, "reflect": True} if task in lost else table for task, table in zip(draw.tasks, before, strict=True)
    )
    return TaskDraw(draw.tasks, draw.episodes, draw.weight, options if any(options) else (), state=inner)
