"""The reward rules of a run, applied to the table of an iteration, with what they remember."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from turncredit.credit.numerics import compact
from turncredit.credit.steps import Steps
from turncredit.curriculum.rewards import RewardRule
from turncredit.training.run_folder.state_json import from_json, to_json

__all__ = ["OUTCOME", "AppliedRewards"]

OUTCOME = "outcome"
"""Column with the sum of the environment's rewards over the episode of each row."""


@dataclass(slots=True)
class AppliedRewards:
    """Applies reward rules.

    Attributes:
        rules: from left to right.
        total: iterations of the whole run.
        memories: what each rule returned last.
    """

    rules: Sequence[RewardRule]
    total: int
    memories: list[object] = field(init=False)
    _newest: list[object] = field(init=False)

    def __post_init__(self) -> None:
        """Begin without memories."""
        self.memories = self._newest = [None] * len(self.rules)

    def __call__(self, steps: Steps, iteration: int) -> Steps:
        """Return the table with the rewards that credit is to see.

        Args:
            steps: table of the turns.
            iteration: number of finished iterations.
        """
        if not self.rules:
            return steps
        steps, self._newest = with_outcome(steps), []
        for rule, memory in zip(self.rules, self.memories, strict=True):
            steps, state = rule(steps, iteration=iteration, total=self.total, state=memory)
            self._newest.append(state)
        return steps

    def remember(self) -> None:
        """Keep what the rules returned last."""
        self.memories = self._newest

    def state(self) -> object:
        """Return the memories as JSON can hold them."""
        return to_json(self.memories)

    def load_state(self, state: object) -> None:
        """Continue with the memories that `state` returned."""
        self.memories = from_json(state) or [None] * len(self.rules)


def with_outcome(steps: Steps) -> Steps:
    """Return the table with the column `outcome`."""
    episode = compact(steps.trajectory)
    sums = np.bincount(episode, weights=steps.reward, minlength=1)
    return replace(steps, extra={**steps.extra, OUTCOME: sums[episode]})
