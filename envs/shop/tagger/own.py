"""Our own small tagger: what is no noun by lists of words, endings and shape; everything else is one.

Made for titles of products, which are rows of nouns and names with little between them. Titles are mostly written with
capitals, and a word with a capital inside one reads as part of a name ("Soft Cotton Towel"), as taggers learned from
newspapers read it too. So a capital makes a noun of all but the words that only join others; of words in small letters,
adjectives, adverbs and participles are told by lists and endings. Where capitals say nothing (a title wholly in
capitals, the first word of a title in small letters), words are read as if in small letters.

Left out on purpose: context. A word has one reading, wherever it stands.
"""

from __future__ import annotations

from typing import Final

from turnwise.envs.shop.tagger.words import words

__all__ = ["OwnTagger"]

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
"""Articles, conjunctions, prepositions, pronouns and auxiliary verbs: no nouns, with a capital or without."""

_SMALL_WORDS: Final = """
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
_SMALL: Final = frozenset(_SMALL_WORDS.split())
"""Numerals, quantities, adverbs, common adjectives and verbs, and words that join and are nouns as well ("Can", "US"):
no nouns in small letters."""

_COMPOUNDS: Final = ("-free", "-based", "-friendly", "-resistant", "-like", "-ready", "-grade")
"""Ends of compounds that are adjectives, with a capital or without ("Gluten-Free", "Plant-Based")."""

_ENDINGS: Final = ("able", "ible", "ful", "less", "ous", "ive", "ical", "ish", "ly", "ed", "proof", "ier", "iest")
"""Endings of adjectives, adverbs and participles."""


class OwnTagger:
    """A tagger without data files."""

    name = "own"

    def nouns(self, title: str) -> list[str]:
        """Return the nouns of a title in small letters, in its order, repeated where they repeat.

        >>> OwnTagger().nouns("Soft Cotton Towels for Kids, 2-Pack, to wash")
        ['soft', 'cotton', 'towels', 'kids', 'wash']
        """
        found = words(title)
        named = _capitals_name(found)
        return [
            word.lower() for place, word in enumerate(found) if _is_noun(word, place > 0 if named is None else named)
        ]


def _capitals_name(found: list[str]) -> bool | None:
    """Return whether capitals make names: no in a title wholly of them; None: yes, but not in its first word.

    They do when most words have one that could go without.
    """
    spelled = [word for word in found if word[0].isalpha()]
    if spelled and all(word.isupper() for word in spelled):
        return False
    telling = [word[0].isupper() for word in spelled if word.lower() not in _JOINING]
    return True if 2 * sum(telling) > len(telling) else None


def _is_noun(word: str, capital_names: bool) -> bool:
    """Return whether a word is a noun.

    Args:
        word: as it stands.
        capital_names: whether a capital at its start says that it is part of a name.
    """
    small = word.lower()
    if not word[0].isalpha() or (len(word) == 1 and word == small) or small.endswith(_COMPOUNDS):
        return False
    if small in _JOINING and len(word) > 1:  # one capital is rather a size or a model than a word
        return False
    if any(letter.isdigit() for letter in word) or (capital_names and word[0].isupper()):
        return True
    return not (small in _SMALL or small.endswith(_ENDINGS) or "-" in word)
