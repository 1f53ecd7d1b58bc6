"""The nouns of a product's title, by one of three part-of-speech taggers."""

from __future__ import annotations

from turnwise.envs.shop.tagger.choose import TAGGERS, Tagger, find_tagger
from turnwise.envs.shop.tagger.own import OwnTagger
from turnwise.envs.shop.tagger.perceptron import PerceptronTagger
from turnwise.envs.shop.tagger.spacy_tagger import SpacyTagger
from turnwise.envs.shop.tagger.tables import BadTables, open_tables

__all__ = [
    "TAGGERS",
    "BadTables",
    "OwnTagger",
    "PerceptronTagger",
    "SpacyTagger",
    "Tagger",
    "find_tagger",
    "open_tables",
]
