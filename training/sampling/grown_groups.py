"""How the groups of a run grow: group rules as a rollout asks them, and what they say in the end.

A rule is asked where the group is played, which may be another process, and once more where the group is handed over.
Both get the same answers, since a rule is a pure function of the members and its random numbers have a seed of the
group and the round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from numpy.random import default_rng

from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.rollouts.group_rounds import EpisodeOrder, Grow, original_id
from turncredit.agents.trajectory import Group, Trajectory, member_order
from turncredit.curriculum.growth import GroupRule, Growth, MoreEpisodes, OpenGroup, decide
from turncredit.curriculum.records import Visit
from turncredit.training.config.seeds import Seeds
from turncredit.training.sampling.run_memory import RunMemory
from turncredit.training.tasks.group_draws import DrawnGroup

__all__ = ["GrowingGroups", "PlayedGroup", "joined_once"]


@dataclass(frozen=True, slots=True)
class PlayedGroup:
    """A group whose episodes are over.

    Attributes:
        drawn: what was drawn.
        group: its trajectories, failed ones included.
        growth: what the rules said last.
        rounds: number of rounds that were played.
        dropped: whether it is not trained on.
        replayed: stored episodes that joined it.
    """

    drawn: DrawnGroup
    group: Group
    growth: Growth = field(default_factory=Growth)
    rounds: int = 1
    dropped: bool = False
    replayed: tuple[Trajectory, ...] = ()

    @property
    def counted(self) -> Group:
        """The members that credit sees, stored ones last."""
        counted = self.growth.counted
        if counted is None and not self.replayed:
            return self.group
        members = [member for member in self.group.trajectories if counted is None or member.id in counted]
        return replace(self.group, trajectories=(*members, *self.replayed))

    @property
    def masked(self) -> set[str]:
        """Ids of the members that credit sees and that are not trained on."""
        keep = self.growth.keep
        stored = {member.id for member in self.replayed}
        return set() if keep is None else {member.id for member in self.counted.finished} - keep - stored

    @property
    def visit(self) -> Visit:
        """What the task's record learns."""
        finished = [member for member in self.group.finished if not member.teacher]
        rewards = tuple(member.reward for member in finished)
        return Visit(self.drawn.task, rewards, sum(member.won for member in finished), self.growth.remember)


@dataclass(frozen=True, slots=True)
class GrowingGroups:
    """Asks the group rules of a run.

    Attributes:
        rules: in the order in which they are asked; none: groups do not grow.
        seeds: of their random numbers.
        total: iterations of the whole run.
        max_rounds: rounds after which a group is complete.
        memory: what rules see of earlier iterations.
        teachers: names of other models that may play.
    """

    rules: Sequence[GroupRule]
    seeds: Seeds
    total: int
    max_rounds: int
    memory: RunMemory = field(default_factory=RunMemory)
    teachers: tuple[str, ...] = ()

    def grow(self, drawn: DrawnGroup) -> Grow | None:
        """Return what the rounds of a group play; None if it does not grow."""
        if not self.rules:
            return None
        return lambda number, members: self._orders(drawn, number, members)

    def played(self, drawn: DrawnGroup, group: Group) -> PlayedGroup:
        """Return a group whose episodes are over, with what the rules say of it."""
        if not self.rules:
            return PlayedGroup(drawn, group)
        number = 0
        while self._orders(drawn, number, _before(number, group.trajectories)):
            number += 1
        growth = self._decision(drawn, number, group.trajectories)
        stored = tuple(self.memory.stored(growth.replay))
        return PlayedGroup(drawn, group, replace(growth, more=()), number, growth.drop, stored)

    def _orders(self, drawn: DrawnGroup, number: int, members: Sequence[Trajectory]) -> list[EpisodeOrder]:
        """Return what a round plays."""
        growth = self._decision(drawn, number, members)
        if growth.drop or number >= self.max_rounds:
            return []
        if not growth.more:
            return [] if number else [EpisodeOrder(drawn.size)]
        finished = {member.id: member for member in members if member.finished}
        return [_order(more, finished) for more in growth.more]

    def _decision(self, drawn: DrawnGroup, number: int, members: Sequence[Trajectory]) -> Growth:
        """Return what the rules say before a round."""
        finished = tuple(sorted((member for member in members if member.finished), key=member_order))
        failed = {original_id(member.id) for member in members} - {original_id(member.id) for member in finished}
        moment = self.memory.at(drawn.iteration)
        group = OpenGroup(
            drawn.task,
            drawn.size,
            number,
            finished,
            len(failed),
            drawn.record,
            drawn.options,
            drawn.iteration,
            self.total,
            default_rng(self.seeds.of(f"grow {number}", drawn.number)),
            moment.lessons,
            moment.stored,
            self.teachers,
        )
        return decide(self.rules, group)


def joined_once(sampled: Sequence[PlayedGroup]) -> list[PlayedGroup]:
    """Return the groups of an iteration, of which a stored episode joins only the first that is trained on.

    Rules are asked group by group, and advantages are joined by the ids of episodes.
    """
    joined: set[str] = set()
    groups = []
    for played in sampled:
        fresh = tuple(member for member in played.replayed if not played.dropped and member.id not in joined)
        joined |= {member.id for member in fresh}
        groups.append(replace(played, replayed=fresh))
    return groups


def _before(number: int, members: Sequence[Trajectory]) -> list[Trajectory]:
    return [member for member in members if member.round < number]


def _order(more: MoreEpisodes, finished: Mapping[str, Trajectory]) -> EpisodeOrder:
    """Return what a rollout plays for what a rule wants."""
    at = more.at
    fork = None if at is None else Fork(finished[at.trajectory], at.turn, tokens=at.tokens)
    return EpisodeOrder(more.episodes, fork, more.hint, more.plan, more.temperature, more.teacher, more.notes)
