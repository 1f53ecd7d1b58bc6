"""Values of turns by forks that are not trained on: what the rule `vine` and others read as the column `value`.

Every turn of an iteration's episodes is forked by the policy that played them. Equal histories are forked once. The
estimates are those of `turnwise credit RUN --truth`, and the episode's own outcome is in none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from turnwise.agents.agent import Agent
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.trajectory import Group
from turnwise.credit.columns import Floats, Ints
from turnwise.credit.registry import CreditRule
from turnwise.training.config.sections import TrainSection
from turnwise.training.truth.fork_records import ForkFile, ForkRecord
from turnwise.training.truth.forking import ForkPlayer
from turnwise.training.truth.measuring import TruthOptions, TruthTable, has_chance, measure

__all__ = ["COLUMNS", "ForkValues", "ValuedTurns"]

COLUMNS = ("value", "action_value", "forks")
"""The columns that forks give to every turn."""


@dataclass(frozen=True, slots=True)
class ValuedTurns:
    """What forks say about the turns of some groups.

    Attributes:
        columns: by name, in the order of `turnwise.agents.steps.steps_of`: `value` (V before the turn) and
            `action_value` (V plus the true advantage), both 0 where they are not known, and `forks` (int, of the turn,
            0 where one of the two is not known).
        metrics: how many forks, turns and tokens they took.
    """

    columns: Mapping[str, Floats | Ints] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class ForkValues:
    """Plays forks of all turns of an iteration.

    Attributes:
        forks: of every turn.
        gamma: discount of their returns, that of the credit rule.
        invalid_penalty: penalty of an invalid action in their returns, that of the credit rule.
        concurrency: episodes at once.
        processes: processes that play.
        chance: whether the environment draws random numbers in its steps; None: not known yet.
    """

    forks: int
    gamma: float
    invalid_penalty: float
    concurrency: int
    processes: int = 1
    chance: bool | None = None

    @classmethod
    def of(cls, section: TrainSection, rule: CreditRule, processes: int) -> ForkValues | None:
        """Return what plays the forks of a run; None if its turns are not valued.

        Args:
            section: the `[train]` section.
            rule: whose options `gamma` and `invalid_penalty` the returns of the forks have.
            processes: that play.
        """
        if not section.forks.values:
            return None
        gamma, penalty = (float(rule.options.get(*option)) for option in (("gamma", 1.0), ("invalid_penalty", 0.0)))
        return cls(section.forks.values, gamma, penalty, section.concurrency, processes)

    def of_turns(self, groups: Sequence[Group], agent: Agent, sampler: Sampler, pool: EnvPool) -> ValuedTurns:
        """Return the values of the turns of some groups.

        Args:
            groups: as they were played.
            agent: that played them.
            sampler: that played them, with the same weights.
            pool: environments like theirs.

        Raises:
            TrainingError: no fork could be played.
        """
        player = ForkPlayer(agent, sampler, pool, concurrency=self.concurrency, processes=self.processes)
        if self.chance is None:
            self.chance = has_chance(groups, player)
        player.fresh = self.chance
        table = TruthTable.of(groups, ForkFile.in_memory(), chance=self.chance)
        played: list[ForkRecord] = []
        measure(table, player, TruthOptions(forks=self.forks), played.append)
        truth = table.estimate(self.gamma, self.invalid_penalty)
        estimated = np.isfinite(truth.advantage)
        return ValuedTurns(
            {
                "value": np.where(estimated, truth.value, 0.0),
                "action_value": np.where(estimated, truth.value + truth.advantage, 0.0),
                "forks": np.where(estimated, truth.forks, 0),
            },
            {
                "value_forks": len(played),
                "value_turns": sum(record.turns for record in played),
                "value_tokens": sum(record.tokens for record in played),
            },
        )
