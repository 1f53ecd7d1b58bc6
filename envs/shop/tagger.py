"""Part-of-speech taggers: which words of a product's title are nouns.

"own" is always available and the same everywhere. "spacy" is WebShop's tagger, where spaCy and a model are installed.
"auto" takes spaCy if it is available, so rewards may then differ between machines; name a tagger where they must not.
Any object with a `name` and a method `nouns` is accepted as well. No model is downloaded.
"""

from __future__ import annotations

import re
from typing import Any, Final, Protocol

from turncredit.envs.errors import UnknownOption
from turncredit.registry import suggest

__all__ = ["MODEL", "TAGGERS", "OwnTagger", "SpacyTagger", "Tagger", "find_tagger", "words"]

TAGGERS: Final = ("auto", "spacy", "own")
"""The names that `find_tagger` accepts."""
MODEL: Final = "en_core_web_sm"
"""The spaCy model that WebShop uses."""

_WORD: Final = re.compile(r"[\w'-]+|[^\w\s]")
_SPACY_NOUNS: Final = frozenset({"NOUN", "PROPN"})

_JOINING_WORDS: Final = """
    a an the this that these those
    and or nor but
    at by for from in into of on onto per to with within without via
    about above across after against along among around as before behind below beneath beside besides between beyond
    during except inside near outside over since than through throughout toward towards under underneath until upon
    if unless while although because though whether
    i you he she it we they me him her them my your his its our their yours ours theirs
    who whom whose which what when where why how
    is are was were be been being am do does did has have had could shall should would
    not
"""
_JOINING: Final = frozenset(_JOINING_WORDS.split())
"""Articles, conjunctions, prepositions, pronouns and auxiliary verbs: never nouns, capitalised or not."""

_LOWER_CASE_WORDS: Final = """
    all any both each every few many more most much no none other same several some such only own
    one two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred dozen first second third
    up down off out away back again also always ever even here there just now never not often once so still then too
    very yet well together apart ahead anywhere everywhere easily extra plus ultra super
    good better best great new old big small large little long short tall high low wide narrow thick thin deep flat
    heavy hard soft hot warm cool cold dry wet clean clear fresh free full empty fast quick slow quiet loud smooth rough
    sharp strong tough light bright dark rich pure raw real true safe easy simple smart fine nice cute cozy comfy pretty
    sexy cheap red blue green black white gray grey brown yellow purple pink beige ivory round square double single dual
    triple mini front rear left right upper lower inner outer top bottom main various different perfect ideal suitable
    compatible modern vintage classic elegant
    us mine like can will may might must
    fit fits make makes made keep keeps come comes get give gives let lets take use used see go goes add adds help helps
"""
_LOWER_CASE: Final = frozenset(_LOWER_CASE_WORDS.split())
"""Numerals, quantities, adverbs, common adjectives and verbs, and words that can also be nouns ("Can", "US"): no nouns
in lower case."""

_COMPOUNDS: Final = ("-free", "-based", "-friendly", "-resistant", "-like", "-ready", "-grade")
"""Endings of compound adjectives, capitalised or not ("Gluten-Free", "Plant-Based")."""

_ENDINGS: Final = ("able", "ible", "ful", "less", "ous", "ive", "ical", "ish", "ly", "ed", "proof", "ier", "iest")
"""Endings of adjectives, adverbs and participles."""


class Tagger(Protocol):
    """What the reward needs of a part-of-speech tagger."""

    @property
    def name(self) -> str:
        """Name of the tagger, for reports."""

    def nouns(self, title: str) -> list[str]:
        """Return the common and proper nouns of a title in lower case and in order, repeated where they repeat."""


def find_tagger(name: str = "auto") -> Tagger:
    """Return the tagger of a name.

    Args:
        name: "auto" (spaCy with its small model where both are installed, else "own"), "spacy", "spacy:MODEL", "own".

    Raises:
        UnknownOption: there is no such tagger, or spaCy or its model is not installed.
    """
    kind, _, model = name.partition(":")
    if kind not in TAGGERS or (model and kind != "spacy"):
        raise UnknownOption(f"unknown tagger {name!r}{suggest(kind, TAGGERS)}")
    if kind == "own":
        return OwnTagger()
    try:
        return SpacyTagger(model or MODEL)
    except UnknownOption:
        if kind == "spacy":
            raise
        return OwnTagger()


def words(title: str) -> list[str]:
    """Return the words of a title, including hyphens and apostrophes in them, and its other signs one by one.

    >>> words("Men's T-Shirt, 2-Pack (Navy)")
    ["Men's", 'T-Shirt', ',', '2-Pack', '(', 'Navy', ')']
    """
    return _WORD.findall(title)


class SpacyTagger:
    """spaCy's tagger, without the parts of its pipeline that no tag depends on."""

    name = "spacy"

    def __init__(self, model: str = MODEL) -> None:
        """Load a model.

        Args:
            model: name of an installed model, or the path of one.

        Raises:
            UnknownOption: spaCy or the model is not installed.
        """
        try:
            import spacy
        except ImportError:
            raise UnknownOption('the tagger "spacy" needs spaCy: pip install spacy') from None
        try:
            self._pipeline: Any = spacy.load(model, exclude=["ner", "lemmatizer"])
        except OSError:
            raise UnknownOption(f"spaCy has no model {model!r}: python -m spacy download {model}") from None

    def nouns(self, title: str) -> list[str]:
        """Return the nouns of a title in lower case and in order, repeated where they repeat."""
        return [token.text.lower() for token in self._pipeline(title) if token.pos_ in _SPACY_NOUNS]


class OwnTagger:
    """A tagger that needs no data files: everything is a noun that no word list, ending or shape excludes.

    It is made for titles of products, which are rows of nouns and names. A capital inside a title marks part of a name
    ("Soft Cotton Towel"), so a capitalised word is a noun unless it only joins others; in lower case, lists and endings
    exclude adjectives, adverbs and participles. Where capitals carry no information (a title entirely in capitals, the
    first word of a title in lower case), words are read as if in lower case. A word has one reading in every context.
    """

    name = "own"

    def nouns(self, title: str) -> list[str]:
        """Return the nouns of a title in lower case and in order, repeated where they repeat.

        >>> OwnTagger().nouns("Soft Cotton Towels for Kids, 2-Pack, to wash")
        ['soft', 'cotton', 'towels', 'kids', 'wash']
        """
        title_words = words(title)
        named = _capitals_name(title_words)
        return [
            word.lower()
            for index, word in enumerate(title_words)
            if _is_noun(word, index > 0 if named is None else named)
        ]


def _capitals_name(title_words: list[str]) -> bool | None:
    """Return whether a capital marks a name: False in a title of capitals only; None: except in the first word.

    It does where most words are capitalised that need not be.
    """
    spelled = [word for word in title_words if word[0].isalpha()]
    if spelled and all(word.isupper() for word in spelled):
        return False
    telling = [word[0].isupper() for word in spelled if word.lower() not in _JOINING]
    return True if 2 * sum(telling) > len(telling) else None


def _is_noun(word: str, capital_names: bool) -> bool:
    """Return whether a word is a noun.

    Args:
        word: as written.
        capital_names: whether a capital first letter marks part of a name.
    """
    small = word.lower()
    if not word[0].isalpha() or (len(word) == 1 and word == small) or small.endswith(_COMPOUNDS):
        return False
    if small in _JOINING and len(word) > 1:  # a single capital is more likely a size or a model than a word
        return False
    if any(letter.isdigit() for letter in word) or (capital_names and word[0].isupper()):
        return True
    return not (small in _LOWER_CASE or small.endswith(_ENDINGS) or "-" in word)
