"""Draws that are the same in every process and every Python.

Only `random.Random.random()` is used, whose sequence for a text seed Python promises to keep; `choice`, `sample` and
`shuffle` have changed before. `hash()` differs from process to process and is used nowhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["Draws"]

T = TypeVar("T")


class Draws:
    """Draws from a text.

    >>> Draws("a").below(1000) == Draws("a").below(1000)
    True
    """

    def __init__(self, seed: str) -> None:
        self.uniform = random.Random(seed).random
        """Return a float from 0 up to, not including, 1."""

    def below(self, count: int) -> int:
        """Return a whole number from 0 to count - 1."""
        return int(self.uniform() * count)

    def between(self, ends: tuple[int, int]) -> int:
        """Return a whole number from the first end to the second, both included."""
        return ends[0] + self.below(ends[1] - ends[0] + 1)

    def one(self, things: Sequence[T]) -> T:
        """Return one of some things."""
        return things[int(self.uniform() * len(things))]

    def some(self, things: Sequence[T], count: int) -> list[T]:
        """Return so many different ones in a drawn order; all of them if there are fewer."""
        rest, uniform = list(things), self.uniform
        length = len(rest)
        for place in range(min(count, length)):
            other = place + int(uniform() * (length - place))
            rest[place], rest[other] = rest[other], rest[place]
        return rest[:count]

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.uniform() < probability
