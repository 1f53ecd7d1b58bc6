"""The outcome of each episode as reward rules see it, and how a rule puts another one in its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import groups_of
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need

WIN = 0.5
"""Outcomes of at least this are wins."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The J episodes of a table, in the order of the codes of their ids.

    Args:
        rule: name of the reward rule, for messages.
        steps: the table.
        win: the environment's own outcome from which an episode counts as won.
    """

    rule: str
    steps: Steps
    win: float = WIN

    @cached_property
    def episodes(self) -> Episodes:
        """The episodes, with the rewards as they are now."""
        return Episodes.of(self.steps)

    @property
    def score(self) -> Floats:
        """float64 [J], sum of the rewards as they are now."""
        return self.episodes.score

    @property
    def task(self) -> Ints:
        """Compact int64 [J], the group of each episode."""
        return self.episodes.task

    @cached_property
    def outcome(self) -> Floats:
        """float64 [J], the environment's own outcome: the column `outcome`, or the score without it."""
        return self.of("outcome") if "outcome" in self.steps else self.score

    @cached_property
    def won(self) -> Bools:
        """bool [J], whether the environment's own outcome is a win."""
        return np.asarray(self.outcome >= self.win, dtype=np.bool_)

    @cached_property
    def groups(self) -> int:
        """Number of groups."""
        return groups_of(self.task)

    def of(self, column: str) -> Floats:
        """Return a column of numbers that has one value for each episode, float64 [J].

        Raises:
            MissingColumn: the table lacks it.
            BadTable: it differs within an episode.
        """
        need(self.steps, self.rule, column)
        return np.asarray(self.episodes.of_trajectory(self.rule, column), dtype=np.float64)

    def length(self, unit: str) -> Floats:
        """Return the length of each episode, float64 [J], in sampled "tokens" or in "turns"."""
        if unit == "turns":
            return self.episodes.turns.astype(np.float64)
        need(self.steps, self.rule, "tokens")
        return self.episodes.tokens

    def wins(self) -> Ints:
        """Return the number of won episodes in the group of each episode, int64 [J]."""
        return np.bincount(self.task, weights=self.won, minlength=self.groups).astype(np.int64)[self.task]

    def size(self) -> Ints:
        """Return the size of the group of each episode, int64 [J]."""
        return np.bincount(self.task, minlength=self.groups)[self.task]

    def extremes(self, value: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest value in the group of each episode, float64 [J] both."""
        low, high = np.full(self.groups, np.inf), np.full(self.groups, -np.inf)
        np.minimum.at(low, self.task, value)
        np.maximum.at(high, self.task, value)
        return low[self.task], high[self.task]

    def paid(self, outcome: Floats) -> Steps:
        """Return the table in which the rewards of each episode add up to another outcome; the last turn changes.

        Args:
            outcome: float64 [J].
        """
        change = outcome - self.score
        return self.with_last(change)

    def with_last(self, change: Floats) -> Steps:
        """Return the table with numbers added to the last turn of each episode.

        Args:
            change: float64 [J].
        """
        reward = self.steps.reward.copy()
        reward[self._last] += change
        if self.steps.has_copies:
            reward = reward[self.steps.source]
        return replace(self.steps, reward=reward)

    @cached_property
    def _last(self) -> Ints:
        """int64 [J], the row of each episode's last turn."""
        order = self.steps.time_order
        last = np.zeros(len(self.episodes), dtype=np.int64)
        last[self.episodes.member[order]] = order
        return last

    def at_last(self, column: str) -> Floats:
        """Return the value of a column at the last turn of each episode, [J]."""
        need(self.steps, self.rule, column)
        return np.asarray(self.steps.column(column)[self._last])
