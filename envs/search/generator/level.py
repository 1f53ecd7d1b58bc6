"""The dials of the generator: how big a world is, how hard its questions are. Their text is part of every task id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from turnwise.envs.levels import BaseLevel, LevelSettings

__all__ = ["PRESETS", "SearchLevel"]

_DIALS: Final = LevelSettings(
    "the search world",
    counts={"passages": (12, 6000), "worlds": (1, 10**9), "kinds": (3, 7), "wordings": (1, 3), "names": (8, 99)},
    ranges={"hops": (1, 4), "facts": (1, 9)},
    shares=("alike", "mentions", "filler"),
)


@dataclass(frozen=True, slots=True)
class SearchLevel(BaseLevel):
    """How big a generated world is, and how hard the questions are that are asked about it.

    passages: how many things the world holds; each has one passage.
    worlds: how many worlds there are: question n is asked about world n modulo `worlds`, each with the same names dealt
        anew, so that only reading helps.
    hops: least and most facts that a question needs one after the other.
    kinds: kinds of things: 3 works, people and towns; 4 regions as well; then events, companies, schools.
    facts: least and most facts in a passage, as far as its kind has so many.
    wordings: how many ways there are to say a fact, and to ask for it.
    names: how many parts of each sort names are made of (first names, last names, ...); 99 for all there are.
    alike: probability that a new name shares a part with an older one on purpose.
    mentions: probability that a fact is told a second time, in the passage of the thing that it leads to.
    filler: probability of a sentence beside the matter.
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
"""Sizes by name. "tiny" is for models that learn to read on it."""

SearchLevel.presets = PRESETS
