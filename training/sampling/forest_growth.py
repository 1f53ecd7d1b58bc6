"""Groups that are forests: some episodes begin with a reset, the others as forks of finished ones.

A group of B episodes has n roots; then, round by round, at most n episodes are forked where a rule says, until there
are B. The budget is the same as without forks: B episodes, of which the forks sample fewer turns than whole ones. Where
a rule finds no place, an episode begins with a reset as well.

Which forks are chosen depends on the episodes, and not on their order: equal places are ordered by a hash of their
names, as sampling seeds are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.env_pool import EnvPool
from turncredit.agents.samplers.base import Sampler
from turncredit.training.config.sections import TrainSection, chosen
from turncredit.training.forest.expert_replay import ExpertReplay
from turncredit.training.forest.places import CouldWin, ForkRule, choose_forks, get_fork_rule
from turncredit.training.sampling.growth import BranchPoint, GroupRule, Growth, MoreEpisodes, OpenGroup

__all__ = ["Forest", "asking_expert"]


@dataclass(frozen=True, slots=True)
class Forest:
    """How the groups of a run are grown.

    Attributes:
        rule: where episodes are forked.
        size: episodes of a group.
        roots: those of them that begin with a reset, and the most that are forked in one round.
        could_win: asks the environment's expert, for rules that want to.
    """

    rule: ForkRule
    size: int
    roots: int
    could_win: CouldWin | None = None

    @classmethod
    def of(cls, section: TrainSection, could_win: CouldWin | None = None) -> Forest | None:
        """Return the forest of a `[train]` section; None if episodes are not forked.

        Args:
            section: the section.
            could_win: asks the environment's expert.

        Raises:
            ConfigError: there is no such rule.
            BadOption: it has no such option.
        """
        if not section.forks.where:
            return None
        name, options = chosen(section.forks.where, "train.forks.where")
        size = section.group_size
        return cls(get_fork_rule(name, **options), size, section.forks.roots or -(-size // 2), could_win)

    def rule_of_groups(self) -> GroupRule:
        """Return the group rule that grows a forest."""
        return GroupRule(self.rule.name, self.rule.title, self.rule.arxiv, self.rule.evidence, self.rule.use, self.grow)

    def grow(self, group: OpenGroup) -> Growth:
        """Return what the next round of a group plays."""
        count = min(self.roots, group.size - self.roots * group.round)
        if count <= 0:
            return Growth()
        taken = {(member.fork_of, member.fork_turn or 0) for member in group.members if member.fork_of is not None}
        rule = partial(self.rule, could_win=self.could_win)
        forks = choose_forks(group.members, rule, count, taken) if group.round else []
        resets = count - len(forks)
        more = [MoreEpisodes(1, at=BranchPoint(fork.trajectory.id, fork.turn)) for fork in forks]
        return Growth(more=(*([MoreEpisodes(resets)] if resets else []), *more))


def asking_expert(agent: Agent, sampler: Callable[[], Sampler], pool: Callable[[], EnvPool]) -> CouldWin:
    """Return what asks the environment's expert about episodes, which are played over again.

    Args:
        agent: that played the episodes.
        sampler: returns the one that played them, when the expert is first asked.
        pool: makes environments like theirs then.
    """
    expert = cache(lambda: ExpertReplay(agent, sampler(), pool()))
    return lambda trajectory, turn: expert()(trajectory, turn)
