"""Falls of success beyond chance, among iterations that play different tasks.

Few tasks are played in an iteration, so one alone says little: of 64 episodes in 8 groups, the success of one policy
varies by 10 points and more. A fall is therefore a difference of two means: of the `BEFORE` iterations at their best,
and of the newest 3 or 8, the first for a collapse, the second for a decline. Its standard error is the largest of
three: from the groups within the iterations, from the changes between iterations over the whole run (von Neumann,
1941), and from the spread within the two windows. The limit allows for the many pairs of windows that a run compares.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from turncredit.training.types import State

BEFORE = 8
"""Iterations whose best mean is compared with that of the newest ones."""
NEWEST = (3, 8)
"""Numbers of newest iterations whose mean is compared."""
SHARE = 0.7
"""Share of the best mean success at which a fall is worth a warning, if it is certain."""
CERTAIN = 5.0
"""Standard errors of the difference beyond which it is no chance."""


@dataclass(frozen=True, slots=True)
class SuccessWindow:
    """Some iterations in a row.

    Attributes:
        mean: of their success.
        variance: of the success of one of them: from their groups, or between them, whichever is larger.
        size: how many they are.
    """

    mean: float
    variance: float
    size: int

    @classmethod
    def of(cls, success: Sequence[float], errors: Sequence[float | None]) -> "SuccessWindow":
        """Return the window of some iterations.

        Args:
            success: of each, in [0, 1].
            errors: variance of each, as its groups show it; None where they do not.
        """
        variances = [error for error in errors if error is not None]
        spread = max(statistics.variance(success), statistics.fmean(variances) if variances else 0.0)
        return cls(statistics.fmean(success), spread, len(success))


@dataclass(frozen=True, slots=True)
class Fall:
    """A fall of success from the best mean of `BEFORE` iterations to that of the newest ones."""

    best: SuccessWindow
    newest: SuccessWindow

    @property
    def difference(self) -> float:
        """How much lower the newest iterations are."""
        return self.best.mean - self.newest.mean

    def error(self, variance: float) -> float:
        """Return the standard error of the difference.

        Args:
            variance: of the success of an iteration over the whole run; that of the windows counts where it is larger.
        """
        own = self.best.variance / self.best.size + self.newest.variance / self.newest.size
        return math.sqrt(max(own, variance * (1 / self.best.size + 1 / self.newest.size)))

    def certain(self, variance: float) -> bool:
        """Return whether the fall is large, and beyond chance."""
        large = self.difference > 0 and self.newest.mean <= SHARE * self.best.mean
        return large and self.difference > CERTAIN * self.error(variance)


class SuccessFalls:
    """Looks for falls while a run goes on."""

    def __init__(self) -> None:
        self._success: list[float] = []
        self._errors: list[float | None] = []
        self._best: dict[int, SuccessWindow] = {}  # by the number of newest iterations that it is compared with
        self._squares = self._variances = 0.0
        self._count = self._errors_known = 0

    def after(self, success: float, error: float) -> Fall | None:
        """Return the fall that is certain after one more iteration; None for none.

        Args:
            success: of the iteration, in [0, 1].
            error: its standard error, from the groups of the iteration; NaN where they do not show one.
        """
        if self._success:
            self._squares += (success - self._success[-1]) ** 2
        variance = None if math.isnan(error) else error**2
        self._count += 1
        if variance is not None:
            self._variances += variance
            self._errors_known += 1
        self._success = [*self._success, success][-BEFORE - max(NEWEST) :]
        self._errors = [*self._errors, variance][-BEFORE - max(NEWEST) :]
        falls = [fall for newest in NEWEST if (fall := self._fall(newest)) is not None]
        return next((fall for fall in falls if fall.certain(self._variance)), None)

    @property
    def _variance(self) -> float:
        """Variance of an iteration's success over the whole run, as far as it does not come from a trend."""
        changes = self._squares / (2 * (self._count - 1)) if self._count > 1 else 0.0
        return max(changes, self._variances / max(1, self._errors_known))

    def _fall(self, newest: int) -> Fall | None:
        """Return the difference to the best window that ended before the newest iterations; None if there is none."""
        first, last = -BEFORE - newest, -newest
        if len(self._success) < BEFORE + newest:
            return None
        before = SuccessWindow.of(self._success[first:last], self._errors[first:last])
        if newest not in self._best or before.mean > self._best[newest].mean:
            self._best[newest] = before
        return Fall(self._best[newest], SuccessWindow.of(self._success[last:], self._errors[last:]))

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        return {
            "success": self._success,
            "errors": self._errors,
            "best": {str(newest): [best.mean, best.variance] for newest, best in self._best.items()},
            "sums": [self._squares, self._variances, self._count, self._errors_known],
        }

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken; begin anew with the state of an earlier version."""
        if "sums" not in state:
            return
        self._success, self._errors = list(state["success"]), list(state["errors"])
        best = state["best"].items()
        self._best = {int(newest): SuccessWindow(mean, variance, BEFORE) for newest, (mean, variance) in best}
        self._squares, self._variances, self._count, *counts = state["sums"]
        self._errors_known = counts[0] if counts else self._count  # an earlier version wrote an unknown error as 0
