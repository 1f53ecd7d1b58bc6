"""Forests by any rule of where to fork: `forest`, and `uct`, which goes where leaves were good or few."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from turncredit.agents.trajectory import Trajectory
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.branches import best_places, branches, filled
from turncredit.curriculum.forests import Forest
from turncredit.curriculum.fork_places import NOWHERE, Worth, get_fork_rule
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import asked_for


def forest(group: OpenGroup, *, where: str | Mapping[str, object] = "uniform", roots: int = 0) -> Growth:
    """Fork finished episodes at the turns that a rule finds worth most, round by round: `train.forks` as a group rule.

        n roots, then at most n forks a round, until there are `size` episodes

    A turn is forked once. Where the rule finds no place, an episode begins with a reset.

    At most size episodes in ceil(size / n) rounds.

    Args:
        group: the group so far.
        where: a rule of `turncredit list forks`, or a table of its name and its options.
        roots: n; 0: half of the size.

    Raises:
        BadSetting: there is no such rule.
        BadOption: roots < 0, or an option of the rule that is impossible.
    """
    check_number("roots", roots, 0, whole=True)
    table = {"name": where} if isinstance(where, str) else dict(where)
    rule = get_fork_rule(str(table.pop("name", "")), **table)
    return Forest(rule, group.size, roots or math.ceil(group.size / 2)).grow(group)


def uct(group: OpenGroup, *, roots: int = 2, weight: float = 1.0, at_once: int = 1) -> Growth:
    """Fork where the episodes that went through a place scored well, or where few did.

        worth of a place = mean + weight sqrt(ln N / n)
        mean, n: of the final scores of the episodes that went through the place;  N: episodes of the group

    A place may be forked again. Where there is none, episodes begin with a reset.

    At most size episodes in 1 + ceil((size - roots) / at_once) rounds.

    Args:
        group: the group so far.
        roots: episodes that begin with a reset.
        weight: of places that few went through.
        at_once: forks of a round.

    Raises:
        BadOption: roots < 1, a negative weight, or at_once < 1.

    Source: Kocsis and Szepesvári 2006 (UCT). Ours: all places of the forest are compared at once, instead of those
    below one node after another, and an episode is played to its end, so that every leaf has a score.
    """
    check_number("roots", roots, 1, whole=True)
    check_number("weight", weight, 0)
    check_number("at_once", at_once, 1, whole=True)
    left = group.size - asked_for(group)
    if not group.round:
        return Growth((MoreEpisodes(min(roots, group.size)),))
    if left < 1:
        return Growth()
    forks = branches(best_places(group.members, lambda members: _confident(members, weight), at_once), 1, left)
    return Growth(tuple(forks)) if forks else filled(group, [])


def _confident(members: Sequence[Trajectory], weight: float) -> Worth:
    """Return the upper bound of each place that a member does not share with its parent."""
    scores = defaultdict[tuple[str, int], list[float]](list)
    by_id = {member.id: member for member in members}
    for member in members:
        owner, end = member, len(member.turns) - 1
        while True:  # up to the root: an episode went through the places before the turn at which it parted
            start = owner.fork_turn or 0
            for turn in range(start + 1, end + 1):
                scores[owner.id, turn].append(member.score)
            if owner.fork_of not in by_id:
                break
            owner, end = by_id[owner.fork_of], start

    def bound(name: str, turn: int) -> float:
        through = scores.get((name, turn), [])
        bonus = weight * math.sqrt(math.log(len(members)) / len(through)) if through else 0.0
        return math.fsum(through) / len(through) + bonus if through else NOWHERE

    return [[bound(member.id, turn) for turn in range(len(member.turns))] for member in members]
