"""Ctrl-C that waits: what must not be done by halves is finished before a run is interrupted."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted(work: str = "") -> Iterator[None]:
    """Delay Ctrl-C, and the signals that do the same, until the block is done; a second one interrupts at once.

    Args:
        work: what is done, where it may take long: the first signal is answered with a sentence on standard error.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def hold(_: int, __: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt
        if work:  # not by print(), which the signal may have cut in two
            os.write(
                2, f"{work} is finished first; a second interruption gives it up\n".encode("utf-8", "backslashreplace")
            )

    before = signal.getsignal(signal.SIGINT)
    endings = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    held = [signal.SIGINT, *(number for number in endings if signal.getsignal(number) is before)]
    for number in held:
        signal.signal(number, hold)
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, before)
    if pressed:
        raise KeyboardInterrupt
