"""Setting the phone's clock, as `date` and a task do it."""

from __future__ import annotations

from datetime import datetime

from turncredit.phone.phone import Phone
from turncredit.phone.toolkit.app import to_clock

__all__ = ["set_clock"]


def set_clock(phone: Phone, moment: datetime) -> None:
    """Set the clock. What was due in between happens once, at the new time, as on Android."""
    clock = to_clock(moment)
    due = sorted((event for event in phone.state.events if event.when <= clock), key=lambda event: event.when)
    phone.change(clock=clock, events=tuple(event for event in phone.state.events if event.when > clock))
    for event in due:
        phone.run(event.action, event.package)
    phone.advance(0)
