"""The taggers: the own one by hand, which one is selected, and errors."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.reward import RewardFunction
from turncredit.envs.shop.tagger import OwnTagger, find_tagger, words


def test_words_by_hand() -> None:
    assert words("Men's T-Shirt, 2-Pack (Navy)") == ["Men's", "T-Shirt", ",", "2-Pack", "(", "Navy", ")"]
    assert words('32" TV|4K™ ') == ["32", '"', "TV", "|", "4K", "™"]
    assert words("   ") == []


@pytest.mark.parametrize(
    ("title", "nouns"),
    [
        ("Soft Cotton Towels for Kids, 2-Pack", "soft cotton towels kids"),  # a capital makes a name
        ("Soft cotton towels for kids", "cotton towels kids"),  # but not in the first word of a sentence
        ("Cotton towels", "cotton towels"),
        ("SOFT COTTON TOWEL WITH STRIPES", "cotton towel stripes"),  # nor where there is nothing else
        ("soft washable cotton towel", "cotton towel"),
        ("Lamp For The Garden", "lamp garden"),
        ("USB-C Cable, 3 Feet (Black)", "usb-c cable feet black"),
        ("Gluten-Free Oats | 12 oz", "oats oz"),
        ("hand-made, sugar-free sweets", "sweets"),
        ("SM2258XT SSD 512GB x 2", "sm2258xt ssd"),
        ("Size M Shirt, Shirt", "size m shirt shirt"),
        ("Crème for a Café", "crème café"),
        ("for the of with", ""),
        ("100% 24/7 !!!", ""),
        ("", ""),
    ],
)
def test_our_own_nouns_by_hand(title: str, nouns: str) -> None:
    assert OwnTagger().nouns(title) == nouns.split()


@given(st.text(max_size=60))
def test_nouns_are_words_of_the_title_in_its_order(title: str) -> None:
    rest = iter(word.lower() for word in words(title))
    assert all(noun in rest for noun in OwnTagger().nouns(title))


def test_a_missing_tagger_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert RewardFunction().tagger_name == find_tagger().name == find_tagger("own").name == "own"
    with pytest.raises(UnknownOption, match='the tagger "spacy" needs spaCy: pip install spacy'):
        find_tagger("spacy")
    with pytest.raises(UnknownOption, match=r"unknown tagger 'own:x'; did you mean 'own'\?"):
        find_tagger("own:x")


def test_spacy_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(model: str, exclude: list[str]) -> Any:
        if model != installed:
            raise OSError(model)
        tags = {"Red": "ADJ", "Hat": "NOUN", "Acme": "PROPN"}
        return lambda title: [types.SimpleNamespace(text=word, pos_=tags.get(word, "X")) for word in title.split()]

    installed = "en_core_web_sm"
    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    assert find_tagger("auto").name == "spacy"
    assert find_tagger("spacy").nouns("Red Acme Hat !") == ["acme", "hat"]
    with pytest.raises(UnknownOption, match="python -m spacy download en_core_web_lg"):
        find_tagger("spacy:en_core_web_lg")
    installed = "en_core_web_lg"
    assert find_tagger("spacy:en_core_web_lg").name == "spacy"
    assert find_tagger("auto").name == "own"  # spaCy without its small model
