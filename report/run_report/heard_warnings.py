"""Warnings of a block as texts, for a report of which several threads read at once.

`warnings.catch_warnings` replaces what all threads of a process share, so that two blocks which overlap hear each
other's warnings, and the later end undoes the wrong change.
"""

from __future__ import annotations

import threading
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TextIO

__all__ = ["heard_warnings"]

_lock = threading.Lock()
_lists: defaultdict[int, list[list[str]]] = defaultdict(list)
"""The lists of the blocks that are open, by thread; the innermost one hears."""
_changes = ExitStack()
"""What the first open block changed, and the last one undoes."""


@contextmanager
def heard_warnings() -> Iterator[list[str]]:
    """Collect the texts of all warnings that this thread issues in the block, instead of printing them.

    Yields:
        The list, which grows.
    """
    texts: list[str] = []
    thread = threading.get_ident()
    with _lock:
        if not _lists:
            _listen()
        _lists[thread].append(texts)
    try:
        yield texts
    finally:
        with _lock:
            _lists[thread].pop()
            if not _lists[thread]:
                del _lists[thread]
            if not _lists:
                _changes.close()


def _listen() -> None:
    """Let every warning reach its block; those of threads without one are shown as before."""
    _changes.enter_context(warnings.catch_warnings())
    show = warnings.showwarning

    def hear(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        open_blocks = _lists.get(threading.get_ident())
        if open_blocks:
            open_blocks[-1].append(str(message))
        else:
            show(message, category, filename, lineno, file, line)

    warnings.simplefilter("always")
    warnings.showwarning = hear
