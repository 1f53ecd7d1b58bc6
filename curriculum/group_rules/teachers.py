"""Group rules in which other models play some of the episodes."""

from __future__ import annotations

from typing import Literal

from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import ids, ordered

Rank = Literal["answer", "random"]


def ampo(group: OpenGroup, *, teachers: int = 2, rank: Rank = "answer") -> Growth:
    """Let teachers play where the whole group lost, and put those that win in the place of losers.

    Without teachers, the group is as it was drawn. Credit: `taught`; objective: `ampo`.

    At most size + teachers of the run episodes in 2 rounds.

    Args:
        group: the group so far.
        teachers: maximum number of episodes of teachers in the group.
        rank: which ones; "answer": every teacher of the run plays once, and of those that win, those stay after which
            the policy finds the answer most probable, compared with the task alone; "random": that many teachers play.

    Raises:
        BadOption: teachers < 1, or there is no such rank.

    Source: Yuan et al. 2025 (AMPO), arXiv 2510.02227, and its code. There, the traces of the teachers are stored; here
    they play, those that fail are left out, and the answer is the action with which an episode was won.
    """
    check_number("teachers", teachers, 1, whole=True)
    check_choice("rank", rank, Rank)
    own = [member for member in ordered(group.members) if not member.teacher]
    if group.round == 1 and own and group.teachers and not any(member.won for member in own):
        some = slice(teachers) if rank == "random" else slice(None)
        chosen = group.rng.permutation(len(group.teachers))[some]
        return Growth(tuple(MoreEpisodes(1, teacher=group.teachers[number]) for number in sorted(chosen)))
    taught = [member for member in ordered(group.members) if member.teacher]
    if not taught:
        return Growth()
    winners = [member for member in taught if member.won]
    leaving = set(group.rng.permutation(len(own))[: min(len(winners), teachers)].tolist())
    stay = ids([*winners, *(member for number, member in enumerate(own) if number not in leaving)])
    return Growth(keep=stay, counted=stay, best=teachers)


def rl_plus(group: OpenGroup, *, count: int = 1) -> Growth:
    """Let teachers play some of the episodes of every group.

    Without teachers, the policy plays them all. Credit: `taught` with `scale = "none"`; objective: `rl_plus`.

    At most size episodes in 1 round.

    Args:
        group: the group so far.
        count: number of episodes that a teacher plays, each time one at random.

    Raises:
        BadOption: count < 1.

    Source: Dong et al. 2025 (RL-PLUS), arXiv 2508.00222, and its code, where one of eight is a stored trace.
    """
    check_number("count", count, 1, whole=True)
    count = min(count, group.size - 1)
    if group.round or not group.teachers or not count:
        return Growth()
    chosen = group.rng.integers(len(group.teachers), size=count)
    taught = tuple(MoreEpisodes(1, teacher=group.teachers[number]) for number in chosen)
    return Growth((MoreEpisodes(group.size - count), *taught))
