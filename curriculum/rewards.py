"""Reward rules: which reward credit sees.

    def rule(steps, *, iteration, total, **options) -> Steps

The table that comes out has the rows of the table that went in; `reward` and columns such as `multi`, `metric` and
`valid` may differ. A rule changes the reward of the last turn of an episode unless it says otherwise. The rewards of
the environment stay in the column `outcome` (their sum over the episode, in each row). Rules are applied from left to
right, before the divergence from the reference policy is subtracted and before credit. A rule may take `state`, and
then returns (steps, state). Packages offer rules in the group `turncredit.reward_rules`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from turncredit.credit.steps import Steps
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.rule_registry import SamplingRule, rule_registry
from turncredit.registry import Registry

__all__ = ["REWARD_RULES", "RewardRule"]


@dataclass(frozen=True)
class RewardRule(SamplingRule):
    """A reward rule: `function(steps, *, iteration, total, options) -> Steps`.

    Args:
        needs: columns that it needs beside those that every table has.
        divides: whether, with any options, an episode's new outcome is above 0.5 where it counts as right and at most
            0.5 where it counts as wrong, if the environment's outcomes are 1 and 0.
    """

    GIVEN = frozenset({"iteration", "total"})
    needs: tuple[str, ...] = field(default=())
    divides: bool = False

    def __call__(
        self, steps: Steps, *, iteration: int = 0, total: int = 1, state: object = None
    ) -> tuple[Steps, object]:
        """Return the table with the rewards that credit is to see, and what the rule remembers.

        Args:
            steps: table of the turns.
            iteration: number of finished iterations.
            total: iterations of the whole run.
            state: what the rule returned last, for one that remembers.

        Raises:
            CurriculumError: the function returned another number of rows, or rows of other turns.
        """
        arguments = {"iteration": iteration, "total": total, "state": state}
        result = self.function(steps, **{name: value for name, value in arguments.items() if name in self.parameters})
        changed, state = result if self.remembers else (result, None)
        if not isinstance(changed, Steps):
            raise CurriculumError(f"the reward rule {self.name!r} must return Steps, got {type(changed).__name__}")
        same = len(changed) == len(steps) and all(
            np.array_equal(changed.column(name), steps.column(name)) for name in ("task", "trajectory", "turn")
        )
        if not same:
            raise CurriculumError(f"the reward rule {self.name!r} must return the rows that it got, in their order")
        return changed, state

    def check(self) -> None:
        """Apply the rule to an empty table."""
        self(Steps.empty())


REWARD_RULES: Registry[RewardRule] = rule_registry("reward rule", "turncredit.reward_rules", RewardRule)
