"""The sampling of a run, put together: from the names of rules to what the rollouts ask for groups."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from turncredit.credit.registry import get as get_credit_rule
from turncredit.curriculum.fork_places import CouldWin
from turncredit.training.config.run import Run
from turncredit.training.config.seeds import Seeds
from turncredit.training.play.groups_in_play import GroupsInPlay
from turncredit.training.run_folder.trajectory_store import GroupFiles
from turncredit.training.sampling.applied_rewards import AppliedRewards
from turncredit.training.sampling.forest_growth import forest_of
from turncredit.training.sampling.grown_groups import GrowingGroups
from turncredit.training.sampling.run_memory import RunMemory
from turncredit.training.sampling.run_sampling import RunSampling
from turncredit.training.sampling.sampling_files import SamplingFiles
from turncredit.training.sampling.sampling_rules import SamplingRules
from turncredit.training.tasks.environments import Environments
from turncredit.training.tasks.group_draws import GroupDraws

__all__ = ["SamplingParts"]


@dataclass(frozen=True, slots=True)
class SamplingParts:
    """What decides what the iterations of a run are made of.

    Attributes:
        run: the configuration.
        rules: of the run.
        seeds: of everything random.
        tasks: ids of all tasks.
    """

    run: Run
    rules: SamplingRules
    seeds: Seeds
    tasks: Sequence[str]

    @classmethod
    def of(cls, run: Run, seeds: Seeds, environments: Environments) -> Self:
        """Return the parts of a run.

        Args:
            run: the configuration.
            seeds: of everything random.
            environments: list the tasks.

        Raises:
            ConfigError: there is no such rule, it cannot be imported, or an option without default is missing.
            BadOption: it has no such option, or the option has an impossible value.
        """
        weights = {part.name: part.weight for part in run.env.parts()}
        rules = SamplingRules.of(run.sampling, seed=seeds.of("tasks"), groups=run.train.groups, weights=weights)
        return cls(run, rules, seeds, environments.tasks)

    def groups(self, could_win: CouldWin | None = None) -> RunSampling:
        """Return what the rollouts ask for groups, with what the run remembers.

        Args:
            could_win: asks the environment's expert, for rules of where to fork.
        """
        run, rules, forest = self.run, self.rules, forest_of(self.run.train, could_win)
        memory = RunMemory.of(run, rules, self.seeds)
        trees = forest is not None or (bool(rules.groups) and not get_credit_rule(run.credit.method).callers)
        return RunSampling(
            draws=GroupDraws(
                rules.tasks,
                self.tasks,
                self.seeds,
                groups=run.train.groups,
                size=run.train.group_size,
                total=run.train.iterations,
                grows=bool(rules.groups),
            ),
            growing=GrowingGroups(
                rules.groups if forest is None else (forest.rule_of_groups(),),
                self.seeds,
                run.train.iterations,
                rules.max_rounds if forest is None else sys.maxsize,
                memory,
                tuple(run.sampling.teachers),
            ),
            memory=memory,
            files=SamplingFiles(run.folder),
            max_drops=rules.max_drops,
            forest=trees,
            skip_truncated=run.sampling.skip_truncated,
        )

    def groups_in_play(self, sampling: RunSampling) -> GroupsInPlay:
        """Return what keeps account of the groups of asynchronous rollouts."""
        return GroupsInPlay(self.run.train, sampling, GroupFiles(self.run.folder / "groups"))

    def rewards(self) -> AppliedRewards:
        """Return what changes the rewards that credit sees."""
        return AppliedRewards(self.rules.rewards, self.run.train.iterations)
