"""Draws one household: which receptacles stand where, what lies in them, and what is asked for.

It knows kinds, counts and places, but neither names nor PDDL; `generator` makes a game out of a layout. A layout is
solvable by construction: what the task needs is there, may be picked up, and fits where it has to go; and it is not won
at the start, because nothing of the goal's kind lies in the goal's kind of receptacle, and no lamp is on.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from functools import cache

from turnwise.envs.errors import UnknownOption
from turnwise.envs.household.level import HouseholdLevel
from turnwise.envs.household.vocabulary import OBJECTS, RECEPTACLES, ROOMS, accepts, homes
from turnwise.envs.keyed_random import KeyedRandom

__all__ = ["HouseLayout", "LayoutGoal", "LayoutReceptacle", "draw_layout", "goals_of"]

WORK = {
    "pick_clean_then_place_in_recep": "clean",
    "pick_heat_then_place_in_recep": "heat",
    "pick_cool_then_place_in_recep": "cool",
}
MOST_COPIES = 3  # of one kind, so that the numbers in names stay small


@dataclass(frozen=True, slots=True)
class LayoutGoal:
    """What is asked for: a task type, the kind of object, and the kind of receptacle (for look_at: of lamp)."""

    task_type: str
    thing: str
    target: str

    @property
    def count(self) -> int:
        """How many objects of the kind the task needs."""
        return 2 if self.task_type == "pick_two_obj_and_place" else 1

    @property
    def work(self) -> str:
        """What is to be done with the object first: "clean", "heat", "cool" or ""."""
        return WORK.get(self.task_type, "")

    @property
    def light(self) -> bool:
        """Whether the target is a lamp."""
        return self.task_type == "look_at_obj_in_light"


@dataclass(slots=True)
class LayoutReceptacle:
    """A receptacle: its kind, whether it is open (None: it has no door), the spot where it stands, what it holds."""

    kind: str
    opened: bool | None
    spot: int
    holds: list[str]


@dataclass(frozen=True, slots=True)
class HouseLayout:
    """A household and what is asked for there."""

    goal: LayoutGoal
    places: tuple[LayoutReceptacle, ...]

    @property
    def canonical(self) -> str:
        """The layout without names and order: equal for two games exactly when one is a renaming of the other.

        The phrase in which the task is put does not count either.
        """
        spots: dict[int, list[str]] = {}
        for place in self.places:
            door = "" if place.opened is None else "open" if place.opened else "closed"
            spots.setdefault(place.spot, []).append(f"{place.kind}/{door}/{','.join(sorted(place.holds))}")
        goal = self.goal
        return "|".join([goal.task_type, goal.thing, goal.target, *sorted("&".join(sorted(s)) for s in spots.values())])

    @property
    def digest(self) -> int:
        """64-bit BLAKE2b digest of the canonical form."""
        return int.from_bytes(hashlib.blake2b(self.canonical.encode(), digest_size=8).digest(), "big")


@cache
def _kinds(room: str, words: int) -> tuple[tuple[str, int, int, float], ...]:
    """Return what can stand in a room in a vocabulary: (kind, least, most, weight)."""
    return tuple(entry for entry in ROOMS[room].receptacles if RECEPTACLES[entry[0]].level <= words)


@cache
def _things(words: int) -> tuple[str, ...]:
    return tuple(kind.name for kind in OBJECTS.values() if kind.level <= words)


@cache
def goals_of(task_type: str, room: str, words: int) -> tuple[LayoutGoal, ...]:
    """Return every goal of a task type that a room can hold, in a fixed order; () when there is none."""
    kinds = {kind for kind, *_ in _kinds(room, words)}
    found: list[LayoutGoal] = []
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
        found += [LayoutGoal(task_type, thing.name, target) for target in sorted(targets)]
    return tuple(found)


def _draw_goal(draw: KeyedRandom, dials: HouseholdLevel) -> tuple[str, LayoutGoal]:
    """Return a room and a goal: first the type, then the room, then the object, then the target, each evenly."""
    types = [one for one in dials.types if any(goals_of(one, room, dials.words) for room in dials.rooms)]
    if not types:
        raise UnknownOption(f"no room of {', '.join(dials.rooms)} can hold a task of {', '.join(dials.types)}")
    task_type = draw.pick(types)
    room = draw.pick([room for room in dials.rooms if goals_of(task_type, room, dials.words)])
    goals = goals_of(task_type, room, dials.words)
    thing = draw.pick(sorted({goal.thing for goal in goals}))
    return room, draw.pick([goal for goal in goals if goal.thing == thing])


def _needed(draw: KeyedRandom, goal: LayoutGoal, kinds: tuple[str, ...]) -> list[str]:
    """Return the kinds of receptacles without which the goal cannot be: tool, target, and a place to start from."""
    needed = [] if goal.light else [goal.target]
    needed += [kind for kind in kinds if goal.work and RECEPTACLES[kind].tool == goal.work]
    if goal.light:
        needed.append(draw.weighted({kind: w for kind, w in homes(goal.target).items() if kind in kinds}))
    starts = [kind for kind in kinds if goal.thing in accepts(kind) and (goal.light or kind != goal.target)]
    if not any(kind in starts for kind in needed):
        usual = {kind: homes(goal.thing)[kind] for kind in starts if kind in homes(goal.thing)}
        needed.append(draw.weighted(usual) if usual else draw.pick(starts))
    return needed


def _draw_places(draw: KeyedRandom, dials: HouseholdLevel, room: str, goal: LayoutGoal) -> list[LayoutReceptacle]:
    """Return the receptacles of a game: what the goal needs, then what the room always has, then more by weight."""
    entries = _kinds(room, dials.words)
    wanted = draw.between(*dials.receptacles)
    chosen = Counter(_needed(draw, goal, tuple(kind for kind, *_ in entries)))
    usual = [kind for kind, least, _, _ in entries if least and not chosen[kind]]
    for kind in draw.shuffled(usual)[: max(0, wanted - chosen.total())]:
        chosen[kind] = 1
    while chosen.total() < wanted:
        more = {
            kind: weight * (dials.openable if RECEPTACLES[kind].openable else 1.0)
            for kind, _, most, weight in entries
            if chosen[kind] < most
        }
        more = {kind: weight for kind, weight in more.items() if weight > 0}
        if not more:
            break  # the room is full
        chosen[draw.weighted(more)] += 1
    places: list[LayoutReceptacle] = []
    for kind in sorted(chosen.elements()):
        opened = not draw.chance(dials.closed) if RECEPTACLES[kind].openable else None
        near = bool(places) and places[-1].kind == kind and draw.chance(dials.shared)
        spot = places[-1].spot if near else 1 + len({place.spot for place in places})
        places.append(LayoutReceptacle(kind, opened, spot, []))
    return places


def _put(
    draw: KeyedRandom, places: list[LayoutReceptacle], thing: str, *, avoid: str, stray: float, hidden: float = 0.0
) -> bool:
    """Put one object of a kind somewhere, and return whether any place takes it.

    Args:
        draw: the stream of draws.
        places: the receptacles; one of them is given the object.
        thing: kind of object.
        avoid: kind of receptacle in which it must not lie ("" for none).
        stray: probability of any place that takes it instead of a usual one.
        hidden: probability that only places behind closed doors are considered, if there are any.
    """
    fit = [place for place in places if place.kind != avoid and thing in accepts(place.kind)]
    if hidden and draw.chance(hidden):
        fit = [place for place in fit if place.opened is False] or fit
    if not fit:
        return False
    count = Counter(place.kind for place in fit)
    usual = {kind: weight for kind, weight in homes(thing).items() if kind in count}
    if not usual or draw.chance(stray):
        draw.pick(fit).holds.append(thing)
        return True
    kind = draw.weighted(usual)
    draw.pick([place for place in fit if place.kind == kind]).holds.append(thing)
    return True


def draw_layout(draw: KeyedRandom, dials: HouseholdLevel) -> HouseLayout:
    """Return a layout of the asked size: solvable, and not won at the start.

    Raises:
        UnknownOption: when no room of the dials can hold any of their task types.
    """
    room, goal = _draw_goal(draw, dials)
    places = _draw_places(draw, dials, room, goal)
    avoid = "" if goal.light else goal.target
    wanted = draw.between(*dials.objects)
    copies = goal.count + draw.chance(dials.copies)
    for _ in range(copies):
        placed = _put(draw, places, goal.thing, avoid=avoid, stray=dials.strays, hidden=dials.hidden)
        assert placed, f"no place for {goal.thing}: _needed() has to choose one"
    if goal.light:
        _put(draw, places, goal.target, avoid="", stray=0.0)
    present = {place.kind for place in places}
    others = [thing for thing in _things(dials.words) if thing != goal.thing and homes(thing).keys() & present]
    free = {thing: MOST_COPIES for thing in others if not (goal.light and thing == goal.target)}
    for _ in range(wanted - copies - goal.light):
        if not free:
            break
        thing = draw.pick(list(free))
        _put(draw, places, thing, avoid="", stray=dials.strays)
        free[thing] -= 1
        if not free[thing]:
            del free[thing]
    return HouseLayout(goal, tuple(places))
