"""Ctrl-C that waits: what must not be done by halves is finished before a run is interrupted."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, and the signals that do the same, until the block is done; a second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def hold(_: int, __: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt

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
