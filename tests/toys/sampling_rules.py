"""Rules of sampling as another package would write them: one function each."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.random import Generator

from turncredit.credit import Steps
from turncredit.curriculum import (
    BranchPoint,
    GroupRule,
    Growth,
    MoreEpisodes,
    OpenGroup,
    RewardRule,
    TaskDraw,
    TaskRecords,
)


def rare(
    records: TaskRecords, *, count: int, group: int, rng: Generator, heavy: float = 1.0, state: int | None = None
) -> TaskDraw:
    """Draw the tasks with the fewest episodes so far, with groups of two sizes."""
    order = np.lexsort((rng.random(len(records.tasks)), records.episodes))
    tasks = tuple(records.tasks[row] for row in np.resize(order, count))
    sizes = tuple(group + (-1) ** number for number in range(count))
    return TaskDraw(tasks, sizes, (heavy,) * count, ({"draws": (state or 0) + 1},) * count, (state or 0) + 1)


def until_mixed(group: OpenGroup, *, most: int = 3) -> Growth:
    """Play the task on while the lengths of its episodes, in tokens, are all even or all odd; in the end, drop it."""
    alike = len({member.response_tokens % 2 for member in group.members}) < 2
    if not group.round or not alike:
        return Growth(remember={"rounds": group.round} if group.round else {})
    return Growth(drop=True) if group.round >= most else Growth(more=(MoreEpisodes(1 + int(group.rng.integers(2))),))


def forked(group: OpenGroup) -> Growth:
    """Play half of the group from a reset, and as many forks in the middle of its longest episode."""
    half = math.ceil(group.size / 2)
    if not group.round:
        return Growth(more=(MoreEpisodes(half),))
    longest = max(group.members, key=lambda member: (len(member.turns), member.id), default=None)
    if group.round > 1 or longest is None or len(longest.turns) < 2:
        return Growth()
    at = BranchPoint(longest.id, len(longest.turns) // 2)
    return Growth(more=(MoreEpisodes(group.size - half, at=at),))


def inside(group: OpenGroup) -> Growth:
    """Play half of the group from a reset, and as many forks inside the second answer of its longest episode."""
    half = math.ceil(group.size / 2)
    if not group.round:
        return Growth(more=(MoreEpisodes(half),))
    long = [member for member in group.members if len(member.turns) > 1 and len(member.turns[1].response) > 1]
    longest = max(long, key=lambda member: (len(member.turns), member.id), default=None)
    if group.round > 1 or longest is None:
        return Growth()
    at = BranchPoint(longest.id, 1, len(longest.turns[1].response) // 2)
    return Growth(more=(MoreEpisodes(group.size - half, at=at),))


def first_turns(group: OpenGroup, *, turns: int = 1, tokens: int = 0) -> Growth:
    """Train on the beginning of each member."""
    if not group.round:
        return Growth()
    return Growth(until=tuple(BranchPoint(member.id, turns, tokens) for member in group.members))


def best_and_worst(group: OpenGroup, *, twice: bool = True) -> Growth:
    """Play twice as many episodes; count all but the last, and train on the best and the worst of them."""
    if not group.round:
        return Growth(more=(MoreEpisodes(group.size * (1 + twice)),))
    counted = group.members[:-1]
    ranked = sorted(counted, key=lambda member: (member.reward, member.id))
    return Growth(
        keep=frozenset({ranked[0].id, ranked[-1].id} if ranked else ()),
        counted=frozenset(member.id for member in counted),
    )


def scaled(steps: Steps, *, by: float = 2.0, state: int | None = None) -> tuple[Steps, int]:
    """Multiply the rewards, and count the calls."""
    return replace(steps, reward=steps.reward * by, extra={**steps.extra}), (state or 0) + 1


def helped(group: OpenGroup, *, temperature: float = 0.7) -> Growth:
    """Play half of the group as it is, and the other half with a sentence, with a plan, and at another temperature."""
    if group.round:
        return Growth()
    return Growth(
        more=(
            MoreEpisodes(1),
            MoreEpisodes(1, hint="The door is open."),
            MoreEpisodes(1, plan=0.5),
            MoreEpisodes(1, temperature=temperature),
        )
    )


def with_earlier(group: OpenGroup, *, most: int = 2) -> Growth:
    """Count all members but the last, train on all of these but the first, and add stored episodes of the task."""
    if not group.round:
        return Growth()
    counted = [member.id for member in group.members[:-1]]
    stored = group.stored.of_task(group.task)[-most:]
    return Growth(
        keep=frozenset(counted[1:]), counted=frozenset(counted), replay=tuple(episode.id for episode in stored)
    )


SHOWING = GroupRule("showing", "Plans", None, "our reading", "", helped, expert=True)
JUDGED = RewardRule("judged", "A judge", None, "our reading", "", scaled, needs=("judge", "outcome"))
