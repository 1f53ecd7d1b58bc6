"""SIGTERM and SIGHUP, which stop a program as Ctrl-C does, and once, however often they come.

A scheduler signals every process of a job, and launchers such as torchrun pass on what they receive, so one request
arrives twice. Ctrl-C that is pressed again means haste.

The handler raises an exception in whatever the main thread does. Python ignores exceptions in some places: finalizers,
callbacks of weak references and of the garbage collector, hooks of `os.fork`. A signal whose exception is lost there is
sent again a moment later, Ctrl-C included. A library that catches every exception hides it as well: the next signal
raises again, and a long loop asks `stop_if_asked`. So a signal counts as repeated only while an earlier one is on its
way to the code that stops the program, or has arrived.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from types import FrameType

__all__ = [
    "ENDINGS",
    "Ending",
    "interruption_seen",
    "is_repeated",
    "raised",
    "stop_at_endings",
    "stop_if_asked",
    "stop_once",
]

ENDINGS: Final = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
"""What schedulers send, and terminals that close."""
_AGAIN: Final = 0.05
"""Seconds after which a lost signal is sent again: by then, what lost it has mostly returned."""

State = Literal["elsewhere", "none", "held", "raised", "seen"]


class Ending(KeyboardInterrupt):
    """An exception of a signal of `ENDINGS`."""


_state: State = "elsewhere"
"""How far the request has come: this program does not use `stop_at_endings`; nobody asked; a block of
`uninterrupted` holds it; its exception was raised; the code that stops the program has it."""
_raised: weakref.ref[Ending] | None = None
"""The exception that is on its way; one that is gone reached nobody."""
_report_ignored = sys.unraisablehook


def stop_at_endings() -> None:
    """Let SIGTERM, and SIGHUP unless it is ignored as by `nohup`, stop this process by KeyboardInterrupt."""
    global _state, _raised, _report_ignored
    _state, _raised = "none", None
    for number in ENDINGS:
        if number == signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, stop_once)
    if sys.unraisablehook is not _ignored:
        _report_ignored = sys.unraisablehook
        sys.unraisablehook = _ignored


def stop_once(number: int, frame: FrameType | None) -> None:
    """Handle a signal by KeyboardInterrupt, unless an earlier one is on its way or has arrived."""
    if not is_repeated(number):
        raise raised()


def is_repeated(number: int) -> bool:
    """Return whether a signal that has just come repeats one since `stop_at_endings`; later ones will."""
    global _state
    if _state == "elsewhere" or number not in ENDINGS:
        return False
    if _state in ("held", "seen") or _on_its_way():
        return True
    _state = "held"
    return False


def raised() -> KeyboardInterrupt:
    """Return the exception to raise for what was not repeated: of a signal, which later ones repeat, or of Ctrl-C."""
    global _state, _raised
    if _state != "held":
        return KeyboardInterrupt()
    ending = Ending()
    _state, _raised = "raised", weakref.ref(ending)
    return ending


def stop_if_asked() -> None:
    """Raise KeyboardInterrupt if a signal asked for it and its exception has been lost.

    Called by the main thread between two pieces of work; while an exception is handled, nothing is lost.
    """
    global _state
    main = threading.current_thread() is threading.main_thread()
    if _state == "raised" and main and sys.exc_info()[1] is None:
        _state = "held"
        raise raised()


def interruption_seen() -> None:
    """Note that this program is being stopped, so that all further signals of `ENDINGS` are the same request."""
    global _state, _raised
    if _state != "elsewhere":
        _state, _raised = "seen", None


def _on_its_way() -> bool:
    return _state == "raised" and _raised is not None and _raised() is not None


def _ignored(lost: sys.UnraisableHookArgs) -> None:
    """Send a signal again whose exception Python has ignored; other exceptions are reported as before."""
    global _raised
    number = signal.SIGTERM if lost.exc_type is Ending else signal.SIGINT
    if lost.exc_type not in (Ending, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        _report_ignored(lost)
        return
    if lost.exc_type is Ending:
        _raised = None
    with contextlib.suppress(RuntimeError):  # no thread can be started: the next signal, or `stop_if_asked`, stops it
        _thread.start_new_thread(_send_again, (number, os.getpid()))


def _send_again(number: signal.Signals, process: int) -> None:
    time.sleep(_AGAIN)
    if os.getpid() == process:
        os.kill(process, number)
