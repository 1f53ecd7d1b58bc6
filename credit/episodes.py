"""The table of turns seen as episodes: one score, task, length ... a trajectory, for methods that compare outcomes.

Left out on purpose: the comparing. Each method has its own file.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, compact, group_sums, trajectory_scores
from turnwise.credit.errors import BadTable
from turnwise.credit.steps import MEANING, Floats, Ints, Steps


@dataclass(frozen=True, eq=False)
class Episodes:
    """The J trajectories of a table without copies.

    Args:
        steps: the table.
        score: float64 [J], the sum of each trajectory's rewards, in units of reward.
        task: compact int64 [J], the group of each trajectory.
        member: compact int64 [N], the trajectory of each row.
        size_of_terms: float64 [J], the sum of the absolute rewards, against which rounding is judged.
    """

    steps: Steps
    score: Floats
    task: Ints
    member: Ints
    size_of_terms: Floats

    @classmethod
    def of(cls, steps: Steps, *, reward: Floats | None = None) -> "Episodes":
        """Return the episodes of a table.

        Args:
            steps: the table.
            reward: float64 [N] to be used in place of `steps.reward`.
        """
        paid = steps.reward if reward is None else reward
        score, task, member = trajectory_scores(steps, reward=paid)
        terms = trajectory_scores(steps, reward=np.abs(paid))[0]
        return cls(steps, score, compact(task), member, terms)

    def __len__(self) -> int:
        """Number of trajectories J."""
        return len(self.score)

    @cached_property
    def groups(self) -> Groups:
        """The scores in their tasks."""
        return Groups(self.score, self.task, size_of_terms=self.size_of_terms)

    @cached_property
    def turns(self) -> Ints:
        """int64 [J], number of turns."""
        return np.bincount(self.member, minlength=len(self)).astype(np.int64, copy=False)

    @cached_property
    def tokens(self) -> Floats:
        """float64 [J], number of trained tokens; the method must have asked for the column `tokens`."""
        assert self.steps.tokens is not None
        return group_sums(self.member, self.steps.tokens.astype(np.float64), len(self))

    @cached_property
    def logprob(self) -> Floats:
        """float64 [J], mean log-probability of the trajectory's tokens, nats; turns weigh by `tokens` where given."""
        assert self.steps.logprob is not None
        tokens = (
            np.ones(len(self.steps)) if self.steps.tokens is None else np.maximum(self.steps.tokens, 0).astype(float)
        )
        count = group_sums(self.member, tokens, len(self))
        total = group_sums(self.member, tokens * self.steps.logprob, len(self))
        return np.divide(total, count, out=np.zeros(len(self)), where=count > 0.0)

    def of_trajectory(self, method: str, name: str) -> Floats | Ints:
        """Return a column that says one thing of each trajectory, [J] or [J, M]: its rows must agree.

        Args:
            method: name of the estimator, for the message.
            name: the column, which the table must have.

        Raises:
            BadTable: two rows of a trajectory differ.
        """
        column = getattr(self.steps, name)
        first = np.zeros(len(self), dtype=np.int64)
        first[self.member[::-1]] = np.arange(len(self.steps))[::-1]
        value: Floats | Ints = column[first]
        if (column != value[self.member]).any():
            raise BadTable(
                f"{method} reads {name!r} ({MEANING[name]}) as one value a trajectory, but it differs within one"
            )
        return value

    def advantages(
        self,
        value: Floats,
        parts: dict[str, Floats] | None = None,
        report: dict[str, float] | None = None,
    ) -> Advantages:
        """Return advantages in which each row has the value of its trajectory.

        Args:
            value: float64 [J].
            parts: terms by name, float64 [J] each; the value alone, as "episode", when absent.
            report: scalars.
        """
        parts = {"episode": value} if parts is None else parts
        return Advantages.of(value[self.member], {name: part[self.member] for name, part in parts.items()}, report)
