"""Levels of generated worlds and questions. The text of a level is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turncredit.envs.levels import BaseLevel, LevelSettings

__all__ = ["PRESETS", "SearchLevel"]

_DIALS: Final = LevelSettings(
    "the search world",
    counts={"passages": (12, 6000), "worlds": (1, 10**9), "kinds": (3, 7), "wordings": (1, 3), "names": (8, 99)},
    ranges={"hops": (1, 4), "facts": (1, 9)},
    shares=("alike", "mentions", "filler"),
)


@dataclass(frozen=True, slots=True)
class SearchLevel(BaseLevel):
    """Size of a generated world, and difficulty of the questions about it.

    passages: number of entities in the world; each has one passage.
    worlds: number of worlds; question n is about world n modulo `worlds`. All worlds use the same names in different
    roles,
        so that facts cannot be memorized.
    hops: minimum and maximum number of facts that a question chains.
    kinds: number of kinds of entities: 3 for works, people and towns; then regions, events, companies, schools.
    facts: minimum and maximum number of facts in a passage, if its kind has as many.
    wordings: number of wordings of a fact and of a question.
    names: how many parts of each type (first names, last names, ...) names are made of; 99 for all.
    alike: probability that a new name deliberately shares a part with an earlier one.
    mentions: probability that a fact is also stated in the passage of the entity that it leads to.
    filler: probability of a sentence without a fact.
    """

    settings = _DIALS

    passages: int = 300
    worlds: int = 1000
    hops: tuple[int, int] = (1, 3)
    kinds: int = 5
    facts: tuple[int, int] = (2, 3)
    wordings: int = 2
    names: int = 30
    alike: float = 0.2
    mentions: float = 0.2
    filler: float = 0.2


PRESETS: dict[str, SearchLevel] = {
    "tiny": SearchLevel(
        passages=40,
        worlds=1_000_000,
        hops=(1, 2),
        kinds=3,
        facts=(1, 1),
        wordings=1,
        names=12,
        alike=0.1,
        mentions=0.0,
        filler=0.0,
    ),
    "small": SearchLevel(),
    "medium": SearchLevel(
        passages=2000,
        worlds=20,
        hops=(1, 4),
        kinds=7,
        facts=(3, 4),
        wordings=3,
        names=99,
        alike=0.3,
        mentions=0.3,
        filler=0.4,
    ),
    "large": SearchLevel(
        passages=5000,
        worlds=1,
        hops=(2, 4),
        kinds=7,
        facts=(3, 5),
        wordings=3,
        names=99,
        alike=0.4,
        mentions=0.4,
        filler=0.6,
    ),
}
"""Levels by name. "tiny" suits small models that are trained from scratch."""

SearchLevel.presets = PRESETS
