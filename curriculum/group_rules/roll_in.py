"""Episodes that begin in the middle of a success, so that the policy starts nearer to the goal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from turncredit.agents.trajectory import Trajectory
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.curriculum.growth import BranchPoint, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import dice, ids, ordered


def expert_roll_in(group: OpenGroup, *, share: float = 0.5, depth: float | None = None, guide: bool = True) -> Growth:
    """Play some episodes from the beginning, and the others from within a success.

        round 0:  size - floor(share * size) episodes from the beginning
        round 1:  the others from within random winners; if nobody won, first one guide that sees the whole plan
        round 2:  after a guide, the others from within it, or from the beginning if it did not win
        turn:     ceil(depth * turns), or any with the same probability; never the first, up to the last

    At least one episode begins with a reset. The guide is neither kept nor counted, so the turns that others took over
    from it are not trained on.

    At most size + 1 episodes in 3 rounds.

    Args:
        group: the group so far.
        share: of the episodes that begin within a success.
        depth: how far, as a share of the turns; None: anywhere.
        guide: whether a guide is played where nobody won.

    Raises:
        BadOption: a share or depth outside [0, 1], or a guide that is neither True nor False.

    Source: Chang et al. 2023 (RLGF), arXiv 2306.11816, roll-in by a guide, from its abstract. The guide is the policy
    with the plan in its prompt, which the episodes that begin within it see as well: an episode of the expert itself is
    no member of a group, and a branch can begin within members only.
    """
    check_number("share", share, 0, 1)
    check_number("depth", 0.0 if depth is None else depth, 0, 1)
    check_flag("guide", guide)
    others = min(math.floor(share * group.size), group.size - 1)
    first = [member for member in ordered(group.members) if not member.round]
    winners = [member for member in first if member.won]
    guided = guide and bool(first) and not winners
    if not group.round:
        return Growth((MoreEpisodes(group.size - others),))
    if others and group.round == 1:
        return Growth((MoreEpisodes(1, plan=1.0),) if guided else _within(group, winners, others, depth))
    guides = [member for member in ordered(group.members) if guided and others and member.round == 1]
    if others and group.round == 2 and guided:
        return Growth(_within(group, [member for member in guides if member.won], others, depth))
    chosen = ids(group.members) - ids(guides)
    return Growth(keep=chosen, counted=chosen) if guides else Growth()


def _within(
    group: OpenGroup, sources: Sequence[Trajectory], count: int, depth: float | None
) -> tuple[MoreEpisodes, ...]:
    """Return requests for episodes that begin within sources; from the beginning if none has a second turn."""
    long = [source for source in sources if len(source.turns) > 1]
    if not long:
        return (MoreEpisodes(count),)
    rolls = dice(group)
    starts = [_start(long[rolls.integers(len(long))], rolls.random(), depth) for _ in range(count)]
    return tuple(MoreEpisodes(1, at=start) for start in starts)


def _start(source: Trajectory, roll: float, depth: float | None) -> BranchPoint:
    last = len(source.turns) - 1
    turn = 1 + math.floor(roll * last) if depth is None else math.ceil(depth * len(source.turns))
    return BranchPoint(source.id, min(max(turn, 1), last))
