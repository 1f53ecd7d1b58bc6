"""Whose turn it is, among some with weights: each gets its share of every stretch of turns, and not by chance.

Source: Tijdeman (1980), "The chairman assignment problem", Discrete Mathematics 32.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from math import lcm
from typing import TypeVar

__all__ = ["Rotation", "interleaved"]

T = TypeVar("T")


class Rotation:
    """An endless sequence of turns, a pure function of the weights.

    With k members and shares p = weight / sum of weights, member i has had within 1 - 1/(2k - 2) turns of t p[i] after
    any number t of turns.

    >>> rotation = Rotation([2, 1])
    >>> [rotation.at(position) for position in range(4)]
    [(0, 0), (1, 0), (0, 1), (0, 2)]
    """

    def __init__(self, weights: Sequence[float]) -> None:
        """Begin before the first turn.

        Args:
            weights: of the members, > 0.
        """
        exact = [_ratio(weight) for weight in weights]
        scale = lcm(*(weight.denominator for weight in exact))
        self._weights = [int(weight * scale) for weight in exact]
        self._counts = [0] * len(exact)
        self._turns: list[tuple[int, int]] = []

    def at(self, position: int) -> tuple[int, int]:
        """Return whose turn it is at a position, counted from 0, and how many turns this member had before."""
        while len(self._turns) <= position:
            self._next()
        return self._turns[position]

    def _next(self) -> None:
        member = self._due() if len(self._weights) > 1 else 0
        self._turns.append((member, self._counts[member]))
        self._counts[member] += 1

    def _due(self) -> int:
        """Return the member whose deadline is next, of those that may have a turn by now."""
        turn, total, room = len(self._turns) + 1, sum(self._weights), 2 * len(self._weights) - 2
        behind = [weight * turn - count * total for weight, count in zip(self._weights, self._counts, strict=True)]
        ready = [member for member, lag in enumerate(behind) if lag * room >= total]
        return min(ready, key=lambda i: Fraction((room - 1) * total - room * behind[i], self._weights[i]))


def _ratio(weight: float) -> Fraction:
    """Return the simple ratio that a number is meant for: a tenth for 0.1."""
    exact = Fraction(weight)
    return exact.limit_denominator(10**9) or exact


def interleaved(lists: Sequence[Iterable[T]], weights: Sequence[float]) -> Iterator[T]:
    """Yield the items of some lists in turn; those that are left when a list ends go on with their own weights.

    >>> "".join(interleaved(["abcdef", "123"], [2, 1]))
    'a1bc2de3f'
    """
    members = [(iter(items), weight) for items, weight in zip(lists, weights, strict=True)]
    while members:
        rotation = Rotation([weight for _, weight in members])
        position, ended = 0, None
        while ended is None:
            member, _ = rotation.at(position)
            try:
                yield next(members[member][0])
            except StopIteration:
                ended = member
            position += 1
        del members[ended]
