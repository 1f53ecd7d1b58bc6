"""SIGTERM and SIGHUP, which stop a program as Ctrl-C does, and once, however often they come.

A scheduler signals every process of a job, and launchers such as torchrun pass on what they receive, so one request
arrives twice. Ctrl-C that is pressed again means haste.
"""

from __future__ import annotations

import signal
from types import FrameType
from typing import Final

__all__ = ["ENDINGS", "is_repeated", "stop_at_endings", "stop_once"]

ENDINGS: Final = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""What schedulers send, and terminals that close."""
_asked: bool | None = None
"""Whether one of them has come since `stop_at_endings`; None: that was not called."""


def stop_at_endings() -> None:
    """Let SIGTERM, and SIGHUP unless it is ignored as by `nohup`, stop this process by KeyboardInterrupt."""
    global _asked
    _asked = False
    for number in ENDINGS:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop_once)


def stop_once(number: int, frame: FrameType | None) -> None:
    """Handle a signal by KeyboardInterrupt, unless an earlier one has done so."""
    if not is_repeated(number):
        raise KeyboardInterrupt


def is_repeated(number: int) -> bool:
    """Return whether a signal that has just come repeats one since `stop_at_endings`; later ones will."""
    global _asked
    if _asked is None or number not in ENDINGS:
        return False
    repeated, _asked = _asked, True
    return repeated
