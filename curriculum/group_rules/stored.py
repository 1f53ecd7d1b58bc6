"""Group rules in which stored episodes join a group whose own teach nothing."""

from __future__ import annotations

import numpy as np

from turncredit.credit.option_checks import check_number
from turncredit.curriculum.growth import Growth, OpenGroup


def arpo_gui(
    group: OpenGroup, *, low_std: float = 0.05, low_mean: float = 0.2, success: float = 0.1, count: int = 1
) -> Growth:
    """Replace the first members by stored successes where the group is about as bad as it can be.

    At most size episodes in 1 round.

    Args:
        group: the group; use experience with keep = "success", per_task = 8.
        low_std: standard deviation (ddof 0) of the rewards below which it is done.
        low_mean: mean of the rewards below which it is done.
        success: reward above which a stored episode counts as a success.
        count: number of members that are replaced.

    Source: ARPO for GUI agents, arXiv 2505.16282, and its code as read.
    """
    check_number("low_std", low_std, 0.0)
    check_number("low_mean", low_mean)
    check_number("success", success)
    check_number("count", count, 1, whole=True)
    rewards = [member.reward for member in group.members]
    good = [episode.id for episode in group.stored.of_task(group.task) if episode.reward > success]
    if not rewards or not good or float(np.std(rewards)) >= low_std or float(np.mean(rewards)) >= low_mean:
        return Growth()
    chosen = [good[position] for position in group.rng.permutation(len(good))[:count]]
    stay = frozenset(member.id for member in group.members[len(chosen) :])
    return Growth(replay=tuple(chosen), keep=stay, counted=stay)


def r3_ccr(group: OpenGroup, *, count: int = 1) -> Growth:
    """Add stored episodes of the opposite outcome to a group whose episodes all ended alike.

    At most size episodes in 1 round.

    Args:
        group: the group; use experience with keep = "all".
        count: number of stored episodes.

    Source: R3, arXiv 2601.19620; the number is ours, and stored rows have the weight 1.
    """
    check_number("count", count, 1, whole=True)
    if not group.members or not group.even:
        return Growth()
    won = group.members[0].won
    other = [episode.id for episode in group.stored.of_task(group.task) if episode.won != won]
    return Growth(replay=tuple(other[position] for position in group.rng.permutation(len(other))[:count]))


def ssb(group: OpenGroup, *, share: float = 0.5, count: int = 8) -> Growth:
    """Put a stored group in the place of one whose episodes all ended alike, for a share of such groups.

    At most size episodes in 1 round.

    Stored episodes are drawn in proportion to the size of their advantages.

    Args:
        group: the group; use experience with keep = "mixed" and a short age.
        share: of the groups without spread that are replaced.
        count: number of stored episodes.

    Source: the selective sample buffer of Skywork R1V2, arXiv 2504.16656, by a note; the share is ours.
    """
    check_number("share", share, 0.0, 1.0)
    check_number("count", count, 1, whole=True)
    stored = group.stored.of_task(group.task)
    worth = np.array([abs(episode.advantage) for episode in stored])
    if not group.members or not group.even or not worth.sum() or group.rng.random() >= share:
        return Growth()
    size = min(count, int((worth > 0).sum()))
    chosen = group.rng.choice(len(stored), size=size, replace=False, p=worth / worth.sum())
    nobody: frozenset[str] = frozenset()
    return Growth(replay=tuple(stored[position].id for position in sorted(chosen)), keep=nobody, counted=nobody)
