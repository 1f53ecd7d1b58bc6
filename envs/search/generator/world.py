"""A generated world: works, people and places, relations between them, and a passage about each.

All facts are consistent, also in time: nobody has a younger teacher, and nobody writes before the age of twenty. The
passage of an entity states some of its facts, and questions only ask for stated facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from turncredit.envs.search.generator.level import SearchLevel
from turncredit.envs.search.generator.names import Namer
from turncredit.envs.search.generator.relations import (
    FILLERS,
    KINDS,
    LATER,
    SORTS,
    VALUES,
    Relation,
    relations_of,
)
from turncredit.tools.keyed_random import KeyedRandom
from turncredit.tools.retrieval import Passage, Passages

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
_FIRST_YEAR, _YEARS = 1760, 190  # years of birth


@dataclass(eq=False, slots=True)
class Entity:
    """An entity with a passage.

    Attributes:
        kind, name: its kind and its name.
        words: its noun, verb and role, if its kind has sorts.
        truth: relation name -> the entity or value that it leads to.
        told: relations that its passage states, in order.
        id: id of its passage.
    """

    kind: str
    name: str
    words: tuple[str, str, str]
    truth: dict[str, Entity | str] = field(default_factory=dict)
    told: tuple[Relation, ...] = ()
    id: str = ""

    def fill(self, text: str, s: str, o: str = "") -> str:
        """Return a sentence, phrase or question with its placeholders filled."""
        kind, verb, role = self.words
        return text.format(s=s, o=o, kind=kind, verb=verb, role=role)


@dataclass(frozen=True, slots=True)
class SearchWorld:
    """Entities and the corpus of their passages."""

    entities: tuple[Entity, ...]
    corpus: Passages


def called(entity: Entity | str) -> str:
    """Return the name of an entity or value in a sentence."""
    if isinstance(entity, str):
        return entity
    return f"the {entity.name}" if entity.kind == "event" else entity.name


@lru_cache(maxsize=64)
def _small(split: str, text: str, number: int) -> SearchWorld:
    return _make(split, text, number)


@lru_cache(maxsize=3)
def _big(split: str, text: str, number: int) -> SearchWorld:
    return _make(split, text, number)


def world(split: str, level: SearchLevel | str = "small", number: int = 0) -> SearchWorld:
    """Return a world, which is the same on every machine; the most recent ones are cached.

    Args:
        split: "train" or "held_out"; their worlds share no name of an entity.
        level: size, or its text.
        number: number of the world, starting at 0.

    Raises:
        UnknownOption: the text is not a level.
    """
    level = SearchLevel.parse(level) if isinstance(level, str) else level
    return (_small if level.passages <= 500 else _big)(split, level.text, number)


def _make(split: str, text: str, number: int) -> SearchWorld:
    level = SearchLevel.parse(text)
    draw = KeyedRandom(f"search world {split}/{text}/{number}")
    entities = _things(draw, level, split)
    relations = relations_of(level.kinds)
    by_kind = {kind: [member for member in entities if member.kind == kind] for kind in KINDS}
    _connect(draw, relations, by_kind)
    for entity in entities:
        told = draw.shuffled([relation for relation in relations[entity.kind] if relation.name in entity.truth])
        entity.told = tuple(told[: draw.between(*level.facts)])
    order = draw.shuffled(range(len(entities)))
    for position, index in enumerate(order):
        entities[index].id = str(position)
    mentioned = _mentioned(draw, level, entities)
    passages = [
        Passage(entity.id, f'"{entity.name}"', _write(draw, level, entity, mentioned.get(entity.id, [])))
        for entity in (entities[index] for index in order)
    ]
    return SearchWorld(tuple(entities), Passages.of(passages))


def _things(draw: KeyedRandom, level: SearchLevel, split: str) -> list[Entity]:
    namer = Namer(draw, split, level.names, level.alike)
    kinds = KINDS[: level.kinds]
    total = sum(_WEIGHTS[kind] for kind in kinds)
    counts = {kind: max(2, round(level.passages * _WEIGHTS[kind] / total)) for kind in kinds}
    counts["person"] += level.passages - sum(counts.values())
    made = []
    for kind in kinds:
        sorts = SORTS.get(kind, (("", "", ""),))
        # The smallest worlds only have novels, which is one word less to learn.
        sorts = sorts[:1] if level.kinds == 3 else sorts
        for _ in range(counts[kind]):
            words = draw.pick(sorts)
            made.append(Entity(kind, namer.name(kind, words[0]), words))
    return made


def _connect(
    draw: KeyedRandom, relations: Mapping[str, tuple[Relation, ...]], by_kind: Mapping[str, list[Entity]]
) -> None:
    """Set the facts about each entity."""
    people = by_kind["person"]
    born = {id(person): _FIRST_YEAR + _YEARS * rank // len(people) for rank, person in enumerate(people)}
    for kind, entities in by_kind.items():
        for rank, entity in enumerate(entities):
            for relation in relations.get(kind, ()):
                if relation.object in VALUES:
                    entity.truth[relation.name] = draw.pick(VALUES[relation.object])
                elif relation.name == "birth":
                    entity.truth["birth"] = str(born[id(entity)])
                elif relation.object == "year":
                    entity.truth[relation.name] = str(_year(draw, entity, born))
                elif relation.name == "teacher":
                    if rank >= len(people) // 4:
                        entity.truth["teacher"] = draw.pick(people[max(0, rank - len(people) // 4) : rank])
                else:
                    entity.truth[relation.name] = draw.pick(by_kind[relation.object])


def _year(draw: KeyedRandom, entity: Entity, born: Mapping[int, int]) -> int:
    """Return a random year; a work appears when its author is grown up."""
    author = entity.truth.get("author")
    return draw.between(1500, 1900) if author is None else born[id(author)] + draw.between(22, 60)


def _mentioned(
    draw: KeyedRandom, level: SearchLevel, entities: list[Entity]
) -> dict[str, list[tuple[Relation, Entity]]]:
    """Return which facts about other entities each passage mentions."""
    mentions: dict[str, list[tuple[Relation, Entity]]] = {}
    for entity in entities:
        for relation in entity.told:
            other = entity.truth[relation.name]
            if isinstance(other, Entity) and relation.mentions and draw.chance(level.mentions):
                mentions.setdefault(other.id, []).append((relation, entity))
    return mentions


def _write(draw: KeyedRandom, level: SearchLevel, entity: Entity, mentioned: list[tuple[Relation, Entity]]) -> str:
    """Return the text of a passage."""
    tellings = [
        (draw.pick(relation.says[: level.wordings]), called(entity.truth[relation.name])) for relation in entity.told
    ]
    tellings += [(draw.pick(relation.mentions), called(other)) for relation, other in mentioned[:2]]
    if draw.chance(level.filler):
        tellings.append((draw.pick(FILLERS[entity.kind]), ""))
    sentences = []
    for position, (text, other) in enumerate(tellings):
        name = _later(draw.pick(LATER[entity.kind]), entity, text) if position else called(entity)
        sentence = entity.fill(text, name, other)
        sentences.append(f"{sentence[0].upper()}{sentence[1:]}.")
    return " ".join(sentences)


def _later(name: str, entity: Entity, text: str) -> str:
    """Return the name of an entity in a later sentence, without repeating a noun ("the town is a town")."""
    name = name.format(kind=entity.words[0], last=entity.name.rpartition(" ")[2])
    noun = name.removeprefix("the ")
    return "it" if noun != name and (noun in text or "{kind}" in text) else name
