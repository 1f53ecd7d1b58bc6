"""What methods that compare within groups have in common: options, the penalty, the sum of their terms, copies.

Left out on purpose: the terms themselves. Each method has its own file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import (
    Compat,
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    check_choice,
    check_flag,
    check_number,
    penalties,
    standardise,
)
from turnwise.credit.errors import BadOption
from turnwise.credit.steps import Floats, Steps, need

INVALID_PENALTY = 0.1
"""What an invalid action costs in every estimator that asks, in units of reward: one default, so that rules compare."""
PRESET = {"unit": "turn", "singleton": "raw", "penalty_in": "return"}
"""What `compat` sets in every rule."""


@dataclass(frozen=True)
class GroupOptions:
    """How values of a group become advantages; the options that every group method shares (see `grpo`)."""

    scale: Scale = "std"
    unit: Unit = "trajectory"
    singleton: Singleton = "zero"
    ddof: int = 1
    eps: float = 1e-6
    invalid_penalty: float = 0.0
    penalty_in: PenaltyIn = "reward"
    normalize_by_length: bool = False

    def __post_init__(self) -> None:
        """Refuse an unknown choice or an impossible number, naming the option."""
        check_choice("scale", self.scale, Scale)
        check_choice("unit", self.unit, Unit)
        check_choice("singleton", self.singleton, Singleton)
        check_choice("penalty_in", self.penalty_in, PenaltyIn)
        check_number("ddof", self.ddof, 0, 1, whole=True)
        check_number("eps", self.eps, 0.0)
        check_number("invalid_penalty", self.invalid_penalty, 0.0)
        check_flag("normalize_by_length", self.normalize_by_length)

    def with_preset(self, compat: Compat | None) -> "GroupOptions":
        """Return the rule as a compatibility preset has it; unchanged without one.

        Raises:
            BadOption: an option asks for what is neither its default nor the preset's.
        """
        if compat is None:
            return self
        check_choice("compat", compat, Compat)
        for name, fixed in PRESET.items():
            check_beside(compat, name, getattr(self, name), getattr(GroupOptions, name), fixed)
        return replace(self, unit="turn", singleton="raw", penalty_in="return")

    def normalise(self, groups: Groups) -> Floats:
        """Return each value relative to its group (`standardise`) under scale, ddof, eps and singleton, float64 [N]."""
        return standardise(groups, scale=self.scale, ddof=self.ddof, eps=self.eps, singleton=self.singleton)

    def penalised_reward(self, steps: Steps) -> Floats:
        """Return the rewards that returns are taken of, float64 [N]: less the penalty where it enters the reward."""
        if self.penalty_in != "reward":
            return steps.reward
        return steps.reward - penalties(steps, self.invalid_penalty)

    def return_penalty(self, steps: Steps) -> Floats | float:
        """Return what a row's own score and return lose after discounting, float64 [N]: zero but for "return"."""
        return penalties(steps, self.invalid_penalty) if self.penalty_in == "return" else 0.0


def check_beside(compat: Compat | None, name: str, value: object, default: object, fixed: object) -> None:
    """Raise BadOption where an option asks for something, and a compatibility preset for something else.

    Args:
        compat: the preset; None has no say.
        name: the option.
        value: what came.
        default: what stands for not asking.
        fixed: what the preset sets.
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
    """Return the sum of an episode term, w times a step term, and the penalty where it enters the advantage itself.

    Args:
        steps: the table.
        rule: the options.
        parts: "episode" and, if there is one, "step", float64 [N] each.
        report: scalars.
        w: factor of the step term.
        values: float64 [N], what the parts come to where it is no such sum.
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

    Args:
        steps: the table, with or without copies. Without rows, `estimate` is not called.
        estimate: the credit rule with its options bound.
        state: the memory that the rule was given; a table without rows leaves it as it is.
        with_copies: pass copies to `estimate` as rows of their own, as some compatibility presets do.
    """
    need(steps, "a credit rule")
    if not len(steps):
        return Advantages.of(steps, np.zeros(0), state=state)
    if with_copies:
        return estimate(steps)
    if not steps.has_copies:
        return estimate(steps)
    originals = np.flatnonzero(steps.source == np.arange(len(steps)))
    place = np.zeros(len(steps), dtype=np.int64)
    place[originals] = np.arange(len(originals))
    return estimate(steps.take(originals)).take(place[steps.source])
