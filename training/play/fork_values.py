"""Values of turns by forks that are not trained on: what the rule `vine` and others read as the column `value`.

The turns of an iteration's episodes are forked by the policy that played them: all, or those that the option `at` of
the credit rule names. Equal histories are forked once. The estimates are those of `turncredit credit RUN --truth`, and
the episode's own outcome is in none of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.trajectory import Group
from turncredit.credit.columns import Bools, Floats, Ints
from turncredit.credit.registry import CreditRule
from turncredit.credit.turn.vine import At
from turncredit.curriculum.fork_places import get_fork_rule
from turncredit.engines.base import Sampler
from turncredit.training.config.sections import TrainSection
from turncredit.training.truth.fork_records import ForkFile, ForkRecord
from turncredit.training.truth.forking import ForkPlayer
from turncredit.training.truth.measuring import TruthOptions, TruthTable, has_chance, measure

__all__ = ["COLUMNS", "ForkValues", "ValuedTurns", "chosen_turns"]

COLUMNS = ("value", "action_value", "forks")
"""The columns that forks give to every turn."""

ROUNDING = 1e-9
"""A share of turns is rounded up from here on: 0.7 of ten turns, 7.000000000000001, are seven."""


@dataclass(frozen=True, slots=True)
class ValuedTurns:
    """What forks say about the turns of some groups.

    Attributes:
        columns: by name, in the order of `turncredit.agents.steps.steps_of`: `value` (V before the turn) and
            `action_value` (V plus the true advantage), both 0 where they are not known, and `forks` (int, of the turn,
            0 where one of the two is not known). Where only some turns are forked, there is no `action_value`.
        metrics: how many forks, turns and tokens they took.
    """

    columns: Mapping[str, Floats | Ints] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class ForkValues:
    """Plays forks of the turns of an iteration.

    Attributes:
        forks: of every turn that is forked.
        gamma: discount of their returns, that of the credit rule.
        invalid_penalty: penalty of an invalid action in their returns, that of the credit rule.
        concurrency: episodes at once.
        processes: processes that play.
        chance: whether the environment draws random numbers in its steps; None: not known yet.
        at: which turns are forked, and
        share: how many of them, as in `turncredit.credit.vine`. No forks repeat an action unless every turn is forked.
    """

    forks: int
    gamma: float
    invalid_penalty: float
    concurrency: int
    processes: int = 1
    chance: bool | None = None
    at: At = "every"
    share: float = 1.0

    @classmethod
    def of(cls, section: TrainSection, rule: CreditRule, processes: int) -> ForkValues | None:
        """Return what plays the forks of a run; None if its turns are not valued.

        Args:
            section: the `[train]` section.
            rule: whose options `gamma` and `invalid_penalty` the returns of the forks have, and whose `at` and `share`
                say which turns are forked.
            processes: that play.
        """
        if not section.forks.values:
            return None
        gamma, penalty = (float(rule.options.get(*option)) for option in (("gamma", 1.0), ("invalid_penalty", 0.0)))
        at, share = rule.options.get("at", "every"), rule.options.get("share", 1.0)
        return cls(section.forks.values, gamma, penalty, section.concurrency, processes, at=at, share=share)

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
        every = self.at == "every"
        table = TruthTable.of(groups, ForkFile.in_memory(), chance=self.chance and every)
        if not every:
            table.chosen = np.zeros(len(table.histories), dtype=np.bool_)
            table.chosen[np.asarray(table.histories.value_of)[chosen_turns(groups, self.at, self.share)]] = True
        played: list[ForkRecord] = []
        measure(table, player, TruthOptions(forks=self.forks), played.append)
        truth = table.estimate(self.gamma, self.invalid_penalty)
        estimated = np.isfinite(truth.advantage if every else truth.value)
        columns: dict[str, Floats | Ints] = {
            "value": np.where(estimated, truth.value, 0.0),
            "forks": np.where(estimated, truth.forks, 0),
        }
        if every:
            columns["action_value"] = np.where(estimated, truth.value + truth.advantage, 0.0)
        return ValuedTurns(
            columns,
            {
                "value_forks": len(played),
                "value_turns": sum(record.turns for record in played),
                "value_tokens": sum(record.tokens for record in played),
            },
        )


def chosen_turns(groups: Sequence[Group], at: At, share: float) -> Bools:
    """Return whether each turn is to be forked, bool [N], in the order of `turncredit.agents.steps.steps_of`.

    Args:
        groups: of episodes.
        at: as in `turncredit.credit.vine`; "entropy" and "contested" are the rules of where to fork of these names.
        share: of the turns of each episode, rounded up.
    """
    chosen: list[bool] = []
    for group in groups:
        episodes = group.finished
        worth = get_fork_rule(at)(episodes) if at in ("entropy", "contested") else [None for _ in episodes]
        for episode, values in zip(episodes, worth, strict=True):
            length = len(episode.turns)
            count = length if at == "every" else max(1, math.ceil(share * length - ROUNDING))
            spaced = [part * length // count for part in range(count)]
            places = spaced if values is None else [0, *_best(values)[: count - 1]]
            chosen += [turn in places for turn in range(length)]
    return np.asarray(chosen, dtype=np.bool_)


def _best(worth: Sequence[float]) -> list[int]:
    """Return the turns after the first one at which a fork is worth something, those that are worth most first."""
    turns = [turn for turn, value in enumerate(worth) if turn and math.isfinite(value)]
    return sorted(turns, key=lambda turn: (-worth[turn], turn))
