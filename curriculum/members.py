"""Building blocks of group rules: members in an order of their own, how many were asked for, what they measured."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from numpy.random import Generator

from turncredit.agents.trajectory import Trajectory, member_order
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.growth import OpenGroup

__all__ = ["asked_for", "balanced", "column", "comparable", "dice", "ids", "last_played", "ordered"]


def ordered(members: Iterable[Trajectory]) -> list[Trajectory]:
    """Return members in the order of their numbers, a fork after its parent."""
    return sorted(members, key=member_order)


def ids(members: Iterable[Trajectory]) -> frozenset[str]:
    """Return the ids of members."""
    return frozenset(member.id for member in members)


def asked_for(group: OpenGroup) -> int:
    """Return how many episodes have been asked for, those that failed included."""
    return len(group.members) + group.failed


def last_played(group: OpenGroup) -> list[Trajectory]:
    """Return the members of the last round in which an episode finished."""
    last = max((member.round for member in group.members), default=0)
    return [member for member in ordered(group.members) if member.round == last]


def dice(group: OpenGroup) -> Generator:
    """Return a generator like that of the group, which a rule may use up: asked again, it rolls the same."""
    return copy.deepcopy(group.rng)


def column(member: Trajectory, name: str) -> list[float]:
    """Return the numbers that the turns of a member have in an extra column.

    Raises:
        CurriculumError: a turn lacks the column, or has no number there.
    """
    values = [turn.extras.get(name) for turn in member.turns]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if len(numbers) < len(values):
        columns = sorted({key for turn in member.turns for key in turn.extras})
        raise CurriculumError(
            f"every turn needs a number in the column {name!r}, from its environment, sampler or annotator; "
            f"{member.id} lacks {len(values) - len(numbers)} of {len(values)}, and has {', '.join(columns) or 'none'}"
        )
    return numbers


def comparable(number: float) -> float:
    """Return a sum or a mean rounded to nine digits, so that rounding noise does not order members that are equal.

    >>> comparable((0.4 + 0.4 + 0.4) / 3) == comparable(0.4)
    True
    """
    return round(number, 9)


def balanced(winners: Sequence[Trajectory], losers: Sequence[Trajectory], count: int) -> list[Trajectory]:
    """Return the first of both classes, half of each as far as there are enough.

        a = clip(count // 2, count - losers, winners)        the first a winners and the first count - a losers

    Args:
        winners, losers: in the order in which they are wanted.
        count: members to be chosen; of fewer, all.
    """
    wins = min(max(count // 2, count - len(losers)), len(winners))
    return [*winners[:wins], *losers[: count - wins]]
