"""Groups that are forests: some episodes begin with a reset, the others as forks of finished ones.

A group of B episodes has n roots; then, round by round, at most n episodes are forked where a rule says, until there
are B. The budget is the same as without forks: B episodes, of which the forks sample fewer turns than whole ones. Where
a rule finds no place, an episode begins with a reset as well.

Which forks are chosen depends on the episodes, and not on their order: equal places are ordered by a hash of their
names, as sampling seeds are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from turnwise.agents.rollouts.episode import sampling_seed
from turnwise.agents.rollouts.forks import Fork
from turnwise.agents.trajectory import Trajectory
from turnwise.training.config.sections import TrainSection, chosen
from turnwise.training.forest.places import ForkRule, get_fork_rule
from turnwise.training.sampling.growth import BranchPoint, GroupRule, Growth, MoreEpisodes, OpenGroup

__all__ = ["Forest", "choose_forks"]


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

    def rule_of_groups(self) -> GroupRule:
        """Return the group rule that grows a forest."""
        return GroupRule(self.rule.name, self.rule.title, self.rule.arxiv, self.rule.evidence, self.rule.use, self.grow)

    def grow(self, group: OpenGroup) -> Growth:
        """Return what the next round of a group plays."""
        count = min(self.roots, group.size - self.roots * group.round)
        if count <= 0:
            return Growth()
        taken = {(member.fork_of, member.fork_turn) for member in group.members if member.fork_of is not None}
        forks = choose_forks(group.members, self.rule, count, taken) if group.round else []
        resets = count - len(forks)
        more = [MoreEpisodes(1, at=BranchPoint(fork.trajectory.id, fork.turn)) for fork in forks]
        return Growth(more=(*([MoreEpisodes(resets)] if resets else []), *more))


def choose_forks(
    episodes: Iterable[Trajectory], rule: ForkRule, count: int, taken: Collection[tuple[str | None, int | None]] = ()
) -> list[Fork]:
    """Return the places of a group that are worth most, at most `count`.

    Args:
        episodes: the finished ones of the group, in any order.
        rule: says what each place is worth.
        count: how many.
        taken: (id of the episode, turn) of places that are not to be forked again.

    Returns:
        Forks at turns that an episode sampled itself, since what it took over belongs to its parent; not at the first
        turn of an episode, where a fork would be another beginning.
    """
    members = list(episodes)
    places = []
    for episode, worth in zip(members, rule(members), strict=True):
        for turn in range(1 if episode.fork_turn is None else episode.fork_turn + 1, len(episode.turns)):
            if math.isfinite(worth[turn]) and (episode.id, turn) not in taken:
                fork = Fork(episode, turn)
                places.append((-worth[turn], sampling_seed(fork.origin), fork.origin, fork))
    return [fork for *_, fork in sorted(places, key=lambda place: place[:3])[:count]]
