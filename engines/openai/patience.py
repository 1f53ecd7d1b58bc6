"""Patience with a server that has not answered any request yet: it may still start, or it may never answer.

After `SAID_AFTER` failures a warning says what is retried and why. A server that still fails when the patience is over
is given up. The first answer ends both: from then on, the limits of single requests hold alone.

A server that says when to come back (`Retry-After`) works, and is not counted.
"""

from __future__ import annotations

import warnings

from turncredit.engines.openai.failures import Failure

__all__ = ["SAID_AFTER", "StartUpPatience"]

SAID_AFTER = 3
"""Failures before the first answer after which a user is told."""


class StartUpPatience:
    """Counts the failures of a server before its first answer."""

    def __init__(self, url: str, seconds: float) -> None:
        """Begin with the first failure.

        Args:
            url: base URL of the server.
            seconds: patience after the first failure.
        """
        self._url, self._seconds = url, seconds
        self._since: float | None = None
        self._failures = 0
        self._answered = False

    def answered(self) -> None:
        """Note that the server answers."""
        self._answered = True

    def over(self, failure: Failure, now: float) -> str:
        """Note a failure that is retried; return why the server is given up, "" while there is patience.

        Args:
            failure: the failure of an attempt.
            now: seconds of a clock.

        Warns:
            RuntimeWarning: once, with what is retried.
        """
        if self._answered or failure.wait is not None:
            return ""
        self._since = now if self._since is None else self._since
        self._failures += 1
        if now - self._since >= self._seconds:
            return (
                f"none of {self._failures} requests was answered within {self._seconds:g} seconds; the last failure: "
                f"{failure.reason}; if the server needs longer to start, raise its option patience"
            )
        if self._failures == SAID_AFTER:
            warnings.warn(
                f"{self._url} has not answered yet and is asked again, for {self._seconds:g} seconds in all: "
                f"{failure.reason}",
                RuntimeWarning,
                stacklevel=2,
            )
        return ""

    def shortened(self, wait: float, now: float) -> float:
        """Return a pause before the next attempt, which is not longer than the patience that is left.

        Args:
            wait: seconds that the pause would have.
            now: seconds of a clock.
        """
        if self._answered or self._since is None:
            return wait
        return min(wait, max(self._since + self._seconds - now, 0.0))
