"""A demonstrator that knows no more than the agent: it searches for the objects of the task, then does the task.

`expert.plan` sees the contents of closed receptacles, so a policy that imitates it learns to walk straight to objects
of which it cannot know. This demonstrator looks where they are usually found, which an agent can learn. It uses only
the texts of generated and original games, and can be asked at any turn, even after actions that it did not choose.

Not included: human phrasings of the task, and the commands `inventory`, `look` and `examine`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from turncredit.envs.errors import EnvError
from turncredit.envs.household.game import Game
from turncredit.envs.household.vocabulary import OBJECTS, homes

__all__ = ["ParsedTask", "SearchingDemonstrator", "prior_of", "read_task"]

Prior = Mapping[str, Mapping[str, float]]
"""kind of object -> kind of receptacle -> weight: where objects usually lie."""

_TASK = re.compile(
    r"put two (?P<two1>\w+) in (?P<r1>\w+)"
    r"|find two (?P<two2>\w+) and put them in (?P<r2>\w+)"
    r"|put a (?P<how>clean|hot|cool) (?P<x1>\w+) in (?P<r3>\w+)"
    r"|(?P<do>clean|heat|cool) some (?P<x2>\w+) and put it in (?P<r4>\w+)"
    r"|look at (?P<seen1>\w+) under the (?P<t1>\w+)"
    r"|examine the (?P<seen2>\w+) with the (?P<t2>\w+)"
    r"|put (?:a|some) (?P<x3>\w+) (?:in|on) (?P<r5>\w+)"
)
_WORK = {"clean": "clean", "hot": "heat", "heat": "heat", "cool": "cool"}
_TOOLS = {"clean": ("sinkbasin", "sink"), "heat": ("microwave",), "cool": ("fridge",)}
_ROOM = re.compile(r"Looking quickly around you, you see (?P<list>.*?)\.(?:\n|$)")
_GOAL = re.compile(r"Your task is to: (?P<task>.*)")
_ITEM = re.compile(r"\ba (\w+ \d+)")
_CONTENTS = re.compile(r"(?:On the (?P<on>\w+ \d+)|The (?P<open>\w+ \d+) is open\. In it), you see (?P<list>[^.]*)\.")
_CLOSED = re.compile(r"The (\w+ \d+) is closed\.|You close the (\w+ \d+)\.")
_TOOK = re.compile(r"You pick up the (\w+ \d+) from the (\w+ \d+)\.")
_PUT = re.compile(r"You move the (\w+ \d+) to the (\w+ \d+)\.")
_DID = re.compile(r"You (clean|heat|cool) the (\w+ \d+) using the")
_CARRYING = re.compile(r"You are carrying: a (\w+ \d+)\.")


@dataclass(frozen=True, slots=True)
class ParsedTask:
    """A parsed task: kinds of object and target (or lamp), what to do first, number of objects, lamp or not."""

    thing: str
    target: str
    work: str = ""
    count: int = 1
    light: bool = False


def read_task(sentence: str) -> ParsedTask:
    """Return the task of a sentence in one of the twelve template phrasings.

    Raises:
        EnvError: the sentence has another form.
    """
    match = _TASK.search(sentence)
    if match is None:
        raise EnvError(
            f"the searcher understands only template goals such as 'put a hot egg in sink.', got {sentence!r}"
        )
    part = {name: text for name, text in match.groupdict().items() if text}
    target = next(text for name, text in part.items() if name[0] in "rt" and name[1:].isdigit())
    if "two1" in part or "two2" in part:
        return ParsedTask(part.get("two1") or part["two2"], target, count=2)
    if "seen1" in part or "seen2" in part:
        return ParsedTask(part.get("seen1") or part["seen2"], target, light=True)
    work = _WORK.get(part.get("how") or part.get("do") or "", "")
    return ParsedTask(next(part[name] for name in ("x1", "x2", "x3") if name in part), target, work)


def prior_of(games: Iterable[Game]) -> dict[str, dict[str, float]]:
    """Return where objects lie at the start of some games, as the prior of a `SearchingDemonstrator`.

    prior[thing][kind] = objects of the kind `thing` that lie in receptacles of that kind / games that have both kinds.
    """
    held: dict[str, Counter[str]] = {}
    met: dict[str, Counter[str]] = {}
    for game in games:
        kinds = [_kind(name) for name in game.names]
        places = {kinds[r] for r, _ in game.init.get("receptacletype", frozenset())}
        lying = [(kinds[o], kinds[r]) for o, r in game.init.get("inreceptacle", frozenset())]
        for thing in {thing for thing, _ in lying}:
            met.setdefault(thing, Counter()).update(places)
        for thing, receptacle in lying:
            held.setdefault(thing, Counter())[receptacle] += 1
    return {thing: {kind: held[thing][kind] / count for kind, count in row.items()} for thing, row in met.items()}


class SearchingDemonstrator:
    """Plays an episode from its texts: `start(first observation)`, then `act(observation, admissible)` every turn."""

    def __init__(self, prior: Prior | None = None) -> None:
        """Set the prior of where objects lie; the default is that of generated games."""
        self._prior: Prior = prior if prior is not None else {name: homes(name) for name in OBJECTS}
        self.task = ParsedTask("", "")
        self.places: list[str] = []
        self.contents: dict[str, list[str]] = {}  # of the receptacles seen so far
        self.closed: set[str] = set()
        self.holding: str | None = None
        self.worked: set[str] = set()
        self.refused: set[tuple[str, str]] = set()

    def start(self, observation: str) -> None:
        """Start an episode with its first observation, which contains the room and the task.

        Raises:
            EnvError: the text contains no room or no template goal.
        """
        room, goal = _ROOM.search(observation), _GOAL.search(observation)
        if room is None or goal is None:
            raise EnvError(
                "the searcher must start with the first observation of an episode, with the room and 'Your task is to:'"
            )
        self.task = read_task(goal["task"])
        self.places = _ITEM.findall(room["list"])
        self.contents, self.closed, self.holding = {}, set(), None
        self.worked, self.refused = set(), set()

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Return the next action, one of `admissible`, given the result of the last one."""
        self._read(observation)
        return self._next(frozenset(admissible))

    # ---- reading ----

    def _read(self, text: str) -> None:
        for seen in _CONTENTS.finditer(text):
            receptacle = seen["on"] or seen["open"]
            self.contents[receptacle] = _ITEM.findall(seen["list"])
            self.closed.discard(receptacle)
        for shut in _CLOSED.finditer(text):
            self.closed.add(shut[1] or shut[2])
        if took := _TOOK.search(text):
            self.holding = took[1]
            self.contents[took[2]] = [thing for thing in self.contents.get(took[2], []) if thing != took[1]]
        if put := _PUT.search(text):
            self.holding = None
            self.contents.setdefault(put[2], []).append(put[1])
        if did := _DID.search(text):
            self._did(did[1], did[2])
        if carried := _CARRYING.search(text):
            self.holding = carried[1]

    def _did(self, work: str, thing: str) -> None:
        if work == self.task.work:
            self.worked.add(thing)
        elif {work, self.task.work} == {"heat", "cool"}:
            self.worked.discard(thing)  # cooling what was hot undoes it

    # ---- deciding ----

    def _next(self, can: frozenset[str]) -> str:
        task, held = self.task, self.holding
        if held is None:
            return self._fetch(can)
        if _kind(held) != task.thing:
            return self._lay_down(held, can)
        if task.light:
            return self._use_lamp(can)
        if task.work and held not in self.worked:
            tool = next(p for name in _TOOLS[task.work] for p in self.places if _kind(p) == name)
            return self._at(tool, f"{task.work} {held} with {tool}", can, door=False)
        return self._bring(held, can)

    def _fetch(self, can: frozenset[str]) -> str:
        goal_place = self._goal_place()
        for receptacle, things in self.contents.items():
            for thing in things:
                if _kind(thing) == self.task.thing and not (receptacle == goal_place and self._counts(thing)):
                    return self._at(receptacle, f"take {thing} from {receptacle}", can)
        return self._search(self.task.thing, can)

    def _counts(self, thing: str) -> bool:
        """Return whether an object in the goal's receptacle is done."""
        return not self.task.work or thing in self.worked

    def _goal_place(self) -> str | None:
        """Return the target receptacle: the one that already holds most of the objects."""
        if self.task.light:
            return None
        fit = [p for p in self.places if _kind(p) == self.task.target and (self.task.thing, p) not in self.refused]
        return max(
            fit,
            key=lambda p: (sum(_kind(t) == self.task.thing for t in self.contents.get(p, ())), p in self.contents),
            default=None,
        )

    def _bring(self, held: str, can: frozenset[str]) -> str:
        receptacle = self._goal_place()
        if receptacle is None:
            return self._any(can)
        action = self._at(receptacle, f"move {held} to {receptacle}", can)
        if action == f"move {held} to {receptacle}" and action not in can:
            self.refused.add((self.task.thing, receptacle))  # it does not take such objects
            return self._bring(held, can)
        return action

    def _use_lamp(self, can: frozenset[str]) -> str:
        for action in sorted(can):
            if action.startswith(f"use {self.task.target} "):
                return action
        for receptacle, things in self.contents.items():
            for thing in things:
                if _kind(thing) == self.task.target:
                    return self._at(receptacle, f"use {thing}", can, door=False)
        return self._search(self.task.target, can)

    def _lay_down(self, held: str, can: frozenset[str]) -> str:
        moves = sorted(action for action in can if action.startswith(f"move {held} to "))
        better = [action for action in moves if _kind(action.partition(" to ")[2]) != self.task.target]
        if better or moves:
            return (better or moves)[0]
        return next((a for a in sorted(can) if a.startswith("open ")), None) or next(
            (f"go to {p}" for p in self.places if f"go to {p}" in can and p not in self.closed), self._any(can)
        )

    def _search(self, thing: str, can: frozenset[str]) -> str:
        unseen = [receptacle for receptacle in self.places if receptacle not in self.contents]
        if not unseen:  # somebody moved it: search everywhere again
            self.contents.clear()
            unseen = self.places
        prior = self._prior.get(thing, {})
        receptacle = max(unseen, key=lambda p: (f"go to {p}" not in can, self._worth(prior, p)))
        for action in (f"go to {receptacle}", f"open {receptacle}", f"examine {receptacle}"):
            if action in can:
                return action
        return self._any(can)

    def _worth(self, prior: Mapping[str, float], receptacle: str) -> float:
        """Return the probability of finding the object there, per turn of looking (a known door costs one more)."""
        kind = _kind(receptacle)
        same = sum(_kind(other) == kind for other in self.places)
        return prior.get(kind, 0.01) / same / (2 if receptacle in self.closed else 1)

    def _at(self, receptacle: str, action: str, can: frozenset[str], *, door: bool = True) -> str:
        """Return the next step towards `action` at a receptacle: go there, open it, do it."""
        if action in can:
            return action
        if f"go to {receptacle}" in can:
            return f"go to {receptacle}"
        if door and f"open {receptacle}" in can:
            return f"open {receptacle}"
        return action if action.startswith("move ") else self._stale(receptacle, can)

    def _stale(self, receptacle: str, can: frozenset[str]) -> str:
        """Forget the contents of a receptacle, which have changed, and look again."""
        self.contents.pop(receptacle, None)
        return f"examine {receptacle}" if f"examine {receptacle}" in can else self._any(can)

    def _any(self, can: frozenset[str]) -> str:
        return "look" if "look" in can else min(can)


def _kind(name: str) -> str:
    return name.rpartition(" ")[0]
