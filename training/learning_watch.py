"""Warnings about a run that does not learn: zero-variance groups, success that falls, samples of another policy.

Iterations play different tasks, and few of them, so one iteration says little: of 64 episodes in 8 groups, the success
of one policy varies by 10 points and more. A fall is therefore a difference of two means over `WINDOW` iterations each
that chance does not explain. The spread of a mean is taken from the iterations themselves, so that it holds whatever
their episodes have in common; the limit allows for the many pairs of windows that a run compares.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from turnwise.training.run_folder.events import Reporter
from turnwise.training.states import State

WINDOW = 10
"""Iterations whose mean is compared with the best mean of as many before them."""
FALL = 0.7
"""Share of the best mean success at which a fall is worth a warning, if it is certain."""
CERTAIN = 5.0
"""Standard errors of the difference beyond which it is no chance."""
SHARED_GAP = {"float32": 0.01, "bfloat16": 0.1}
"""Mean gap in nats above which a sampler that shares the learner's module is warned about, by the type it has."""


class LearningWatch:
    """Reports warnings about the metrics of iterations; each is repeated only after its cause was gone in between."""

    def __init__(self, report: Reporter) -> None:
        self._report = report
        self._success: list[float] = []
        self._best: list[float] = []
        self._changes = SuccessChanges()
        self._active: set[str] = set()

    def after(self, step: int, values: Mapping[str, float]) -> None:
        """Warn about a finished iteration where there is something to warn about.

        Args:
            step: number of the iteration.
            values: its metrics: no_variance_groups, signal, success, reward.
        """
        flat = values["no_variance_groups"] >= 1.0 and not values["signal"]
        self._warn(
            "flat",
            flat,
            step,
            f"all episodes of every group had the same reward ({values['reward']:.3g} on average), so there was "
            f"nothing to learn from; try {'harder' if values['success'] > 0.5 else 'easier'} tasks or larger groups "
            "(train.group_size)",
        )
        if self._success:
            self._changes = self._changes.with_one(values["success"] - self._success[-1])
        self._success = [*self._success, values["success"]][-2 * WINDOW :]
        recent, before = self._success[-WINDOW:], self._success[:-WINDOW][:WINDOW]
        if len(before) == WINDOW and (not self._best or statistics.fmean(before) > statistics.fmean(self._best)):
            self._best = before
        self._warn(
            "fall",
            bool(self._best) and has_fallen(self._best, recent, self._changes.variance),
            step,
            f"success fell from {statistics.fmean(self._best or [0]):.1%} to {statistics.fmean(recent):.1%} (means of "
            f"{WINDOW} iterations); a smaller learning rate (train.lr) or fewer steps (train.optimizer_steps) may help",
        )

    def after_shared(self, step: int, values: Mapping[str, float], dtype: str) -> None:
        """Warn if sampler and learner differ though they compute with one module, where only rounding may differ.

        Args:
            step: number of the iteration.
            values: its metrics: gap where there is one, clip_fraction.
            dtype: in which they compute.
        """
        gap = values.get("gap", 0.0)
        self._warn(
            "gap",
            gap > SHARED_GAP[dtype],
            step,
            f"the log-probabilities of sampler and learner differ by {gap:.3g} nats on average before the first "
            f"optimizer step ({values.get('clip_fraction', 0.0):.0%} of the tokens were clipped), though both compute "
            f"with the same module and rounding explains {SHARED_GAP[dtype]:g}: one of them computes other tokens, "
            "positions or distributions; `turnwise audit` names the turns",
        )

    def state(self) -> State:
        """Return what a checkpoint keeps."""
        changes = [self._changes.squares, self._changes.count]
        return {
            "success": self._success,
            "best_window": self._best,
            "changes": changes,
            "active": sorted(self._active),
        }

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken."""
        self._success, self._best = list(state.get("success", ())), list(state.get("best_window", ()))
        self._changes = SuccessChanges(*state.get("changes", ()))
        self._active = set(state.get("active", ()))

    def _warn(self, name: str, present: bool, step: int, text: str) -> None:
        if present and name not in self._active:
            self._report.event("warning", step, text=text)
        (self._active.add if present else self._active.discard)(name)


@dataclass(frozen=True, slots=True)
class SuccessChanges:
    """The changes of success from one iteration to the next: sum of their squares, and number."""

    squares: float = 0.0
    count: int = 0

    def with_one(self, change: float) -> "SuccessChanges":
        """Return these changes and one more."""
        return SuccessChanges(self.squares + change**2, self.count + 1)

    @property
    def variance(self) -> float:
        """The variance of an iteration's success, as far as it does not come from a trend (von Neumann, 1941)."""
        return self.squares / (2 * self.count) if self.count else 0.0


def has_fallen(best: Sequence[float], recent: Sequence[float], variance: float = 0.0) -> bool:
    """Return whether success is lower than at its best, by much and beyond chance (Welch's statistic).

    Args:
        best: success of the iterations of the best window, each in [0, 1].
        recent: success of the newest iterations.
        variance: of the success of an iteration over the whole run; that of the windows counts where it is larger.
    """
    high, low = statistics.fmean(best), statistics.fmean(recent)
    if low >= high or low > FALL * high:
        return False
    own = statistics.variance(best) / len(best) + statistics.variance(recent) / len(recent)
    error = math.sqrt(max(own, variance * (1 / len(best) + 1 / len(recent))))
    return high - low > CERTAIN * error
