"""A small world: works, people, places and what connects them, and a passage about each of them.

Everything is true at once and fits in time: nobody is taught by somebody born later, nobody writes before the age of
twenty. Of all that is true of a thing its passage tells a few facts, and only those are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from turnwise.envs.keyed_random import KeyedRandom
from turnwise.envs.search.generator.level import SearchLevel
from turnwise.envs.search.generator.names import Namer
from turnwise.envs.search.generator.relations import (
    FILLERS,
    KINDS,
    LATER,
    SORTS,
    VALUES,
    Relation,
    relations_of,
)
from turnwise.tools.retrieval import Passage, Passages

__all__ = ["SPLITS", "Entity", "SearchWorld", "called", "world"]

SPLITS: Final = ("train", "held_out")
_WEIGHTS: Final[Mapping[str, float]] = {
    "work": 0.3,
    "person": 0.36,
    "place": 0.18,
    "region": 0.03,
    "event": 0.06,
    "company": 0.06,
    "school": 0.04,
}
_FIRST_YEAR, _YEARS = 1760, 190  # in which people are born


@dataclass(eq=False, slots=True)
class Entity:
    """Something that has a passage.

    Attributes:
        kind, name: what it is, what it is called.
        words: its noun, verb and role, where its kind has sorts.
        truth: by the name of each relation what it leads to: a thing, or a value.
        told: relations that its passage tells, in that order.
        id: of its passage.
    """

    kind: str
    name: str
    words: tuple[str, str, str]
    truth: dict[str, Entity | str] = field(default_factory=dict)
    told: tuple[Relation, ...] = ()
    id: str = ""

    def fill(self, text: str, s: str, o: str = "") -> str:
        """Return a sentence, phrase or question with its places filled."""
        kind, verb, role = self.words
        return text.format(s=s, o=o, kind=kind, verb=verb, role=role)


@dataclass(frozen=True, slots=True)
class SearchWorld:
    """Things, and their passages."""

    things: tuple[Entity, ...]
    corpus: Passages


def called(one: Entity | str) -> str:
    """Return how a thing or a value is called in a sentence."""
    if isinstance(one, str):
        return one
    return f"the {one.name}" if one.kind == "event" else one.name


@lru_cache(maxsize=64)
def _small(split: str, text: str, number: int) -> SearchWorld:
    return _make(split, text, number)


@lru_cache(maxsize=3)
def _big(split: str, text: str, number: int) -> SearchWorld:
    return _make(split, text, number)


def world(split: str, level: SearchLevel | str = "small", number: int = 0) -> SearchWorld:
    """Return a world: the same everywhere and for ever; the last few are kept.

    Args:
        split: "train" or "held_out"; no name of a thing is in worlds of both.
        level: size, or its text.
        number: which one, from 0 on.

    Raises:
        UnknownOption: the text is not a level.
    """
    level = SearchLevel.parse(level) if isinstance(level, str) else level
    return (_small if level.passages <= 500 else _big)(split, level.text, number)


def _make(split: str, text: str, number: int) -> SearchWorld:
    level = SearchLevel.parse(text)
    draw = KeyedRandom(f"search world {split}/{text}/{number}")
    things = _things(draw, level, split)
    relations = relations_of(level.kinds)
    by_kind = {kind: [one for one in things if one.kind == kind] for kind in KINDS}
    _connect(draw, relations, by_kind)
    for thing in things:
        told = draw.shuffled([one for one in relations[thing.kind] if one.name in thing.truth])
        thing.told = tuple(told[: draw.between(*level.facts)])
    order = draw.shuffled(range(len(things)))
    for place, index in enumerate(order):
        things[index].id = str(place)
    mentioned = _mentioned(draw, level, things)
    passages = [
        Passage(thing.id, f'"{thing.name}"', _write(draw, level, thing, mentioned.get(thing.id, [])))
        for thing in (things[index] for index in order)
    ]
    return SearchWorld(tuple(things), Passages.of(passages))


def _things(draw: KeyedRandom, level: SearchLevel, split: str) -> list[Entity]:
    namer = Namer(draw, split, level.names, level.alike)
    kinds = KINDS[: level.kinds]
    total = sum(_WEIGHTS[kind] for kind in kinds)
    counts = {kind: max(2, round(level.passages * _WEIGHTS[kind] / total)) for kind in kinds}
    counts["person"] += level.passages - sum(counts.values())
    made = []
    for kind in kinds:
        sorts = SORTS.get(kind, (("", "", ""),))
        # Small worlds have novels alone: one word less to learn.
        sorts = sorts[:1] if level.kinds == 3 else sorts
        for _ in range(counts[kind]):
            words = draw.pick(sorts)
            made.append(Entity(kind, namer.name(kind, words[0]), words))
    return made


def _connect(
    draw: KeyedRandom, relations: Mapping[str, tuple[Relation, ...]], by_kind: Mapping[str, list[Entity]]
) -> None:
    """Say what is true of each thing."""
    people = by_kind["person"]
    born = {id(one): _FIRST_YEAR + _YEARS * place // len(people) for place, one in enumerate(people)}
    for kind, things in by_kind.items():
        for place, thing in enumerate(things):
            for relation in relations.get(kind, ()):
                if relation.object in VALUES:
                    thing.truth[relation.name] = draw.pick(VALUES[relation.object])
                elif relation.name == "birth":
                    thing.truth["birth"] = str(born[id(thing)])
                elif relation.object == "year":
                    thing.truth[relation.name] = str(_year(draw, thing, born))
                elif relation.name == "teacher":
                    if place >= len(people) // 4:
                        thing.truth["teacher"] = draw.pick(people[max(0, place - len(people) // 4) : place])
                else:
                    thing.truth[relation.name] = draw.pick(by_kind[relation.object])


def _year(draw: KeyedRandom, thing: Entity, born: Mapping[int, int]) -> int:
    """Return the year of a work, when its author was grown up; of anything else some year."""
    author = thing.truth.get("author")
    return draw.between(1500, 1900) if author is None else born[id(author)] + draw.between(22, 60)


def _mentioned(draw: KeyedRandom, level: SearchLevel, things: list[Entity]) -> dict[str, list[tuple[Relation, Entity]]]:
    """Return for passages what is told in them of other things."""
    found: dict[str, list[tuple[Relation, Entity]]] = {}
    for thing in things:
        for relation in thing.told:
            other = thing.truth[relation.name]
            if isinstance(other, Entity) and relation.mentions and draw.chance(level.mentions):
                found.setdefault(other.id, []).append((relation, thing))
    return found


def _write(draw: KeyedRandom, level: SearchLevel, thing: Entity, mentioned: list[tuple[Relation, Entity]]) -> str:
    """Return the text of a passage."""
    tellings = [(draw.pick(one.says[: level.wordings]), called(thing.truth[one.name])) for one in thing.told]
    tellings += [(draw.pick(one.mentions), called(other)) for one, other in mentioned[:2]]
    if draw.chance(level.filler):
        tellings.append((draw.pick(FILLERS[thing.kind]), ""))
    said = []
    for place, (text, other) in enumerate(tellings):
        name = _later(draw.pick(LATER[thing.kind]), thing, text) if place else called(thing)
        sentence = thing.fill(text, name, other)
        said.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return " ".join(said)


def _later(name: str, thing: Entity, text: str) -> str:
    """Return how a thing is called in a later sentence; no noun twice ("the town is a town")."""
    name = name.format(kind=thing.words[0], last=thing.name.rpartition(" ")[2])
    noun = name.removeprefix("the ")
    return "it" if noun != name and (noun in text or "{kind}" in text) else name
