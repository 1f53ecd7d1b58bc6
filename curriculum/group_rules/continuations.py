"""Members whose prefixes are played on several times, to learn what the prefixes are worth.

The continuations are counted and not kept: credit rules see them, and the update does not train on them. What the
published methods make of them is the credit rule `continuations`. Where a method trains on the prefix alone, the loss
of each member ends at the place where it is played on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from turncredit.agents.trajectory import Trajectory
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.curriculum.branches import response_tokens, token_places
from turncredit.curriculum.growth import BranchPoint, Growth, MoreEpisodes, OpenGroup
from turncredit.curriculum.members import ids, ordered

Unit = Literal["turns", "tokens"]


def pppo(group: OpenGroup, *, share: float = 0.15, continuations: int = 8, unit: Unit = "turns") -> Growth:
    """Play each member on from the end of its first part, several times.

        turns:   the first ceil(share * turns) turns of a member
        tokens:  its first floor(share * tokens) sampled tokens, which may end inside an answer

    Its loss ends there; a member without such a place is trained on as a whole. Credit: `continuations`.

    At most size * (1 + continuations) episodes in 2 rounds.

    Args:
        group: the group so far.
        share: of a member that its first part is.
        continuations: of each member.
        unit: what the share is of.

    Raises:
        BadOption: a share outside (0, 1), continuations < 1, or an unknown unit.

    Source: arXiv 2512.15274 (PPPO), from a description, on tokens. There, the reward of a member is its own win and
    the wins of its continuations, and the share grows from 0.15 to 0.35 when success stalls.
    """
    check_number("share", share, 0, 0.999, open_low=True)
    check_number("continuations", continuations, 1, whole=True)
    check_choice("unit", unit, Unit)
    return _continued(group, lambda member: _ends_of_part(member, share, unit), continuations, prefix=True)


def _ends_of_part(member: Trajectory, share: float, unit: Unit) -> list[BranchPoint]:
    if unit == "turns":
        end = math.ceil(share * len(member.turns))
        return [BranchPoint(member.id, end)] if end < len(member.turns) else []
    return token_places(member, [math.floor(share * response_tokens(member))])


def motif(group: OpenGroup, *, continuations: int = 4) -> Growth:
    """Play each member on from the end of its first turn; its own way on is one of the continuations.

    Its loss ends there; a member of one turn is trained on as a whole. Credit: `continuations`.

    At most size * continuations episodes in 2 rounds.

    Args:
        group: the group so far.
        continuations: of each first turn, the member's own included.

    Raises:
        BadOption: continuations < 2.

    Source: Mitra and Ulukus 2025 (MOTIF), arXiv 2507.02851, and its code, where later rounds see a summary of the
    first one and nothing else of it: here, that is a matter of the prompt builder.
    """
    check_number("continuations", continuations, 2, whole=True)
    return _continued(
        group,
        lambda member: [BranchPoint(member.id, 1)] if len(member.turns) > 1 else [],
        continuations - 1,
        prefix=True,
    )


def mrt(group: OpenGroup, *, blocks: int = 4, continuations: int = 4, unit: Unit = "turns") -> Growth:
    """Play each member on from the ends of its blocks, several times each, to see where it made progress.

        turns:   all turns but the first, or `blocks` of them at equal distances
        tokens:  after floor(j * tokens / (blocks + 1)) sampled tokens, j = 1 .. blocks

    Credit: `continuations` with `worth = "own"` and a bonus.

    At most size * (1 + blocks * continuations) episodes in 2 rounds.

    Args:
        group: the group so far.
        blocks: places of a member.
        continuations: of each place.
        unit: what blocks consist of.

    Raises:
        BadOption: a number < 1, or an unknown unit.

    Source: Qu et al. 2025 (MRT), arXiv 2503.07572, from its abstract. There, continuations must answer at once.
    """
    check_number("blocks", blocks, 1, whole=True)
    check_number("continuations", continuations, 1, whole=True)
    check_choice("unit", unit, Unit)
    return _continued(group, lambda member: _ends_of_blocks(member, blocks, unit), continuations)


def _ends_of_blocks(member: Trajectory, blocks: int, unit: Unit) -> list[BranchPoint]:
    if unit == "tokens":
        tokens = response_tokens(member)
        return token_places(member, [number * tokens // (blocks + 1) for number in range(1, blocks + 1)])
    last = len(member.turns) - 1
    turns = dict.fromkeys(np.linspace(1, last, blocks).round().astype(int).tolist()) if last > 0 else {}
    return [BranchPoint(member.id, turn) for turn in turns]


def _continued(
    group: OpenGroup,
    places: Callable[[Trajectory], list[BranchPoint]],
    continuations: int,
    *,
    prefix: bool = False,
) -> Growth:
    """Return continuations of the members of the first round, which are those that are kept, perhaps up to there."""
    if not group.round:
        return Growth()
    roots = [member for member in ordered(group.members) if member.fork_of is None]
    starts = [point for member in roots for point in places(member)]
    if group.round == 1 and starts:
        return Growth(tuple(MoreEpisodes(continuations, at=point) for point in starts))
    until = tuple(starts) if prefix else ()
    return Growth(keep=ids(roots), until=until) if len(roots) < len(group.members) else Growth(until=until)
