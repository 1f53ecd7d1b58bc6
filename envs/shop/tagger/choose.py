"""Which tagger: what a tagger is, the names of ours, and how one is found.

The taggers do not agree on every title, and a reward can depend on it. "auto" takes what is there, so it may differ
from one machine to the next: name one ("own" is always there) where rewards are to be the same everywhere.

Left out on purpose: downloads. A tagger is used when it is there.
"""

from __future__ import annotations

from typing import Final, Protocol

from turnwise.envs.errors import UnknownOption
from turnwise.envs.shop.tagger.own import OwnTagger
from turnwise.envs.shop.tagger.spacy_tagger import MODEL, SpacyTagger
from turnwise.envs.shop.tagger.tables import find_tables, open_tables
from turnwise.registry import suggest

__all__ = ["TAGGERS", "Tagger", "find_tagger"]

TAGGERS: Final = ("auto", "spacy", "nltk", "own")
"""What `find_tagger` takes."""


class Tagger(Protocol):
    """What the reward needs of a part-of-speech tagger."""

    @property
    def name(self) -> str:
        """Name of the tagger, for reports."""

    def nouns(self, title: str) -> list[str]:
        """Return the common and proper nouns of a title in small letters, in its order, repeated where they repeat."""


def find_tagger(name: str = "auto") -> Tagger:
    """Return the tagger of that name.

    Args:
        name: "auto" (spaCy with its small model where both are installed, else NLTK's tables where they are, else our
            own), "spacy" or "spacy:MODEL", "nltk" or "nltk:PATH" (see `tables.open_tables`), "own".

    Raises:
        UnknownOption: there is no such name, or what it needs is not there.
        BadTables: the file with NLTK's tables holds something else.
    """
    kind, _, where = name.partition(":")
    if kind not in TAGGERS or (where and kind not in ("spacy", "nltk")):
        raise UnknownOption(f"unknown tagger {name!r}{suggest(kind, TAGGERS)}")
    if kind == "auto":
        return _found()
    if kind == "spacy":
        return SpacyTagger(where or MODEL)
    return _nltk(where) if kind == "nltk" else OwnTagger()


def _found() -> Tagger:
    try:
        return SpacyTagger()
    except UnknownOption:
        tables = find_tables()
    return open_tables(tables) if tables else OwnTagger()


def _nltk(where: str) -> Tagger:
    path = where or find_tables()
    if path is None:
        raise UnknownOption(
            'the tagger "nltk" needs the tables of NLTK\'s perceptron tagger, and no nltk_data folder holds them: '
            'give "nltk:PATH" with the folder or zip averaged_perceptron_tagger, or set NLTK_DATA'
        )
    return open_tables(path)
