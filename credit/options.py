"""What rules that compare within groups share: options, the penalty for invalid actions, sums of terms, copies."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import Compat, Groups, PenaltyIn, Scale, Singleton, Unit, penalties, standardise
from turncredit.credit.option_checks import check_choice, check_flag, check_number
from turncredit.credit.steps import Floats, Steps, need

INVALID_PENALTY = 0.1
"""Default penalty of an invalid action, in units of reward, the same in every rule so that rules are comparable."""
PRESET = {"unit": "turn", "singleton": "raw", "penalty_in": "return"}
"""The values that `compat` sets in every rule."""


@dataclass(frozen=True)
class GroupOptions:
    """The options that rules share.

    Args:
        scale: "std" divides by the standard deviation of the group, "none" only subtracts the mean, "mad" subtracts the
            median and divides by the median absolute deviation.
        unit: "trajectory" counts each trajectory once in a group's statistics, evenly split over its rows; "turn"
            counts every row.
        singleton: the value of a group of one: "zero", or its "raw" score.
        ddof: 1 divides squares by n - 1, 0 by n.
        eps: added to the standard or absolute deviation.
        invalid_penalty: subtracted for a turn whose `valid` is False, in units of reward.
        penalty_in: "reward" subtracts the penalty from the turn's reward, so that earlier turns see it discounted;
            "return" from the row's own score and return; "advantage" from the row's own advantage, unscaled.
        normalize_by_length: divide an episode's score by its number of turns.

    Raises:
        BadOption: an option has an impossible value.
    """

    scale: Scale = "std"
    unit: Unit = "trajectory"
    singleton: Singleton = "zero"
    ddof: int = 1
    eps: float = 1e-6
    invalid_penalty: float = 0.0
    penalty_in: PenaltyIn = "reward"
    normalize_by_length: bool = False

    def __post_init__(self) -> None:
        """Check the values."""
        check_choice("scale", self.scale, Scale)
        check_choice("unit", self.unit, Unit)
        check_choice("singleton", self.singleton, Singleton)
        check_choice("penalty_in", self.penalty_in, PenaltyIn)
        check_number("ddof", self.ddof, 0, 1, whole=True)
        check_number("eps", self.eps, 0.0)
        check_number("invalid_penalty", self.invalid_penalty, 0.0)
        check_flag("normalize_by_length", self.normalize_by_length)

    def with_preset(self, compat: Compat | None) -> "GroupOptions":
        """Return the options under a compatibility preset; unchanged for None.

        Raises:
            BadOption: an option is neither at its default nor at the preset's value.
        """
        if compat is None:
            return self
        check_choice("compat", compat, Compat)
        for name, fixed in PRESET.items():
            check_beside(compat, name, getattr(self, name), getattr(GroupOptions, name), fixed)
        return replace(self, unit="turn", singleton="raw", penalty_in="return")

    def normalise(self, groups: Groups) -> Floats:
        """Return each value normalised within its group, float64 [N]; see `standardise`."""
        return standardise(groups, scale=self.scale, ddof=self.ddof, eps=self.eps, singleton=self.singleton)

    def penalised_reward(self, steps: Steps) -> Floats:
        """Return the rewards, float64 [N], minus the penalty under penalty_in="reward"."""
        if self.penalty_in != "reward":
            return steps.reward
        return steps.reward - penalties(steps, self.invalid_penalty)

    def return_penalty(self, steps: Steps) -> Floats | float:
        """Return the penalty of a row's own score and return, float64 [N]; zero unless penalty_in="return"."""
        return penalties(steps, self.invalid_penalty) if self.penalty_in == "return" else 0.0


def check_beside(compat: Compat | None, name: str, value: object, default: object, fixed: object) -> None:
    """Raise BadOption if an option conflicts with a compatibility preset.

    Args:
        compat: the preset, or None.
        name: the option.
        value: its value.
        default: its default.
        fixed: the preset's value.
    """
    if compat is not None and value not in (default, fixed):
        raise BadOption(f"{name}={value!r} conflicts with compat={compat!r}, which sets {name}={fixed!r}")


def combined(
    steps: Steps,
    options: GroupOptions,
    parts: Mapping[str, Floats],
    report: Mapping[str, float],
    *,
    w: float = 1.0,
    values: Floats | None = None,
) -> Advantages:
    """Return the sum of an episode term, w times a step term, and the penalty under penalty_in="advantage".

    Args:
        steps: the table.
        options: the options.
        parts: "episode" and optionally "step", float64 [N] each.
        report: scalars.
        w: factor of the step term.
        values: float64 [N], the total if it is not this sum.
    """
    if values is None:
        values = parts["episode"] + w * parts["step"] if "step" in parts else parts["episode"].copy()
    if options.penalty_in == "advantage":
        parts = {**parts, "penalty": -penalties(steps, options.invalid_penalty)}
        values = values + parts["penalty"]
    return Advantages.of(steps, values, parts, report)


def without_copies(
    steps: Steps, estimate: Callable[[Steps], Advantages], *, state: object = None, with_copies: bool = False
) -> Advantages:
    """Return the estimate of the rows that are not copies, and give each copy the advantage of its original.

    Rows whose column `keep` is False count in the estimate, and are not trained on.

    Args:
        steps: the table, with or without copies. Without rows, `estimate` is not called.
        estimate: the credit rule with its options bound.
        state: the memory that the rule was given; a table without rows leaves it as it is.
        with_copies: pass copies to `estimate` as their own rows, as some compatibility presets do.
    """
    need(steps, "a credit rule")
    if not len(steps):
        return Advantages.of(steps, np.zeros(0), state=state)
    if with_copies or not steps.has_copies:
        return _kept(steps, estimate)
    originals = np.flatnonzero(steps.source == np.arange(len(steps)))
    place = np.zeros(len(steps), dtype=np.int64)
    place[originals] = np.arange(len(originals))
    return _kept(steps.take(originals), estimate).take(place[steps.source])


def _kept(steps: Steps, estimate: Callable[[Steps], Advantages]) -> Advantages:
    """Return the estimate of a table, without the rows that it says not to train on."""
    result = estimate(steps)
    return replace(result, keep=result.keep & steps.column("keep")) if "keep" in steps else result
