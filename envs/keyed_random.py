"""Draws that are the same on every machine and in every Python: all of them are made of random.Random.random().

Python promises the sequence of random() for a seed for ever, but not the one of choice, shuffle or randrange.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import TypeVar

__all__ = ["KeyedRandom"]

T = TypeVar("T")


class KeyedRandom:
    """A stream of draws that a text alone decides."""

    def __init__(self, key: str) -> None:
        """Seed the stream with the 16-byte BLAKE2b digest of `key`."""
        digest = hashlib.blake2b(key.encode(), digest_size=16).digest()
        self._next = random.Random(int.from_bytes(digest, "big")).random

    def chance(self, probability: float) -> bool:
        """Return True with that probability."""
        return self._next() < probability

    def between(self, least: int, most: int) -> int:
        """Return a whole number from `least` to `most`, both included, each equally likely."""
        return least + int(self._next() * (most - least + 1))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of `items`, each equally likely."""
        return items[int(self._next() * len(items))]

    def weighted(self, weights: Mapping[T, float]) -> T:
        """Return a key with probability weight / sum of weights, in the mapping's order; weights are above zero."""
        left = self._next() * sum(weights.values())
        *others, last = weights.items()
        for item, weight in others:
            left -= weight
            if left < 0:
                return item
        return last[0]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return a copy of `items` in a random order (Fisher and Yates)."""
        order = list(items)
        for i in range(len(order) - 1, 0, -1):
            j = int(self._next() * (i + 1))
            order[i], order[j] = order[j], order[i]
        return order
