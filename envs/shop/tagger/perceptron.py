"""An averaged perceptron that tags words from left to right, by tables that were learned elsewhere.

Each word has a handful of features (itself, its ending, its neighbours, the two tags before it); a table gives each
feature a weight for each tag; the tag with the largest sum is taken, and is a feature of the words after it. Left out
on purpose: learning.

Source: Collins 2002, Discriminative Training Methods for Hidden Markov Models; the features are those of Honnibal 2013,
A Good Part-of-Speech Tagger in about 200 Lines of Python, which NLTK's tables were learned with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from turnwise.envs.shop.tagger.words import words

__all__ = ["NOUNS", "PerceptronTagger", "Tables"]

NOUNS: Final = frozenset({"NN", "NNS", "NNP", "NNPS"})
"""Tags of the Penn Treebank for common and proper nouns, singular and plural."""

_BEFORE: Final = ("-START-", "-START2-")
_AFTER: Final = ("-END-", "-END2-")


@dataclass(frozen=True, slots=True)
class Tables:
    """What was learned.

    Attributes:
        weights: for each feature, the weights of the tags.
        known: the tag of words that have hardly ever another one.
        tags: all tags.
    """

    weights: Mapping[str, Mapping[str, float]]
    known: Mapping[str, str]
    tags: frozenset[str]


class PerceptronTagger:
    """The tagger that tables make."""

    name = "nltk"

    def __init__(self, tables: Tables) -> None:
        """Keep the tables."""
        self._tables = tables

    def nouns(self, title: str) -> list[str]:
        """Return the nouns of a title in small letters, in its order, repeated where they repeat."""
        found = words(title)
        return [word.lower() for word, tag in zip(found, self.tag(found), strict=True) if tag in NOUNS]

    def tag(self, sentence: Sequence[str]) -> list[str]:
        """Return the tag of each word, in the names of the Penn Treebank."""
        context = [*_BEFORE, *(_shape(word) for word in sentence), *_AFTER]
        one, two = _BEFORE
        tags = []
        for place, word in enumerate(sentence):
            tag = self._tables.known.get(word) or self._best(_features(word, context[place : place + 5], one, two))
            tags.append(tag)
            one, two = tag, one
        return tags

    def _best(self, features: Iterator[str]) -> str:
        """Return the tag with the largest sum of weights; the last in the alphabet among equals."""
        scores = dict.fromkeys(self._tables.tags, 0.0)
        for feature in features:
            for tag, weight in self._tables.weights.get(feature, {}).items():
                scores[tag] = scores.get(tag, 0.0) + weight
        return max(scores, key=lambda tag: (scores[tag], tag))


def _shape(word: str) -> str:
    """Return the word as the tables know it: in small letters, or what kind of number or compound it is."""
    if "-" in word[1:] and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    return "!DIGITS" if word[:1].isdigit() else word.lower()


def _features(word: str, around: Sequence[str], one: str, two: str) -> Iterator[str]:
    """Yield the features of a word.

    Args:
        word: as it stands.
        around: shapes of the two words before it, of itself, and of the two after it.
        one, two: tags of the word before it, and of the one before that.
    """
    before2, before, shape, after, after2 = around
    yield "bias"
    yield f"i suffix {word[-3:]}"
    yield f"i pref1 {word[:1]}"
    yield f"i-1 tag {one}"
    yield f"i-2 tag {two}"
    yield f"i tag+i-2 tag {one} {two}"
    yield f"i word {shape}"
    yield f"i-1 tag+i word {one} {shape}"
    yield f"i-1 word {before}"
    yield f"i-1 suffix {before[-3:]}"
    yield f"i-2 word {before2}"
    yield f"i+1 word {after}"
    yield f"i+1 suffix {after[-3:]}"
    yield f"i+2 word {after2}"
