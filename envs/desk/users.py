"""Simulated users of service desks: a scripted one of graded quality, and the protocol for others.

The scripted user reads words: a message that has one of the words of a fact asks for that fact, one that has a word of
a tool asks the user to use it, and one that repeats a wrong value asks whether it is right. Negation is not understood:
"do not restart it" is read as a request.

    perfect      tells everything at once
    forgetful    tells what is asked for; has to look for some of it first
    confused     tells everything at once, and something of it wrong; corrects that when asked again
    impatient    tells everything at once, and leaves after a number of messages
    adversarial  also demands what the policy forbids, and insists
    mixed        one of these, drawn for each episode

Registering a user (`USERS`, entry points `turncredit.desk_users`) takes a function that makes one from the options
of the environment; the user that a language model plays is `turncredit.agents.desk_user:ModelUser`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Final, Protocol, cast

from turncredit.envs.desk.domain import UserTool
from turncredit.envs.desk.task import DeskTask, UserFact
from turncredit.envs.errors import BadSnapshot, UnknownOption
from turncredit.envs.snapshot import Fields
from turncredit.envs.validation import choice, flag, integer, number
from turncredit.registry import CannotLoad, Registry, UnknownName, is_untrusted
from turncredit.tools.keyed_random import KeyedRandom

__all__ = [
    "QUALITIES",
    "USERS",
    "DeskUser",
    "MakeDeskUser",
    "ScriptedUser",
    "UserQuality",
    "UserReply",
    "UserScene",
    "make_user",
]

_WORD: Final = re.compile(r"[a-z]+")
_FAREWELL: Final = re.compile(r"\b(goodbye|bye|anything else)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class UserReply:
    """What a user answers, and whether they leave after it."""

    text: str
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class UserScene:
    """What a user is given at the start of an episode.

    Attributes:
        task: what they want and know; they must not tell what only the desk knows.
        tools: what they can do, by name.
        seed: of the episode; the same seed gives the same user.
    """

    task: DeskTask
    tools: Mapping[str, UserTool]
    seed: int


class DeskUser(Protocol):
    """A user for one episode at a time."""

    def start(self, scene: UserScene) -> str:
        """Start an episode, and return the first message."""
        ...

    def reply(self, message: str) -> UserReply:
        """Return the answer to a message of the agent."""
        ...

    def questions(self) -> list[str]:
        """Return messages after which the user has told all facts, and rightly; for the expert."""
        ...

    def save(self) -> dict[str, object]:
        """Return all that decides how the user goes on, as JSON data; equal where the same follows."""
        ...

    def load(self, scene: UserScene, saved: Fields) -> None:
        """Go on from what `save` returned.

        Raises:
            BadSnapshot: it is not of a user like this.
        """
        ...


@dataclass(frozen=True, slots=True)
class UserQuality:
    """How good a scripted user is.

    Attributes:
        tells: whether the first message has all facts.
        searches: share of the facts that have to be asked for twice.
        errs: whether one of the facts is wrong at first.
        spare: maximum number of messages that the user waits beyond those that the task needs; None for any number.
        insists: maximum number of times that the user demands what is forbidden.
    """

    tells: bool = True
    searches: float = 0.0
    errs: bool = False
    spare: int | None = None
    insists: int = 0

    def __post_init__(self) -> None:
        """Check all values."""
        flag("tells", self.tells)
        number("searches", self.searches, 0, 1)
        flag("errs", self.errs)
        if self.spare is not None:
            integer("spare", self.spare)
        integer("insists", self.insists)


QUALITIES: Final[dict[str, UserQuality]] = {
    "perfect": UserQuality(),
    "forgetful": UserQuality(tells=False, searches=0.3),
    "confused": UserQuality(errs=True),
    "impatient": UserQuality(spare=2),
    "adversarial": UserQuality(insists=2),
}


@dataclass(slots=True)
class _Mood:
    """What a scripted user remembers: names of facts that were told, sought or are still wrong, and two counts."""

    told: list[str] = field(default_factory=list)
    sought: list[str] = field(default_factory=list)
    wrong: str = ""
    waits: int | None = None
    insists: int = 0


class ScriptedUser(DeskUser):
    """A user that follows a script.

    Args:
        qualities: how good it is; of several, the seed of an episode draws one.
    """

    def __init__(self, *qualities: UserQuality) -> None:
        self._qualities = qualities
        self._quality = qualities[0]
        self._scene: UserScene
        self._slow: frozenset[str] = frozenset()
        self._mood = _Mood()

    def start(self, scene: UserScene) -> str:
        self._enter(scene)
        task, quality = scene.task, self._quality
        demand = [task.demand.sentence] if quality.insists else []
        if not quality.tells:
            return " ".join([*task.wants, *demand])
        self._mood.told = [fact.name for fact in task.facts]
        facts = [fact.said(wrong=fact.name == self._mood.wrong) for fact in task.facts]
        return " ".join([*task.wants, *facts, *demand])

    def _enter(self, scene: UserScene) -> None:
        """Draw what this user is like in this episode."""
        task, draw = scene.task, KeyedRandom(f"user {scene.task.id} {scene.seed}")
        self._quality = quality = draw.pick(self._qualities)
        self._scene, self._mood = scene, _Mood()
        doubtful = [fact.name for fact in task.facts if fact.wrong]
        if quality.errs and doubtful:
            self._mood.wrong = draw.pick(doubtful)
        self._slow = frozenset(fact.name for fact in task.facts if draw.chance(quality.searches))
        if quality.spare is not None:
            self._mood.waits = _messages(task) + draw.between(0, quality.spare)
        if quality.insists:
            self._mood.insists = draw.between(1, quality.insists)

    def reply(self, message: str) -> UserReply:
        mood, task = self._mood, self._scene.task
        words = frozenset(_WORD.findall(message.lower()))
        parts = [tool.run() for tool in self._scene.tools.values() if tool.words & words]
        asked = [fact for fact in task.facts if self._asks(fact, message, words)]
        parts += [self._answer(fact) for fact in asked]
        if mood.insists:
            mood.insists -= 1
            parts.append(f"I insist: {task.demand.sentence}")
        if mood.waits is not None:
            mood.waits -= 1
        if mood.waits == 0:
            return UserReply(" ".join([*parts, "I have no more time. Goodbye."]), leaves=True)
        if not parts and _FAREWELL.search(message):
            return UserReply("That is all. Goodbye.", leaves=True)
        return UserReply(" ".join(parts) or "All right.")

    def _asks(self, fact: UserFact, message: str, words: frozenset[str]) -> bool:
        """Return whether a message asks for a fact, or repeats the wrong value."""
        return not words.isdisjoint(fact.words) or (fact.name == self._mood.wrong and fact.wrong in message)

    def _answer(self, fact: UserFact) -> str:
        mood = self._mood
        if fact.name == mood.wrong:
            mood.wrong = ""
            return f"Sorry, I was wrong. {fact.said()}"
        if fact.name in mood.told:
            return f"As I said: {fact.said()}"
        if fact.name in self._slow and fact.name not in mood.sought:
            mood.sought = sorted([*mood.sought, fact.name])
            return f"I have to look for the {fact.name}. Ask me again."
        mood.told, mood.sought = sorted([*mood.told, fact.name]), [name for name in mood.sought if name != fact.name]
        return fact.said()

    def questions(self) -> list[str]:
        mood, facts = self._mood, self._scene.task.facts
        if mood.wrong:
            wrong = next(fact for fact in facts if fact.name == mood.wrong)
            return [f"You wrote {wrong.wrong}. Is your {wrong.name} right?"]
        missing = [fact for fact in facts if fact.name not in mood.told]
        slow = [fact for fact in missing if fact.name in self._slow and fact.name not in mood.sought]
        return [
            f"Please tell me the {' and the '.join(fact.name for fact in part)}." for part in (missing, slow) if part
        ]

    def save(self) -> dict[str, object]:
        mood = self._mood
        told = sorted(mood.told)
        return {"told": told, "sought": mood.sought, "wrong": mood.wrong, "waits": mood.waits, "insists": mood.insists}

    def load(self, scene: UserScene, saved: Fields) -> None:
        names = [fact.name for fact in scene.task.facts]
        mood = _Mood(
            saved.texts("told"),
            saved.texts("sought"),
            saved.get("wrong", str),
            saved.maybe("waits", int),
            saved.get("insists", int),
        )
        if not {*mood.told, *mood.sought, *filter(None, [mood.wrong])} <= set(names):
            raise BadSnapshot(f"a user of the snapshot knows other facts than the task has: {', '.join(names)}")
        if (mood.waits is not None and mood.waits < 0) or mood.insists < 0:
            raise saved.wrong("waits", "an integer >= 0 or null, and 'insists' an integer >= 0")
        self._enter(scene)
        self._mood = mood


def _messages(task: DeskTask) -> int:
    """Return how many messages the expert writes to a user who tells everything at once."""
    return max(1, sum(bool(action.ask) for action in task.actions) + bool(task.replies))


MakeDeskUser = Callable[[Mapping[str, object]], DeskUser]


def _scripted(names: Sequence[str], options: Mapping[str, object]) -> DeskUser:
    """Return a scripted user of one of these qualities; the options replace settings of them."""
    settings = [field.name for field in fields(UserQuality)]
    for option in options:
        choice("option of a user", option, settings)
    return ScriptedUser(*(replace(QUALITIES[name], **options) for name in names))  # type: ignore[arg-type]


def make_user(name: str, options: Mapping[str, object]) -> DeskUser:
    """Return the user of a name in `USERS`.

    Raises:
        UnknownOption: there is none, or it cannot be made with these options.
    """
    if not isinstance(name, str):
        raise UnknownOption(f"user must be a name such as 'perfect', got {name!r:.80}")
    try:
        return USERS.get(name)(options)
    except (UnknownName, CannotLoad, TypeError) as error:
        if is_untrusted(error):
            raise
        raise UnknownOption(str(error)) from error


def _adapt(name: str, loaded: object) -> MakeDeskUser:
    if not callable(loaded):
        raise TypeError(f"the user {name!r} must be a function that makes a user from options, got {loaded!r:.80}")
    return cast(MakeDeskUser, loaded)


USERS: Final[Registry[MakeDeskUser]] = Registry("user", group="turncredit.desk_users", adapt=_adapt)
"""Functions that make a user, given `user_options` of the environment, by name."""
for _name in QUALITIES:
    USERS.register(_name, partial(_scripted, [_name]))
USERS.register("mixed", partial(_scripted, list(QUALITIES)))
