"""Random draws that are the same on every machine and in every version of Python.

All draws use random.Random.random(): Python guarantees its sequence for a seed, but not that of choice, shuffle or
randrange.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["KeyedRandom"]

T = TypeVar("T")


class KeyedRandom:
    """A random generator seeded with a text."""

    __slots__ = ("_next",)

    def __init__(self, key: str) -> None:
        """Seed with the 16-byte BLAKE2b digest of `key`."""
        digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
        self._next = random.Random(int.from_bytes(digest, "big")).random

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._next() < probability

    def between(self, least: int, most: int) -> int:
        """Return an integer from `least` to `most`, inclusive, uniformly."""
        return least + int(self._next() * (most - least + 1))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`, uniformly."""
        return items[int(self._next() * len(items))]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """Return a key with probability weight / sum of weights; weights are > 0, and the order of keys matters."""
        left = self._next() * sum(weights.values())
        *others, last = weights.items()
        for item, weight in others:
            left -= weight
            if left < 0:
                return item
        return last[0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return a copy of `items` in random order (Fisher-Yates)."""
        order, draw = list(items), self._next
        for i in range(len(order) - 1, 0, -1):
            j = int(draw() * (i + 1))
            order[i], order[j] = order[j], order[i]
        return order
