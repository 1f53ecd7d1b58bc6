"""What was found out once: the same files give the same answers, so nothing is run twice in one process.

That makes groups of episodes of one task cheap, and equal states behave alike even where a program draws at random.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["forget", "recall"]

_MOST: Final = 8192
_kept: OrderedDict[str, Any] = OrderedDict()
_lock = threading.Lock()
T = TypeVar("T")


def recall(key: str, make: Callable[[], T], keep: Callable[[T], bool]) -> T:
    """Return what was kept under a key, or what `make` gives, which is kept where `keep` says so."""
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            found: T = _kept[key]
            return found
    made = make()
    if keep(made):
        with _lock:
            _kept[key] = made
            if len(_kept) > _MOST:
                _kept.popitem(last=False)
    return made


def forget() -> None:
    """Keep nothing."""
    with _lock:
        _kept.clear()
