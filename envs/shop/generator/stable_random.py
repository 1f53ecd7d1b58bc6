"""Random draws that are the same in every process and every version of Python.

Only `random.Random.random()` is used, whose sequence for a text seed Python guarantees. `choice`, `sample` and
`shuffle` have changed between versions, and `hash()` differs between processes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["StableRandom"]

T = TypeVar("T")


class StableRandom:
    """Random draws from a text seed.

    >>> StableRandom("a").below(1000) == StableRandom("a").below(1000)
    True
    """

    def __init__(self, seed: str) -> None:
        self.uniform = random.Random(seed).random
        """Return a float in [0, 1)."""

    def below(self, count: int) -> int:
        """Return an integer from 0 to count - 1."""
        return int(self.uniform() * count)

    def between(self, bounds: tuple[int, int]) -> int:
        """Return an integer between two bounds, both included."""
        return bounds[0] + self.below(bounds[1] - bounds[0] + 1)

    def one(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self.uniform() * len(items))]

    def some(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items in random order, or all of them if there are fewer."""
        pool, uniform = list(items), self.uniform
        length = len(pool)
        for position in range(min(count, length)):
            other = position + int(uniform() * (length - position))
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:count]

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.uniform() < probability
