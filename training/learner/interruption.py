"""Ctrl-C that waits: what must not be done by halves is finished before a run is interrupted."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from turncredit.processes.endings import ENDINGS, is_repeated, raised, stop_if_asked, stop_once

_holding = False
"""Whether a block is under way."""


@contextmanager
def uninterrupted(work: str = "") -> Iterator[None]:
    """Delay Ctrl-C, and the signals that do the same, until the block is done; a second one interrupts at once.

    SIGTERM and SIGHUP that the program `turncredit` receives again are the same request. A block inside another one
    interrupts nothing: what the outer one encloses is not done by halves either.

    Args:
        work: what is done, where it may take long: the first signal is answered with a sentence on standard error.
    """
    global _holding
    if _holding or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def hold(number: int, _: object) -> None:
        nonlocal pressed
        if is_repeated(number):
            return
        pressed += 1
        if pressed > 1:
            raise raised()
        if work:  # not by print(), which the signal may have cut in two
            os.write(
                2, f"{work} is finished first; a second interruption gives it up\n".encode("utf-8", "backslashreplace")
            )

    before = signal.getsignal(signal.SIGINT)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *ENDINGS)}
    handlers = {number: handler for number, handler in handlers.items() if handler in (before, stop_once)}
    for number in handlers:
        signal.signal(number, hold)
    _holding = True
    try:
        yield
    finally:
        _holding = False
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if pressed:
        raise raised()
    stop_if_asked()
