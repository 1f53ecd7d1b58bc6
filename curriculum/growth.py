"""Group rules: whether a group is complete, or what else is played for it.

    def rule(group, **options) -> Growth

A rule is asked before the first episode of a group and whenever all episodes that were asked for are finished, so a
group grows in rounds. It is a pure function of the group so far: a run that is resumed asks again and gets the same
answer. Packages offer rules in the group `turncredit.group_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from numpy.random import Generator, default_rng

from turncredit.agents.prompts.hints import TurnNotes
from turncredit.agents.trajectory import Trajectory
from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.lessons import Lesson
from turncredit.curriculum.rule_registry import SamplingRule, rule_registry
from turncredit.curriculum.stored_episodes import Index
from turncredit.registry import Registry

__all__ = ["GROUP_RULES", "BranchPoint", "GroupRule", "Growth", "MoreEpisodes", "OpenGroup"]


@dataclass(frozen=True, slots=True)
class OpenGroup:
    """A group so far.

    Attributes:
        task: id of the task instance.
        size: episodes that were drawn for it.
        round: number of finished rounds; 0 before the first episode.
        members: the episodes that finished, in the order of their numbers; each knows the `round` it was asked for in.
        failed: number of episodes that failed, and were not replaced.
        record: the task's record, see `TaskRecords.of_task`.
        options: of the draw, for this group.
        iteration: number of finished iterations when the group was drawn.
        total: iterations of the whole run.
        rng: of this group and round.
        lessons: of the run when the group was drawn.
        stored: the experience of the run when the group was drawn.
        teachers: other models that may play.
    """

    task: str
    size: int
    round: int = 0
    members: tuple[Trajectory, ...] = ()
    failed: int = 0
    record: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    iteration: int = 0
    total: int = 1
    rng: Generator = field(default_factory=lambda: default_rng(0), compare=False)
    lessons: tuple[Lesson, ...] = ()
    stored: Index = field(default_factory=Index)
    teachers: tuple[str, ...] = ()

    @property
    def latest(self) -> tuple[Trajectory, ...]:
        """The members of the last round."""
        return tuple(member for member in self.members if member.round == self.round - 1)

    @property
    def winners(self) -> tuple[Trajectory, ...]:
        """The members that won."""
        return tuple(member for member in self.members if member.won)

    @property
    def losers(self) -> tuple[Trajectory, ...]:
        """The members that did not."""
        return tuple(member for member in self.members if not member.won)

    @property
    def even(self) -> bool:
        """Whether several members all have the same reward, so that comparing them teaches nothing."""
        rewards = [member.reward for member in self.members]
        return len(rewards) > 1 and max(rewards) - min(rewards) <= 1e-9


@dataclass(frozen=True, slots=True)
class BranchPoint:
    """A place inside an episode of the group: before a turn, or after the first tokens of its answer."""

    trajectory: str
    """Id of the episode."""
    turn: int
    """Turns before it are taken over."""
    tokens: int = 0
    """Tokens of its answer that are taken over."""


@dataclass(frozen=True, slots=True)
class MoreEpisodes:
    """Episodes to be played in the next round."""

    episodes: int
    at: BranchPoint | None = None
    """Where they begin; None: with a reset."""
    hint: str = ""
    """Shown with the task, and stored with the episode."""
    plan: float = 0.0
    """Share of the expert's plan that is shown as the hint: its first ceil(plan * length) actions."""
    temperature: float | None = None
    """Sampling temperature; None: that of the run."""
    teacher: str = ""
    """Model that plays in the place of the policy, one of `OpenGroup.teachers`; empty: none."""
    notes: TurnNotes | None = None
    """Shown at turns that look like what they are about; forks show those of their parents."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            CurriculumError: no episode is wanted, the share of the plan is outside [0, 1], the temperature is not
                positive, or a teacher is to begin inside an episode.
        """
        if self.teacher and self.at is not None:
            raise CurriculumError(f"the episodes of a teacher begin with a reset; got {self!r}")
        if self.episodes < 1 or not 0 <= self.plan <= 1:
            raise CurriculumError(f"at least one episode is wanted, with a share of the plan in [0, 1]; got {self!r}")
        if self.temperature is not None and not self.temperature > 0:
            raise CurriculumError(f"the temperature of episodes to train on must be > 0, got {self.temperature}")


@dataclass(frozen=True, slots=True)
class Growth:
    """What becomes of a group; without `more`, it is complete.

    Before the first round, no `more` means as many plain episodes as were drawn.

    Attributes:
        more: what the next round plays.
        drop: the group is not trained on, and another one takes its place.
        keep: ids of the members that are trained on; None: all.
        counted: ids of the members that credit sees, trained on or not; None: all.
        until: places at which the loss of members ends: what follows has an advantage of 0, and counts in means over
            tokens. A member without a place is trained on to its end.
        replay: ids of stored episodes that join the members, for credit and for the loss.
        best: maximum number of kept episodes of teachers; of more, those stay that explain their answer best to the
            policy (`turncredit.training.assign.teacher_ranks`). None: all.
        remember: numbers for the task's record.
        rule: name of the rule that wanted more or dropped the group; `decide` fills it in.
    """

    more: tuple[MoreEpisodes, ...] = ()
    drop: bool = False
    keep: frozenset[str] | None = None
    counted: frozenset[str] | None = None
    until: tuple[BranchPoint, ...] = ()
    replay: tuple[str, ...] = ()
    best: int | None = None
    remember: Mapping[str, float] = field(default_factory=dict)
    rule: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        """Check what is remembered.

        Raises:
            CurriculumError: a number is not finite.
        """
        for name, value in self.remember.items():
            if not math.isfinite(value):
                raise CurriculumError(f"a group rule can remember finite numbers only; got {name} = {value!r}")


@dataclass(frozen=True)
class GroupRule(SamplingRule):
    """A group rule: `function(group, *, options) -> Growth`.

    Args:
        expert: whether it shows plans of the environment's expert, which the environment must have then.
        taught: whether teachers play for it, which the run must name then.
        replays: whether stored episodes join groups by it.
    """

    expert: bool = False
    taught: bool = False
    replays: bool = False

    def __call__(self, group: OpenGroup) -> Growth:
        """Return what becomes of a group.

        Raises:
            CurriculumError: the function returned something else than a growth, or named an episode that is no member.
        """
        growth = self.function(group)
        if not isinstance(growth, Growth):
            raise CurriculumError(f"the group rule {self.name!r} must return a Growth, got {type(growth).__name__}")
        ids = {member.id for member in group.members}
        if unknown := {more.teacher for more in growth.more} - {"", *group.teachers}:
            raise CurriculumError(
                f"the group rule {self.name!r} named the teacher {min(unknown)!r}, which the run lacks"
            )
        places = {more.at.trajectory for more in growth.more if more.at is not None}
        places |= {at.trajectory for at in growth.until}
        if unknown := set(growth.replay) - {episode.id for episode in group.stored.of_task(group.task)}:
            raise CurriculumError(
                f"the group rule {self.name!r} replays {min(unknown)!r}, which is not stored for the task"
            )
        if unknown := (places | (growth.keep or set()) | (growth.counted or set())) - ids:
            raise CurriculumError(f"the group rule {self.name!r} named {min(unknown)!r}, which is no finished member")
        return growth

    def check(self) -> None:
        """Ask about a group before its first episode."""
        self(OpenGroup("a", 2))


GROUP_RULES: Registry[GroupRule] = rule_registry("group rule", "turncredit.group_rules", GroupRule)


def decide(rules: Sequence[GroupRule], group: OpenGroup) -> Growth:
    """Return what several rules make of a group.

    The first rule that wants more episodes or drops the group decides. If all call it complete, a member is kept, and
    counted, where every rule keeps and counts it, its loss ends at the earliest place, the fewest teachers stay, and
    what they replay and remember is joined.
    """
    growths = []
    for rule in rules:
        growth = rule(group)
        if growth.more or growth.drop:
            return replace(growth, rule=rule.name)
        growths.append(growth)
    return Growth(
        keep=_common([growth.keep for growth in growths]),
        counted=_common([growth.counted for growth in growths]),
        until=_earliest([at for growth in growths for at in growth.until]),
        replay=tuple(dict.fromkeys(name for growth in growths for name in growth.replay)),
        best=min((growth.best for growth in growths if growth.best is not None), default=None),
        remember={name: value for growth in growths for name, value in growth.remember.items()},
    )


def _common(choices: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    chosen = [choice for choice in choices if choice is not None]
    return frozenset.intersection(*chosen) if chosen else None


def _earliest(places: Sequence[BranchPoint]) -> tuple[BranchPoint, ...]:
    """Return the first place inside each episode."""
    last_first = sorted(places, key=lambda at: (at.turn, at.tokens), reverse=True)
    return tuple({at.trajectory: at for at in last_first}.values())
