"""The tagger that the recorded episodes were made with: an averaged perceptron with the tables that NLTK publishes.

Source: Collins 2002, Discriminative Training Methods for Hidden Markov Models; the features are those of NLTK's tables.
"""

from __future__ import annotations

import io
import pickle
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from turncredit.envs.shop.tagger import words


class _TablesUnpickler(pickle.Unpickler):
    """Reads lists, dictionaries, numbers, texts and sets."""

    def find_class(self, module: str, name: str) -> Any:
        assert (module, name) in (("builtins", "set"), ("__builtin__", "set"))
        return set


class NltkTagger:
    """A tagger of titles, as `tagger=` accepts it."""

    name = "nltk"

    def __init__(self, weights: dict[str, dict[str, float]], known: dict[str, str], tags: set[str]) -> None:
        self.weights, self.known, self.tags = weights, known, tags

    def nouns(self, title: str) -> list[str]:
        found = words(title)
        nouns = ("NN", "NNS", "NNP", "NNPS")
        return [word.lower() for word, tag in zip(found, self.tag(found), strict=True) if tag in nouns]

    def tag(self, sentence: list[str]) -> list[str]:
        shapes = ["-START-", "-START2-", *map(_shape, sentence), "-END-", "-END2-"]
        one, two = "-START-", "-START2-"
        found = []
        for place, word in enumerate(sentence):
            tag = self.known.get(word) or self.best(_features(word, shapes[place : place + 5], one, two))
            found.append(tag)
            one, two = tag, one
        return found

    def best(self, features: list[str]) -> str:
        scores = dict.fromkeys(self.tags, 0.0)
        for feature in features:
            for tag, weight in self.weights.get(feature, {}).items():
                scores[tag] += weight
        return max(scores, key=lambda tag: (scores[tag], tag))


def _shape(word: str) -> str:
    if "-" in word[1:] and word[0] != "-":
        return "!HYPHEN"
    if word.isdigit() and len(word) == 4:
        return "!YEAR"
    return "!DIGITS" if word[:1].isdigit() else word.lower()


def _features(word: str, around: list[str], one: str, two: str) -> list[str]:
    before2, before, shape, after, after2 = around
    own = ["bias", f"i suffix {word[-3:]}", f"i pref1 {word[:1]}", f"i word {shape}"]
    tags = [f"i-1 tag {one}", f"i-2 tag {two}", f"i tag+i-2 tag {one} {two}", f"i-1 tag+i word {one} {shape}"]
    left = [f"i-1 word {before}", f"i-1 suffix {before[-3:]}", f"i-2 word {before2}"]
    return own + tags + left + [f"i+1 word {after}", f"i+1 suffix {after[-3:]}", f"i+2 word {after2}"]


@cache
def nltk_tagger(folder: Path) -> NltkTagger:
    """The tagger with the tables in a folder of test data."""
    with zipfile.ZipFile(folder / "nltk_averaged_perceptron_tagger.zip") as packed:
        name = next(name for name in packed.namelist() if name.endswith(".pickle"))
        return NltkTagger(*_TablesUnpickler(io.BytesIO(packed.read(name))).load())
