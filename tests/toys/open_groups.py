"""Groups for the tests of group rules: made-up episodes, and groups that grow as a rule says without being played."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from numpy.random import default_rng

from turncredit.agents.rollouts.forks import Fork
from turncredit.agents.trajectory import Extra, Trajectory, Turn
from turncredit.curriculum import BranchPoint, Growth, MoreEpisodes, OpenGroup
from turncredit.engines.base import SamplerSettings
from turncredit.engines.expert import Expert

Rule = Callable[[OpenGroup], Growth]


def second_expert(settings: SamplerSettings) -> Expert:
    """The expert under another name, for runs of several teachers."""
    return Expert.from_settings(settings)


def turn(reward: float = 0.0, logprobs: tuple[float, ...] = (-1.0,), extras: dict[str, Extra] | None = None) -> Turn:
    """A turn with one token a log-probability."""
    return Turn((1,), (2,) * len(logprobs), logprobs, 0, "o", "t", "a", "s", reward, True, extras=extras or {})


def episode(name: object, won: bool = False, turns: int | tuple[Turn, ...] = 3, **fields: object) -> Trajectory:
    """An episode `t#NAME@7`; one that won has the reward 1 at its end."""
    made = (*(turn() for _ in range(turns - 1)), turn(float(won))) if isinstance(turns, int) else turns
    member = Trajectory(
        f"t#{name}@7", "t", None, 7, made, "terminated", won, float(won), "end", "o", None, 0.0
    )  # fmt: skip
    return replace(member, **fields)  # type: ignore[arg-type]


def members(outcomes: str, **fields: object) -> tuple[Trajectory, ...]:
    """Episodes in the order of their numbers: "1" won, "0" did not."""
    return tuple(episode(number, outcome == "1", **fields) for number, outcome in enumerate(outcomes))  # type: ignore[arg-type]


def after(outcomes: str, size: int = 0, **fields: object) -> OpenGroup:
    """A group after its first round, of members that won or did not."""
    return OpenGroup("t", size or len(outcomes), 1, members(outcomes), **fields)  # type: ignore[arg-type]


@dataclass
class Played:
    """A group that grew to its end: as it was at each question, and the answers."""

    groups: list[OpenGroup]
    growths: list[Growth]

    @property
    def members(self) -> tuple[Trajectory, ...]:
        """All members."""
        return self.groups[-1].members

    @property
    def episodes(self) -> int:
        """Episodes that were asked for."""
        return len(self.members) + self.groups[-1].failed

    @property
    def end(self) -> Growth:
        """The last answer."""
        return self.growths[-1]


@dataclass
class Player:
    """Plays what a rule asks for: each episode wins, loses or fails by chance, after some turns.

    Attributes:
        win: chance of an episode to win.
        fail: chance of an episode to fail.
        empty: chance of an episode from the beginning to end before its first turn, as where a prompt is too long.
        turns: the fewest and the most turns of an episode.
        seed: of the chances.
    """

    win: float = 0.5
    fail: float = 0.0
    empty: float = 0.0
    turns: tuple[int, int] = (1, 6)
    seed: int = 0
    names: Counter[str] = field(default_factory=Counter)

    def grow(self, rule: Rule, size: int, *, most: int = 100, **fields: object) -> Played:
        """Ask the rule and play, until the group is complete or has grown for `most` rounds."""
        self.names.clear()
        group = self.asked(OpenGroup("t", size, **fields))  # type: ignore[arg-type]
        played = Played([group], [rule(group)])
        while played.end.more or not (group.round or played.end.drop):
            assert group.round < most, "the group does not stop growing"
            requests = played.end.more or (MoreEpisodes(size),)
            episodes = [self.play(request, group) for request in requests for _ in range(request.episodes)]
            finished = tuple(member for member in episodes if member is not None)
            failed = group.failed + len(episodes) - len(finished)
            group = replace(group, round=group.round + 1, members=(*group.members, *finished), failed=failed)
            group = self.asked(group)
            played.groups.append(group)
            played.growths.append(rule(group))
        return played

    def asked(self, group: OpenGroup) -> OpenGroup:
        """The group with the generator that it is asked with."""
        return replace(group, rng=default_rng([self.seed, group.round]))

    def play(self, request: MoreEpisodes, group: OpenGroup) -> Trajectory | None:
        """One episode of a request; None if it failed."""
        taken: tuple[Turn, ...] = ()
        parent, origin, start = None, "t#", tuple[float, ...]()
        if request.at is not None:
            parent = next(member for member in group.members if member.id == request.at.trajectory)
            fork = Fork(parent, request.at.turn, tokens=request.at.tokens)
            taken, origin, start = fork.taken, f"{fork.origin}.", fork.start.logprobs
        name = f"{origin}{self.names[origin]}@7"
        self.names[origin] += 1
        chance = random.Random(f"{self.seed} {name}")
        won, failed, empty = (chance.random() < share for share in (self.win, self.fail, self.empty))
        empty, won = empty and not taken, won and not (empty and not taken)
        count = 0 if empty else max(len(taken) + 1, chance.randint(*self.turns))
        new = tuple(self.turn(chance, won and number == count - 1) for number in range(len(taken), count))
        if start:  # the answer begins with the parent's
            new = (self.turn(chance, bool(new[0].reward), start), *new[1:])
        member = episode("", won, (*taken, *new), id=name, round=group.round)
        if request.plan or request.hint:
            member = replace(member, hint=request.hint or f"{request.plan:.3f} of the plan")
        if parent is not None:
            at = request.at or BranchPoint(parent.id, 0)
            member = replace(member, fork_of=parent.id, fork_turn=at.turn, fork_tokens=at.tokens)
        return None if failed else member

    @staticmethod
    def turn(chance: random.Random, won: bool, start: tuple[float, ...] = ()) -> Turn:
        """A turn with some tokens and the columns that rules read."""
        surprise = start + tuple(-chance.expovariate(1.0) for _ in range(chance.randint(1, 5)))
        return turn(float(won), surprise, {"process": chance.random(), "coverage": chance.random()})
