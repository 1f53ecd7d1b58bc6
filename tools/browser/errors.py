"""Exceptions of the browser.

    BrowserError
    ├── NoBrowser           Playwright or Chromium is missing, or the browser does not start
    ├── BrowserDied         the browser died, or hung and was killed; all its tabs are lost
    │   └── TabDied         only this tab is lost: its page hung or crashed
    ├── TabClosed           the tab has been closed
    ├── NoPage              an address that cannot be opened
    └── BadBrowserOption    an invalid value for an option

An action that fails is not an exception: `ActionResult` has a note for the agent.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BadBrowserOption",
    "BrowserDied",
    "BrowserError",
    "NoBrowser",
    "NoPage",
    "TabClosed",
    "TabDied",
    "check_seconds",
]


class BrowserError(Exception):
    """Base class of all browser errors; the message is one sentence for the user."""


class NoBrowser(BrowserError):
    """Playwright or Chromium is missing, or the browser does not start; the message says what to install."""


class BrowserDied(BrowserError):
    """The browser died; opening the next tab starts a new one."""


class TabDied(BrowserDied):
    """The page of this tab hung or crashed, and the tab was closed; other tabs are not affected."""


class TabClosed(BrowserError):
    """The tab has been closed."""


class NoPage(BrowserError):
    """The address is invalid, not allowed, or does not respond."""


class BadBrowserOption(BrowserError, ValueError):
    """An invalid value for an option of the browser or a tab."""


_DAY: Final = 86_400


def check_seconds(name: str, value: object) -> float:
    """Return a time limit in seconds.

    Args:
        name: of the option, for the message.
        value: its value.

    Raises:
        BadBrowserOption: the value is not a number above 0 and at most one day.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _DAY:
        raise BadBrowserOption(f"{name} must be a number of seconds > 0 and <= {_DAY:,}, got {value!r}")
    return float(value)
