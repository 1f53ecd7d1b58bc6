"""Reinforce-Ada: a task is played on until its group has both outcomes, and a few members of each are trained on."""

from __future__ import annotations

from typing import Literal

from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import balanced, ids, ordered

Mode = Literal["balanced", "positive"]


def reinforce_ada(group: OpenGroup, *, mode: Mode = "balanced", keep: int = 4, rounds: int = 4) -> Growth:
    """Play as many episodes as were drawn, again and again, until the outcomes are mixed; train on `keep` of them.

        balanced: until  wins >= keep // 2  and  losses >= keep - keep // 2
        positive: until  wins >= 1

    The first members of both classes are kept, half of each as far as there are enough. All members are counted, so
    that the baseline is the success among all of them.

    At most rounds * size episodes in `rounds` rounds.

    Args:
        group: the group so far.
        mode: when a group is complete.
        keep: members that are trained on.
        rounds: the most rounds.

    Raises:
        BadOption: an unknown mode, keep < 2 or rounds < 1.

    Source: Xiong et al. 2025 (Reinforce-Ada), arXiv 2510.04996, and its code. A member counts as positive if it won;
    there, if its reward is above a threshold.
    """
    check_choice("mode", mode, Mode)
    check_number("keep", keep, 2, whole=True)
    check_number("rounds", rounds, 1, whole=True)
    winners, losers = ordered(group.winners), ordered(group.losers)
    enough = len(winners) >= keep // 2 and len(losers) >= keep - keep // 2 if mode == "balanced" else len(winners) >= 1
    if group.round < rounds and not enough:
        return Growth((MoreEpisodes(group.size),))
    return Growth(keep=ids(balanced(winners, losers, keep)))
