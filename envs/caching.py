"""Caches within a process: results bounded by bytes (`ByteLimitedCache`), and large objects that environments share
while they use them (`SharedObjects`).

Keys must contain everything that a value depends on.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Final, Generic, TypeVar
from weakref import WeakValueDictionary

__all__ = ["ByteLimitedCache", "SharedObjects", "cache_folder"]

_MOST: Final = 64 << 20  # bytes
_ENTRY: Final = 2000  # bytes of overhead per entry
T = TypeVar("T")


class ByteLimitedCache(Generic[T]):
    """A least-recently-used cache bounded by the total size of its values.

    Args:
        most: total size in bytes.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """Return the value of a key, or None."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: str, thing: T, weight: int) -> None:
        """Store a value of `weight` bytes."""
        weight += _ENTRY
        with self._lock:
            self._weight += weight - self._kept.pop(key, (thing, 0))[1]
            self._kept[key] = thing, weight
            while self._weight > self._most:
                self._weight -= self._kept.popitem(last=False)[1][1]

    def recall(self, key: str, make: Callable[[], T], weigh: Callable[[T], int | None]) -> T:
        """Return the value of a key, made and stored if it is missing.

        Args:
            key: everything that the value depends on.
            make: returns the value, which is not None.
            weigh: returns the size of a value in bytes, or None not to store it.
        """
        value = self.get(key)
        if value is not None:
            return value
        made = make()
        weight = weigh(made)
        if weight is not None:
            self.keep(key, made, weight)
        return made

    def forget(self) -> None:
        """Remove all values."""
        with self._lock:
            self._kept.clear()
            self._weight = 0


class SharedObjects(Generic[T]):
    """Objects by key that live as long as somebody holds them, and the most recently requested ones longer.

    Args:
        lately: how many recent objects to keep.
    """

    def __init__(self, lately: int = 4) -> None:
        self._held: WeakValueDictionary[Hashable, T] = WeakValueDictionary()
        self._lately: deque[T] = deque(maxlen=lately)
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object of a key, made if nobody holds it."""
        with self._lock:
            shared = self._held.get(key)
            if shared is None:
                shared = self._held[key] = make()
            if not any(shared is held for held in self._lately):
                self._lately.append(shared)
            return shared


def cache_folder() -> Path:
    """Return this package's cache folder: $TURNCREDIT_CACHE, else turncredit in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("TURNCREDIT_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "turncredit"
