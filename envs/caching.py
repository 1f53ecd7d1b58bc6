"""What was made once in this process, by a key of all that it depends on: answers, since groups of episodes begin alike
(`ByteLimitedCache`, bounded by bytes), and large things that environments share while they use them (`SharedObjects`).

Left out on purpose: keeping them on disk, and telling which programs ask a clock or dice; these answer the same again,
too.
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

_MOST: Final = 64 << 20  # bytes, of which large things are soon forgotten
_ENTRY: Final = 2000  # bytes that an entry weighs at least
T = TypeVar("T")


class ByteLimitedCache(Generic[T]):
    """Things by key, the least used of which are forgotten where they weigh too much together.

    Args:
        most: bytes of all of them.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self._weight = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> T | None:
        """Return what was kept under a key."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: str, thing: T, weight: int) -> None:
        """Keep a thing of so many bytes."""
        weight += _ENTRY
        with self._lock:
            self._weight += weight - self._kept.pop(key, (thing, 0))[1]
            self._kept[key] = thing, weight
            while self._weight > self._most:
                self._weight -= self._kept.popitem(last=False)[1][1]

    def recall(self, key: str, make: Callable[[], T], weigh: Callable[[T], int | None]) -> T:
        """Return what was kept under a key, or what `make` gives.

        Args:
            key: of all that the answer depends on.
            make: gives the answer; it is not None.
            weigh: gives the bytes of an answer; None: it is not kept.
        """
        found = self.get(key)
        if found is not None:
            return found
        made = make()
        weight = weigh(made)
        if weight is not None:
            self.keep(key, made, weight)
        return made

    def forget(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._kept.clear()
            self._weight = 0


class SharedObjects(Generic[T]):
    """Things by key that live as long as somebody holds them; the last few that were asked for live on.

    Args:
        lately: how many of these.
    """

    def __init__(self, lately: int = 4) -> None:
        self._held: WeakValueDictionary[Hashable, T] = WeakValueDictionary()
        self._lately: deque[T] = deque(maxlen=lately)
        self._lock = threading.RLock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the thing of a key; `make` gives it where nobody holds one."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                found = self._held[key] = make()
            if not any(found is one for one in self._lately):
                self._lately.append(found)
            return found


def cache_folder() -> Path:
    """Return the user's cache folder of this package: $TURNWISE_CACHE, else turnwise in $XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("TURNWISE_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "turnwise"
