"""Frequency of Python's cyclic garbage collector in the processes of turncredit."""

from __future__ import annotations

import gc

__all__ = ["collect_garbage_less_often"]

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
