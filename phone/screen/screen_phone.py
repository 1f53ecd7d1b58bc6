"""The phone as its screen uses it: a protocol, since the phone itself stands above the screen."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from turncredit.phone.screen.layout import Frame
from turncredit.phone.toolkit.app import AppPhone
from turncredit.phone.toolkit.state import AppPage

__all__ = ["ScreenPhone"]


class ScreenPhone(AppPhone, Protocol):
    """What layout, touches, keys and screenshots use of a phone; `turncredit.phone.Phone` documents it."""

    @property
    def frame(self) -> Frame:
        """The window in front."""
        ...

    @property
    def now(self) -> datetime:
        """The clock."""
        ...

    def frame_of(self, page: AppPage) -> Frame:
        """Return a page as boxes."""
        ...

    def open_shade(self) -> None:
        """Open the notification shade."""
        ...

    def leave(self) -> None:
        """Do what the Back key does when no keyboard is open."""
        ...
