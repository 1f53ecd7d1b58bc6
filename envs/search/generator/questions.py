"""Questions about a world: chains of facts that its passages state, worded as one question.

A task id is SPLIT/LEVEL/NUMBER, such as "held_out/small/000012".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.search.generator.level import SearchLevel
from turncredit.envs.search.generator.relations import Relation
from turncredit.envs.search.generator.world import SPLITS, Entity, SearchWorld, called, world
from turncredit.envs.search.questions import Question
from turncredit.registry import suggest
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["GeneratedQuestion", "Hop", "QuestionGenerator"]

_NUMBER: Final = re.compile(r"[0-9]{6,12}")
_DRAWN_FROM: Final = 10**6  # random questions have numbers below this
_TRIES: Final = 300


@dataclass(frozen=True, slots=True)
class Hop:
    """One fact: an entity, a relation, and the entity or value that it leads to."""

    entity: Entity
    relation: Relation
    leads_to: Entity | str


@dataclass(frozen=True, slots=True)
class GeneratedQuestion:
    """A question, the facts that answer it in order, and the world that it is about."""

    question: Question
    hops: tuple[Hop, ...]
    world: SearchWorld
    world_name: str


class QuestionGenerator:
    """The questions of one split and level, numbered from 0."""

    def __init__(self, split: str, level: SearchLevel | str = "small") -> None:
        """Choose a split and a level.

        Raises:
            UnknownOption: no such split or level.
        """
        if split not in SPLITS:
            raise UnknownOption(f"unknown split {split!r}{suggest(split, SPLITS)}")
        self.split = split
        self.level = SearchLevel.parse(level) if isinstance(level, str) else level
        self.prefix = f"{split}/{self.level.text}/"

    def ids(self, count: int | None = None) -> list[str]:
        """Return the first `count` ids, by default 1,000, without generating the questions."""
        return [f"{self.prefix}{number:06d}" for number in range(1000 if count is None else count)]

    def draw(self, rng: np.random.Generator) -> str:
        """Return the id of a random question among the first million, drawn with a numpy Generator."""
        return f"{self.prefix}{int(rng.integers(_DRAWN_FROM)):06d}"

    def get(self, id: str) -> GeneratedQuestion:
        """Return the question with an id.

        Raises:
            UnknownTask: the text is not an id of these questions.
        """
        number = id.removeprefix(self.prefix) if isinstance(id, str) else ""
        if id == number or not _NUMBER.fullmatch(number) or f"{int(number):06d}" != number:
            raise UnknownTask(f"unknown generated question {id!r}; ids look like {self.prefix + '000012'!r}")
        return _generate(self.split, self.level, id, int(number))


@lru_cache(maxsize=256)
def _generate(split: str, level: SearchLevel, id: str, number: int) -> GeneratedQuestion:
    index = number % level.worlds
    about = world(split, level, index)
    draw = KeyedRandom(f"search question {id}")
    hops = _hops(draw, about, draw.between(*level.hops))
    last = hops[-1].leads_to
    question = Question(
        id=id,
        text=_word(draw, level, hops),
        answers=(last if isinstance(last, str) else last.name,),
        gold=tuple(hop.entity.id for hop in hops),
        entities=tuple(hop.entity.name for hop in hops[1:]),
        kind=f"{len(hops)}-hop",
    )
    return GeneratedQuestion(question, hops, about, f"{split}/{level.text}/{index}")


def _hops(draw: KeyedRandom, about: SearchWorld, length: int) -> tuple[Hop, ...]:
    """Return a chain of facts that passages state; a shorter one if none of this length is found."""
    best: tuple[Hop, ...] = ()
    for _ in range(_TRIES):
        hops = _walk(draw, draw.pick(about.entities), length)
        if len(hops) == length:
            return hops
        best = max(best, hops, key=len)
    return best


def _walk(draw: KeyedRandom, entity: Entity, length: int) -> tuple[Hop, ...]:
    hops: list[Hop] = []
    seen = {entity.name}
    while len(hops) < length:
        last = len(hops) == length - 1
        ways = [
            candidate
            for candidate in entity.told
            if last or (candidate.phrases and isinstance(entity.truth[candidate.name], Entity))
        ]
        ways = [
            candidate for candidate in ways if called(entity.truth[candidate.name]).removeprefix("the ") not in seen
        ]
        if not ways:
            break
        relation = draw.pick(ways)
        reached = entity.truth[relation.name]
        hops.append(Hop(entity, relation, reached))
        if isinstance(reached, str):
            break
        entity = reached
        seen.add(entity.name)
    return tuple(hops)


def _word(draw: KeyedRandom, level: SearchLevel, hops: tuple[Hop, ...]) -> str:
    """Return the question: nested noun phrases inside a question for the last fact.

    At most one of two nested templates continues after its placeholder, since "the town where the town that ... is
    about was founded" is not English; the first phrase of every relation ends with its placeholder.
    """
    chosen: list[str] = []
    for index in range(len(hops) - 1, -1, -1):
        relation = hops[index].relation
        last = index == len(hops) - 1
        templates = (relation.asks if last else relation.phrases)[: level.wordings]
        tailed = any(not _ends(candidate) for candidate in chosen)
        fitting = [candidate for candidate in templates if not tailed or _ends(candidate)]
        chosen.append(draw.pick(fitting or templates[:1]))
    phrase = called(hops[0].entity)
    for hop, template in zip(hops, reversed(chosen), strict=True):
        phrase = hop.entity.fill(template, phrase)
    return phrase


def _ends(template: str) -> bool:
    return template.rstrip("?").endswith("{s}")
