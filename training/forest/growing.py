"""Groups that are forests: some episodes begin with a reset, the others as forks of finished ones.

A group of B episodes has n roots; then, round by round, at most n episodes are forked where a rule says, until there
are B. The budget is the same as without forks: B episodes, of which the forks sample fewer turns than whole ones. Where
a rule finds no place, an episode begins with a reset as well.

Which forks are chosen depends on the episodes, and not on their order: equal places are ordered by a hash of their
names, as sampling seeds are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from turnwise.agents.agent import Agent
from turnwise.agents.rollouts.env_pool import EnvPool
from turnwise.agents.rollouts.forks import Fork
from turnwise.agents.rollouts.rollout_stream import GroupNumbers, GroupSpec
from turnwise.agents.samplers.base import Sampler
from turnwise.agents.trajectory import Group, Trajectory, grouped
from turnwise.training.config.sections import TrainSection, chosen
from turnwise.training.forest.expert_replay import ExpertReplay
from turnwise.training.forest.places import CouldWin, ForkRule, choose_forks, get_fork_rule

__all__ = ["Forest", "asking_expert", "fork_metrics"]

Play = Callable[[list[GroupSpec]], Sequence[Group]]
"""Plays groups, and returns them in their order."""


@dataclass(frozen=True, slots=True)
class Forest:
    """How the groups of a run are grown.

    Attributes:
        rule: where episodes are forked.
        size: episodes of a group.
        roots: those of them that begin with a reset, and the most that are forked in one round.
    """

    rule: ForkRule
    size: int
    roots: int

    @classmethod
    def of(cls, section: TrainSection) -> Forest | None:
        """Return the forest of a `[train]` section; None if episodes are not forked.

        Raises:
            ConfigError: there is no such rule.
            BadOption: it has no such option.
        """
        if not section.forks.where:
            return None
        name, options = chosen(section.forks.where, "train.forks.where")
        size = section.group_size
        return cls(get_fork_rule(name, **options), size, section.forks.roots or -(-size // 2))

    def grow(self, tasks: Sequence[str], seed: int, play: Play, could_win: CouldWin | None = None) -> list[Group]:
        """Return one group for every task.

        Args:
            tasks: ids of task instances.
            seed: of the environments and, through the ids of the episodes, of the sampling.
            play: plays groups of episodes that begin with a reset, or of forks.
            could_win: asks the environment's expert, for rules that want to.
        """
        numbers = GroupNumbers(self.size, seed)
        growths = [_Growth(self, numbers.next(task), could_win) for task in tasks]
        while asked := [(growth, spec) for growth in growths for spec in growth.next()]:
            for (growth, _), group in zip(asked, play([spec for _, spec in asked]), strict=True):
                growth.members += group.trajectories
        return [growth.group() for growth in growths]


def asking_expert(agent: Agent, sampler: Sampler, pool: EnvPool) -> CouldWin:
    """Return what asks the environment's expert about episodes, which are played over again.

    Args:
        agent, sampler: that played the episodes.
        pool: environments like theirs.
    """
    return ExpertReplay(agent, sampler, pool)


@dataclass(slots=True)
class _Growth:
    """A group that grows."""

    forest: Forest
    spec: GroupSpec
    """The group as it would be without forks."""
    could_win: CouldWin | None
    asked: int = 0
    """Episodes that have been asked for."""
    roots: int = 0
    """Those of them that begin with a reset."""
    members: list[Trajectory] = field(default_factory=list)
    places: set[tuple[str, int]] = field(default_factory=set)
    """Where episodes were forked."""

    def next(self) -> list[GroupSpec]:
        """Return what the next round plays; nothing if the group is complete."""
        count = min(self.forest.roots, self.spec.size - self.asked)
        if count <= 0:
            return []
        episodes = [trajectory for trajectory in self.members if trajectory.finished]
        rule = partial(self.forest.rule, could_win=self.could_win)
        forks = choose_forks(episodes, rule, count, self.places) if self.asked else []
        self.asked += count
        self.places |= {(fork.trajectory.id, fork.turn) for fork in forks}
        return [*self._resets(count - len(forks)), *(self._forked(fork) for fork in forks)]

    def _resets(self, count: int) -> list[GroupSpec]:
        if not count:
            return []
        first = self.spec.first + self.roots
        self.roots += count
        return [replace(self.spec, size=count, first=first)]

    def _forked(self, fork: Fork) -> GroupSpec:
        return GroupSpec(self.spec.task, self.spec.seed, 1, fork=fork)

    def group(self) -> Group:
        """Return the group of its members, a fork after its parent."""
        groups = grouped(self.members)
        return groups[0] if groups else Group(self.spec.task, ())


def fork_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return how many episodes were forks, how often these won, and how many turns were sampled.

    Returns:
        forks (episodes that are forks), fork_success (share of them that won, of those without an error), sampled_turns
        (of all episodes; a turn that a fork took over counts once, in the episode that sampled it).
    """
    everyone = [trajectory for group in groups for trajectory in group.trajectories]
    forks = [trajectory for trajectory in everyone if trajectory.fork_of is not None]
    done = [trajectory for trajectory in forks if trajectory.finished]
    return {
        "forks": len(forks),
        "fork_success": sum(trajectory.won for trajectory in done) / max(1, len(done)),
        "sampled_turns": sum(len(trajectory.sampled) for trajectory in everyone),
    }
