"""The episodes of a group, round by round.

A group is played at once, or grows: whenever all episodes that were asked for are over, a function of the finished
members says which ones follow. It is a pure function, so a group whose members are known can be asked for again, by
another process or after a restart, and gets the same numbers, names and seeds.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from turncredit.agents.errors import AgentError
from turncredit.agents.prompts.hints import TurnNotes
from turncredit.agents.rollouts.episode import EpisodeSpec
from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.trajectory import Trajectory, sampling_seed

__all__ = [
    "REPLACED",
    "EpisodeOrder",
    "GroupRounds",
    "GroupSpec",
    "Grow",
    "is_replacement",
    "member_number",
    "original_id",
    "replacement_of",
]

REPLACED = 1_000_000
"""Added to the number of a member for each episode that was played before in its place: ``task#1000003@7`` replaces
``task#3@7``."""


@dataclass(frozen=True, slots=True)
class EpisodeOrder:
    """Episodes of a group that begin alike."""

    count: int
    fork: Fork | None = None
    """Where they begin; None: with a reset."""
    hint: str = ""
    """Shown with the task."""
    plan: float = 0.0
    """Share of the expert's plan that is shown as the hint."""
    temperature: float | None = None
    """Of the sampling; None: that of the agent."""
    teacher: str = ""
    """The model that plays in the place of the policy; empty: none."""
    notes: TurnNotes | None = None
    """Shown turn by turn; None: none."""


Grow = Callable[[int, Sequence[Trajectory]], Sequence[EpisodeOrder]]
"""Returns what a round plays from its number and the members of the rounds before; nothing if the group is complete."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group to be played."""

    task: str
    seed: int
    """Of the environments and, through the ids of the episodes, of the sampling."""
    size: int
    """Number of episodes, if it does not grow."""
    number: int = 0
    """Number of the group in its stream."""
    first: int = 0
    """Number of its first member; not 0 where an earlier group has the same task and seed."""
    played: tuple[Trajectory, ...] = ()
    """Members that are finished already, and are not played again."""
    fork: Fork | None = None
    """Where its episodes begin; None: with a reset."""
    grow: Grow | None = field(default=None, compare=False)
    """What its rounds play; None: all episodes in one."""

    @property
    def members(self) -> range:
        """The numbers of the members, if the group does not grow."""
        return range(self.first, self.first + self.size)

    def orders(self, number: int, members: Sequence[Trajectory]) -> Sequence[EpisodeOrder]:
        """Return what a round plays; nothing if the group is complete."""
        if self.grow is not None:
            return self.grow(number, members)
        return () if number else (EpisodeOrder(self.size, self.fork),)


@dataclass(slots=True)
class GroupRounds:
    """Asks for the episodes of a group, and numbers them."""

    spec: GroupSpec
    number: int = 0
    """Number of the next round."""
    _plain: int = 0
    _forks: Counter[str] = field(default_factory=Counter)
    _notes: TurnNotes | None = None

    def next(self, members: Iterable[Trajectory]) -> list[EpisodeSpec]:
        """Return the episodes of the next round; none if the group is complete.

        Args:
            members: that were played so far, failed ones included.
        """
        earlier = [member for member in members if member.round < self.number]
        episodes = [episode for order in self.spec.orders(self.number, earlier) for episode in self._episodes(order)]
        self.number += 1
        return episodes

    def _episodes(self, order: EpisodeOrder) -> list[EpisodeSpec]:
        return [self._episode(order, number) for number in self._numbers(order)]

    def _numbers(self, order: EpisodeOrder) -> range:
        """Return the next numbers: of members that begin with a reset, or of forks of one place."""
        spec, fork = self.spec, order.fork
        if fork is None:
            first, self._plain = spec.first + self._plain, self._plain + order.count
        else:
            first = self._forks[fork.origin] + (spec.first if fork == spec.fork else 0)
            self._forks[fork.origin] += order.count
        return range(first, first + order.count)

    def _episode(self, order: EpisodeOrder, number: int) -> EpisodeSpec:
        spec, fork = self.spec, order.fork
        self._notes = order.notes or self._notes
        if fork is not None and (order.plan or order.hint not in ("", fork.trajectory.hint)):
            raise AgentError(
                f"a fork of {fork.trajectory.id} has the hint of its parent, which its prompts show already"
            )
        name = f"{spec.task}#{number}@{spec.seed}" if fork is None else fork.name(number)
        return EpisodeSpec(
            spec.task,
            spec.seed,
            name,
            sampling_seed(name),
            (spec.number, number),
            fork,
            round=self.number,
            hint=order.hint if fork is None else fork.trajectory.hint,
            plan=order.plan,
            temperature=order.temperature,
            teacher=order.teacher,
            notes=order.notes if fork is None else self._notes if fork.trajectory.notes else None,
        )


def replacement_of(episode: EpisodeSpec) -> EpisodeSpec:
    """Return the episode that is played in place of one that failed."""
    group, number = episode.position
    number += REPLACED
    head, _, end = episode.name.rpartition("@")
    name = f"{re.sub(r'[0-9]+$', str(number), head)}@{end}"
    return replace(episode, name=name, sampling_seed=sampling_seed(name), position=(group, number))


def original_id(episode_id: str) -> str:
    """Return the id of the episode in whose place another was played.

    >>> original_id("open-3-1#1000002@7"), original_id("open-3-1#2/5.1000000@7"), original_id("open-3-1#2@7")
    ('open-3-1#2@7', 'open-3-1#2/5.0@7', 'open-3-1#2@7')
    """
    if not is_replacement(episode_id):
        return episode_id
    head, _, end = episode_id.rpartition("@")
    return f"{re.sub(r'[0-9]+$', str(member_number(episode_id) % REPLACED), head)}@{end}"


def is_replacement(episode_id: str) -> bool:
    """Return whether an episode was played in place of one whose environment failed; ids of others say nothing.

    >>> is_replacement("open-3-1#2@7"), is_replacement("open-3-1#1000002@7")
    (False, True)
    """
    number = _member(episode_id)
    return number.isdecimal() and len(number) < 19 and int(number) >= REPLACED


def member_number(episode_id: str) -> int:
    """Return the number of an episode in its group, from its id; it is at least `REPLACED` for a replacement.

    >>> member_number("open-3-1#2@7"), member_number("open-3-1#2/5.3@7")
    (2, 3)
    """
    return int(_member(episode_id))


def _member(episode_id: str) -> str:
    path = episode_id.rpartition("#")[2].partition("@")[0]
    return path.rpartition(".")[2]
