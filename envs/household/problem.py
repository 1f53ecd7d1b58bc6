"""The PDDL problem and the walkthrough of a layout.

Ids have the form from which ALFWorld's loader derives names: Mug_bar_02 is "mug 1" if there are two mugs, because the
game numbers the sorted ids of a kind downwards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from turncredit.envs.household.layout import HouseLayout, LayoutGoal, LayoutReceptacle
from turncredit.envs.household.vocabulary import OBJECTS, RECEPTACLES, accepts, type_name
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["problem_and_walkthrough"]


@dataclass(frozen=True, slots=True)
class _Thing:
    id: str
    name: str
    kind: str
    receptacle: int


def _numbered(kinds: list[str]) -> list[tuple[str, str]]:
    """Return (id, name) of every item; the last item of a kind has number 1."""
    count = Counter(kinds)
    seen: Counter[str] = Counter()
    labels = []
    for kind in kinds:
        seen[kind] += 1
        labels.append((f"{kind.capitalize()}_bar_{seen[kind]:02d}", f"{kind} {count[kind] - seen[kind] + 1}"))
    return labels


def problem_and_walkthrough(layout: HouseLayout, draw: KeyedRandom) -> tuple[str, list[str]]:
    """Return the PDDL problem of a layout, and commands that win it; `draw` decides which of two mugs is mug 1."""
    kinds = [(thing, number) for number, receptacle in enumerate(layout.places) for thing in receptacle.holds]
    kinds = draw.shuffled(kinds)  # so that numbers do not depend on locations
    labels = _numbered([kind for kind, _ in kinds])
    things = [_Thing(*label, kind, receptacle) for label, (kind, receptacle) in zip(labels, kinds, strict=True)]
    places = _numbered([receptacle.kind for receptacle in layout.places])
    walkthrough = list(_walkthrough(layout, things, [name for _, name in places]))
    return _problem(layout, things, places), walkthrough


# ---- the problem in PDDL ----


def _problem(layout: HouseLayout, things: list[_Thing], places: list[tuple[str, str]]) -> str:
    thing_kinds = sorted({thing.kind for thing in things})
    place_kinds = sorted({receptacle.kind for receptacle in layout.places} | {"sink", "microwave", "fridge"})
    spots = sorted({receptacle.spot for receptacle in layout.places})
    objects = ["agent1 - agent"]
    objects += [f"loc_bar_{spot:02d} - location" for spot in (0, *spots)]
    objects += [f"{type_name(kind)} - otype" for kind in thing_kinds]
    objects += [f"{type_name(kind)} - rtype" for kind in place_kinds]
    objects += [f"{thing.id} - object" for thing in things]
    objects += [f"{label} - receptacle" for label, _ in places]
    facts = ["(atLocation agent1 loc_bar_00)"]
    for receptacle, (label, _) in zip(layout.places, places, strict=True):
        facts += _place_facts(receptacle, label)
    for thing in things:
        facts += [
            f"(objectType {thing.id} {type_name(thing.kind)})",
            f"(inReceptacle {thing.id} {places[thing.receptacle][0]})",
        ]
        facts += [f"({entry} {thing.id})" for entry in _abilities(thing.kind)]
    facts += [
        f"(canContain {type_name(receptacle)} {type_name(thing)})"
        for receptacle in sorted({receptacle.kind for receptacle in layout.places})
        for thing in thing_kinds
        if thing in accepts(receptacle)
    ]
    lines = [
        "(define (problem household)",
        "  (:domain alfred)",
        "  (:objects",
        *(f"    {entry}" for entry in objects),
        "  )",
    ]
    lines += ["  (:init", *(f"    {fact}" for fact in facts), "  )", f"  (:goal {_goal(layout.goal)})", ")", ""]
    return "\n".join(lines)


def _place_facts(receptacle: LayoutReceptacle, label: str) -> list[str]:
    facts = [
        f"(receptacleType {label} {type_name(receptacle.kind)})",
        f"(receptacleAtLocation {label} loc_bar_{receptacle.spot:02d})",
    ]
    if RECEPTACLES[receptacle.kind].openable:
        facts.append(f"(openable {label})")
    if receptacle.opened:
        facts.append(f"(opened {label})")
    return facts


def _abilities(kind: str) -> list[str]:
    can = OBJECTS[kind].can
    if "light" in can:
        return ["toggleable"]
    return ["pickupable", *(f"{word}able" for word in ("clean", "heat", "cool") if word in can)]


def _goal(goal: LayoutGoal) -> str:
    thing, target = type_name(goal.thing), type_name(goal.target)
    if goal.light:
        return (
            "(and (exists (?l - object ?r - receptacle ?a - agent ?p - location)"
            f" (and (objectType ?l {target}) (toggleable ?l) (isToggled ?l) (inReceptacle ?l ?r)"
            " (receptacleAtLocation ?r ?p) (atLocation ?a ?p)))"
            f" (exists (?o - object ?a - agent) (and (objectType ?o {thing}) (holds ?a ?o))))"
        )
    if goal.count == 2:
        return (
            f"(exists (?r - receptacle) (exists (?o1 - object) (and (receptacleType ?r {target})"
            f" (objectType ?o1 {thing}) (inReceptacle ?o1 ?r) (exists (?o2 - object) (and (not (= ?o1 ?o2))"
            f" (objectType ?o2 {thing}) (inReceptacle ?o2 ?r))))))"
        )
    done = {"": "", "clean": " (isClean ?o)", "heat": " (isHot ?o)", "cool": " (isCool ?o)"}[goal.work]
    return (
        f"(exists (?r - receptacle) (exists (?o - object) (and (receptacleType ?r {target}) (objectType ?o {thing})"
        f"{done} (inReceptacle ?o ?r))))"
    )


# ---- the walkthrough ----


def _walkthrough(layout: HouseLayout, things: list[_Thing], names: list[str]) -> Iterator[str]:
    """Yield commands that win; two objects go to the same receptacle."""
    goal, places = layout.goal, layout.places
    opened = {number for number, receptacle in enumerate(places) if receptacle.opened is not False}
    at = 0

    def go(number: int, *, open_it: bool) -> Iterator[str]:
        nonlocal at
        if places[number].spot != at:
            yield f"go to {names[number]}"
            at = places[number].spot
        if open_it and number not in opened:
            yield f"open {names[number]}"
            opened.add(number)

    targets = [thing for thing in things if thing.kind == goal.thing][: goal.count]
    target = next(number for number, receptacle in enumerate(places) if goal.light or receptacle.kind == goal.target)
    lamp = next((thing for thing in things if thing.kind == goal.target), None) if goal.light else None
    for thing in targets:
        yield from go(thing.receptacle, open_it=True)
        yield f"take {thing.name} from {names[thing.receptacle]}"
        if goal.work:
            tool = next(
                number for number, receptacle in enumerate(places) if RECEPTACLES[receptacle.kind].tool == goal.work
            )
            yield from go(tool, open_it=False)
            yield f"{goal.work} {thing.name} with {names[tool]}"
        if lamp is not None:
            yield from go(lamp.receptacle, open_it=False)
            yield f"use {lamp.name}"
        else:
            yield from go(target, open_it=True)
            yield f"move {thing.name} to {names[target]}"
