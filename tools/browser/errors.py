"""What can go wrong with the browser, as one tree.

    BrowserError
    ├── NoBrowser      no Playwright or no Chromium on this machine, or it does not start
    ├── BrowserDied    the browser is gone, or was killed because it hung; the tabs in it are lost
    │   └── TabDied    only this tab is lost: its page hung or crashed; the others go on
    ├── TabClosed      the tab was closed by whoever opened it
    ├── NoPage         an address that cannot be opened
    └── BadOption      a value that the browser or a tab cannot use

An action that cannot be carried out is none of these: it is answered (see `Outcome`), for the agent is to read it.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BadOption", "BrowserDied", "BrowserError", "NoBrowser", "NoPage", "TabClosed", "TabDied", "seconds_of"]


class BrowserError(Exception):
    """Root of what a user can meet here; its text is one sentence for that user."""


class NoBrowser(BrowserError):
    """There is no browser to start, or it does not start; the text says what to install."""


class BrowserDied(BrowserError):
    """The browser is gone; the next tab starts a new one."""


class TabDied(BrowserDied):
    """The page of this tab hung or crashed, and the tab was closed; the browser and its other tabs live."""


class TabClosed(BrowserError):
    """The tab was closed before."""


class NoPage(BrowserError):
    """The address is none, is not allowed, or does not answer."""


class BadOption(BrowserError, ValueError):
    """A value that the browser or a tab cannot use; the text says which are wanted."""


_DAY: Final = 86_400


def seconds_of(what: str, given: object) -> float:
    """Return a deadline in seconds.

    Args:
        what: its name, for the message.
        given: what was given for it.

    Raises:
        BadOption: it is no number above 0, or more than a day (timers end somewhere).
    """
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= _DAY:
        raise BadOption(f"{what} is {given!r}; it is a number of seconds, above 0 and at most {_DAY:,}")
    return float(given)
