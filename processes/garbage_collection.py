"""Frequency of Python's cyclic garbage collector in the processes of turncredit."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["collect_garbage_less_often", "leave_inherited_garbage", "no_collection"]

NEW_OBJECTS = 20_000
"""Objects that may come to be, beyond those that went, before the collector looks at them; Python's default is 700."""


def collect_garbage_less_often() -> None:
    """Let the collector run after 20,000 new objects instead of 700 (2,000 since Python 3.13).

    Environments keep many small objects, which the collector visits again and again without finding garbage among
    them; `benchmarks/garbage.py` measures what that costs. The program `turncredit` and its worker processes call this.
    A process that has switched the collector off, or has a higher threshold, is left as it is.
    """
    first, *others = gc.get_threshold()
    if 0 < first < NEW_OBJECTS:
        gc.set_threshold(NEW_OBJECTS, *others)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Keep the collector from running meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def leave_inherited_garbage(collects: bool) -> None:
    """Set aside what a fork inherited, so that its collector neither visits nor finalizes it.

    Garbage of the parent may hold what exists in the parent alone: destroying a process group of torch in a fork joins
    a thread that is not there, and aborts the fork.

    Args:
        collects: whether the collector runs from here on.
    """
    gc.freeze()
    if collects:
        gc.enable()
