"""Random layouts of households: receptacles, their contents, and a goal.

A layout has kinds, counts and locations, but neither names nor PDDL; `generator` makes a game from it. Layouts are
solvable by construction: what the task needs exists, can be picked up, and fits where it must go. They are not won at
the start: no object of the goal's kind lies in its target, and no lamp is on.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cache

from turncredit.envs.errors import UnknownOption
from turncredit.envs.household.level import HouseholdLevel
from turncredit.envs.household.vocabulary import OBJECTS, RECEPTACLES, ROOMS, accepts, homes
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["HouseLayout", "LayoutGoal", "LayoutReceptacle", "draw_layout", "goals_of"]

WORK = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}
MAX_COPIES = 3  # of one kind, to keep the numbers in names small


@dataclass(frozen=True, slots=True)
class LayoutGoal:
    """A goal: task type, kind of object, and kind of target receptacle (for look_at: of lamp)."""

    task_type: str
    thing: str
    target: str

    @property
    def count(self) -> int:
        """How many objects the task needs."""
        return 2 if self.task_type == "pick_two_obj_and_place" else 1

    @property
    def work(self) -> str:
        """What must be done with the object: "clean", "heat", "cool" or ""."""
        return WORK.get(self.task_type, "")

    @property
    def light(self) -> bool:
        """Whether the target is a lamp."""
        return self.task_type == "look_at_obj_in_light"


@dataclass(slots=True)
class LayoutReceptacle:
    """A receptacle: kind, open or not (None: no door), number of its location, contents."""

    kind: str
    opened: bool | None
    spot: int
    holds: list[str]


@dataclass(frozen=True, slots=True)
class HouseLayout:
    """A household and a goal."""

    goal: LayoutGoal
    places: tuple[LayoutReceptacle, ...]

    @property
    def canonical(self) -> str:
        """The layout without names, order and phrasing: equal exactly if one game is a renaming of the other."""
        spots: dict[int, list[str]] = {}
        for receptacle in self.places:
            door = "" if receptacle.opened is None else "open" if receptacle.opened else "closed"
            spots.setdefault(receptacle.spot, []).append(
                f"{receptacle.kind}/{door}/{','.join(sorted(receptacle.holds))}"
            )
        goal = self.goal
        return "|".join([goal.task_type, goal.thing, goal.target, *sorted("&".join(sorted(s)) for s in spots.values())])

    @property
    def digest(self) -> int:
        """64-bit BLAKE2b digest of the canonical form."""
        return int.from_bytes(hashlib.blake2b(self.canonical.encode(), digest_size=8).digest(), "big")


@cache
def _kinds(room: str, words: int) -> tuple[tuple[str, int, int, float], ...]:
    """Return the receptacles of a room in a vocabulary: (kind, minimum, maximum, weight)."""
    return tuple(entry for entry in ROOMS[room].receptacles if RECEPTACLES[entry[0]].level <= words)


@cache
def _things(words: int) -> tuple[str, ...]:
    return tuple(kind.name for kind in OBJECTS.values() if kind.level <= words)


@cache
def goals_of(task_type: str, room: str, words: int) -> tuple[LayoutGoal, ...]:
    """Return all goals of a task type that are possible in a room, in a fixed order."""
    kinds = {kind for kind, *_ in _kinds(room, words)}
    goals: list[LayoutGoal] = []
    work = WORK.get(task_type, "")
    if work and not any(RECEPTACLES[kind].tool == work for kind in kinds):
        return ()
    for thing in (OBJECTS[name] for name in _things(words)):
        places = [kind for kind in kinds if thing.name in accepts(kind)]
        if "light" in thing.can or not homes(thing.name).keys() & kinds or (work and work not in thing.can):
            continue
        if task_type == "look_at_obj_in_light":
            targets = [n for n in _things(words) if "light" in OBJECTS[n].can and homes(n).keys() & kinds]
        else:
            targets = [kind for kind in places if len(places) > 1 and not (work and RECEPTACLES[kind].tool == work)]
        goals += [LayoutGoal(task_type, thing.name, target) for target in sorted(targets)]
    return tuple(goals)


def _draw_goal(draw: KeyedRandom, level: HouseholdLevel) -> tuple[str, LayoutGoal]:
    """Return a room and a goal: type, room, object and target are drawn in this order, uniformly."""
    types = [name for name in level.types if any(goals_of(name, room, level.words) for room in level.rooms)]
    if not types:
        raise UnknownOption(f"no room of {', '.join(level.rooms)} allows a task of {', '.join(level.types)}")
    task_type = draw.pick(types)
    room = draw.pick([room for room in level.rooms if goals_of(task_type, room, level.words)])
    goals = goals_of(task_type, room, level.words)
    thing = draw.pick(sorted({goal.thing for goal in goals}))
    return room, draw.pick([goal for goal in goals if goal.thing == thing])


def _needed(draw: KeyedRandom, goal: LayoutGoal, kinds: tuple[str, ...]) -> list[str]:
    """Return the kinds of receptacles that the goal needs: tool, target, and an initial location of the object."""
    needed = [] if goal.light else [goal.target]
    needed += [kind for kind in kinds if goal.work and RECEPTACLES[kind].tool == goal.work]
    if goal.light:
        needed.append(draw.weighted({kind: w for kind, w in homes(goal.target).items() if kind in kinds}))
    starts = [kind for kind in kinds if goal.thing in accepts(kind) and (goal.light or kind != goal.target)]
    if not any(kind in starts for kind in needed):
        usual = {kind: homes(goal.thing)[kind] for kind in starts if kind in homes(goal.thing)}
        needed.append(draw.weighted(usual) if usual else draw.pick(starts))
    return needed


def _draw_places(draw: KeyedRandom, level: HouseholdLevel, room: str, goal: LayoutGoal) -> list[LayoutReceptacle]:
    """Return the receptacles of a game: those of the goal, then the standard ones of the room, then more by weight."""
    entries = _kinds(room, level.words)
    count = draw.between(*level.receptacles)
    chosen = Counter(_needed(draw, goal, tuple(kind for kind, *_ in entries)))
    usual = [kind for kind, least, _, _ in entries if least and not chosen[kind]]
    for kind in draw.shuffled(usual)[: max(0, count - chosen.total())]:
        chosen[kind] = 1
    while chosen.total() < count:
        more = {
            kind: weight * (level.openable if RECEPTACLES[kind].openable else 1.0)
            for kind, _, most, weight in entries
            if chosen[kind] < most
        }
        more = {kind: weight for kind, weight in more.items() if weight > 0}
        if not more:
            break  # the room is full
        chosen[draw.weighted(more)] += 1
    places: list[LayoutReceptacle] = []
    for kind in sorted(chosen.elements()):
        opened = not draw.chance(level.closed) if RECEPTACLES[kind].openable else None
        near = bool(places) and places[-1].kind == kind and draw.chance(level.shared)
        spot = places[-1].spot if near else 1 + len({receptacle.spot for receptacle in places})
        places.append(LayoutReceptacle(kind, opened, spot, []))
    return places


def _put(
    draw: KeyedRandom, places: list[LayoutReceptacle], thing: str, *, avoid: str, stray: float, hidden: float = 0.0
) -> bool:
    """Put an object of a kind into a receptacle, and return whether any takes it.

    Args:
        draw: the random generator.
        places: the receptacles.
        thing: kind of object.
        avoid: kind of receptacle where it must not lie ("" for none).
        stray: probability of any receptacle that takes it, instead of a usual one.
        hidden: probability of considering only closed receptacles, if there are any.
    """
    fit = [receptacle for receptacle in places if receptacle.kind != avoid and thing in accepts(receptacle.kind)]
    if hidden and draw.chance(hidden):
        fit = [receptacle for receptacle in fit if receptacle.opened is False] or fit
    if not fit:
        return False
    count = Counter(receptacle.kind for receptacle in fit)
    usual = {kind: weight for kind, weight in homes(thing).items() if kind in count}
    if not usual or draw.chance(stray):
        draw.pick(fit).holds.append(thing)
        return True
    kind = draw.weighted(usual)
    draw.pick([receptacle for receptacle in fit if receptacle.kind == kind]).holds.append(thing)
    return True


def draw_layout(draw: KeyedRandom, level: HouseholdLevel) -> HouseLayout:
    """Return a random layout that is solvable and not won at the start.

    Raises:
        UnknownOption: no room of the level allows any of its task types.
    """
    room, goal = _draw_goal(draw, level)
    places = _draw_places(draw, level, room, goal)
    avoid = "" if goal.light else goal.target
    count = draw.between(*level.objects)
    copies = goal.count + draw.chance(level.copies)
    for _ in range(copies):
        placed = _put(draw, places, goal.thing, avoid=avoid, stray=level.strays, hidden=level.hidden)
        assert placed, f"no receptacle for {goal.thing}"
    if goal.light:
        _put(draw, places, goal.target, avoid="", stray=0.0)
    present = {receptacle.kind for receptacle in places}
    others = [thing for thing in _things(level.words) if thing != goal.thing and homes(thing).keys() & present]
    free = {thing: MAX_COPIES for thing in others if not (goal.light and thing == goal.target)}
    for _ in range(count - copies - goal.light):
        if not free:
            break
        thing = draw.pick(list(free))
        _put(draw, places, thing, avoid="", stray=level.strays)
        free[thing] -= 1
        if not free[thing]:
            del free[thing]
    return HouseLayout(goal, tuple(places))
