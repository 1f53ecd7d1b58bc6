"""Two task rules, each for a share of the groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from numpy.random import Generator

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.draws import TaskDraw
from turncredit.curriculum.inner_rule import Inner, RuleChoice, chosen_rule, drawn_by
from turncredit.curriculum.records import TaskRecords
from turncredit.curriculum.rows import by_id


class MixState(TypedDict):
    """What is remembered of both rules."""

    rule: Inner | None
    other: Inner | None


def mix(
    records: TaskRecords,
    *,
    count: int,
    group: int,
    iteration: int,
    total: int,
    rng: Generator,
    rule: RuleChoice = "vade",
    other: RuleChoice = "uniform",
    share: float = 0.5,
    state: MixState | None = None,
) -> TaskDraw:
    """Return int(share count) groups of one rule, then those of another one.

    Each part has its own budget of episodes and its own memory; groups of a rule without weights weigh 1. A rule whose
    part is empty is not asked.

    Args:
        records: of all tasks.
        count: number of groups.
        group: episodes of a group, on average.
        iteration, total: finished iterations, and those of the whole run.
        rng: of the draw; the first rule takes its numbers first.
        rule: the first rule, by name or as a table with its name and options.
        other: the second rule.
        share: share of the first rule, in [0, 1].
        state: of the previous draw.

    Source: ours; with `share`, MMR1's lambda and DOTS' sigma can be written for any two rules.
    """
    check_number("share", share, 0.0, 1.0)
    if state is None:
        for choice in (rule, other):
            chosen_rule(choice)  # so that a wrong name shows before the first rollout, even where its part is empty
    pool = by_id(records)
    first, second = None if state is None else state["rule"], None if state is None else state["other"]
    groups = int(count * share)
    draws = []
    if groups:
        draw, first = drawn_by(rule, pool, first, count=groups, group=group, iteration=iteration, total=total, rng=rng)
        draws.append(draw)
    if count > groups:
        draw, second = drawn_by(
            other, pool, second, count=count - groups, group=group, iteration=iteration, total=total, rng=rng
        )
        draws.append(draw)
    after: MixState = {"rule": first, "other": second}
    return _joined(draws, after)


def _joined(draws: Sequence[TaskDraw], state: MixState) -> TaskDraw:
    weights = [draw.weight or (1.0,) * len(draw.tasks) for draw in draws]
    tables = [draw.options or ({},) * len(draw.tasks) for draw in draws]
    return TaskDraw(
        tasks=tuple(task for draw in draws for task in draw.tasks),
        episodes=tuple(size for draw in draws for size in draw.episodes),
        weight=tuple(weight for column in weights for weight in column) if any(draw.weight for draw in draws) else (),
        options=tuple(table for column in tables for table in column) if any(draw.options for draw in draws) else (),
        state=state,
    )
