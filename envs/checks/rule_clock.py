"""The seconds that a check may take.

They are divided into equal parts, one for each level of rules, and what a part leaves goes to the next. A rule may take
half of what its part has left, so that one slow rule does not leave the others unjudged; what is left in the end goes
to the rules that were cut off.
"""

from __future__ import annotations

import math
import time

__all__ = ["OutOfTime", "RuleClock"]


class OutOfTime(BaseException):
    """A rule has no time left. No `Exception`, since rules take those for faults of the environment."""


class RuleClock:
    """A clock that says when the rule that is judged has to end."""

    def __init__(self, seconds: float | None, parts: int) -> None:
        """Start the clock.

        Args:
            seconds: of all rules together; None: no limit.
            parts: into how many parts they are divided.
        """
        self.seconds, self._parts = seconds, parts
        self._began = time.monotonic()
        self._end = math.inf

    def begin_rule(self, part: int) -> bool:
        """Begin a rule that belongs to a part, and return whether it has any time; parts count from 0."""
        if self.seconds is not None:
            level_end = self._began + self.seconds * (part + 1) / self._parts
            current = time.monotonic()
            self._end = current + (level_end - current) / 2
        return self.left > 0

    @property
    def left(self) -> float:
        """Seconds that the rule may still take; inf without a limit."""
        return self._end - time.monotonic()

    def require(self) -> None:
        """Go on if there is time left.

        Raises:
            OutOfTime: there is none.
        """
        if self.left <= 0:
            raise OutOfTime
