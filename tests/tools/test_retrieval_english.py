"""The English analyzer: stems and words by hand, doctests, and Lucene's tokens of real texts."""

from __future__ import annotations

import doctest
import importlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shop_texts import contents

from turncredit.tools.retrieval import analyse
from turncredit.tools.retrieval.english import STOP_WORDS, term
from turncredit.tools.retrieval.porter import shape, stem

# The examples of Porter's paper, step by step, as they come out of all steps; then where Lucene differs from it.
STEMS = {
    **{"caresses": "caress", "ponies": "poni", "ties": "ti", "caress": "caress", "cats": "cat", "feed": "feed"},
    **{"agreed": "agre", "plastered": "plaster", "bled": "bled", "motoring": "motor", "sing": "sing"},
    **{"conflated": "conflat", "troubled": "troubl", "sized": "size", "hopping": "hop", "tanned": "tan"},
    **{"falling": "fall", "hissing": "hiss", "fizzed": "fizz", "failing": "fail", "filing": "file"},
    **{"happy": "happi", "sky": "sky", "relational": "relat", "conditional": "condit", "rational": "ration"},
    **{"valenci": "valenc", "hesitanci": "hesit", "digitizer": "digit", "conformabli": "conform", "radicalli": "radic"},
    **{"differentli": "differ", "vileli": "vile", "analogousli": "analog", "vietnamization": "vietnam"},
    **{"predication": "predic", "operator": "oper", "feudalism": "feudal", "decisiveness": "decis"},
    **{"hopefulness": "hope", "callousness": "callous", "formaliti": "formal", "sensitiviti": "sensit"},
    **{"sensibiliti": "sensibl", "triplicate": "triplic", "formative": "form", "formalize": "formal"},
    **{"electriciti": "electr", "electrical": "electr", "hopeful": "hope", "goodness": "good", "revival": "reviv"},
    **{"allowance": "allow", "inference": "infer", "airliner": "airlin", "gyroscopic": "gyroscop"},
    **{"adjustable": "adjust", "defensible": "defens", "irritant": "irrit", "replacement": "replac"},
    **{"adjustment": "adjust", "dependent": "depend", "adoption": "adopt", "homologou": "homolog"},
    **{"communism": "commun", "activate": "activ", "angulariti": "angular", "homologous": "homolog"},
    **{"effective": "effect", "bowdlerize": "bowdler", "probate": "probat", "rate": "rate", "cease": "ceas"},
    **{"controll": "control", "roll": "roll"},
    **{"technology": "technolog", "assembly": "assembl", "us": "us", "is": "is", "as": "as", "ion": "ion"},
    **{"aed": "a", "eed": "eed", "ies": "i", "sses": "ss", "yes": "ye", "s": "s", "": "", "naïvely": "naïv"},
    **{"4xs": "4x", "\U0001d41as": "\U0001d41a"},
}

WORDS = {
    "": [],
    "The AND of to": [],
    "Women's women\u2019s WOMEN\uff07S": ["women"] * 3,
    "boss's it's that's": ["boss"],
    "I'm us, we": ["i'm", "us", "we"],
    "\u0130stanbul \u03a3\u03a3": ["istanbul", "\u03c3\u03c3"],
    "Lego\u2122 1/4 \u2764\ufe0f": ["lego", "\u2122", "1", "4", "\u2764\ufe0f"],
    "snake_case CamelCase": ["snake_cas", "camelcas"],
}


@pytest.mark.parametrize("word", STEMS)
def test_stems_by_hand(word: str) -> None:
    assert stem(word) == STEMS[word]


@pytest.mark.parametrize("text", WORDS)
def test_words_by_hand(text: str) -> None:
    assert analyse(text) == WORDS[text]


def test_there_are_33_stop_words() -> None:
    assert len(STOP_WORDS) == 33
    assert {term(word) for word in STOP_WORDS} == {""}


@given(st.text(alphabet="aeiouybcdlsntz'é", min_size=3, max_size=12))
def test_a_stem_is_a_prefix_of_its_word(word: str) -> None:
    out = stem(word)
    assert 0 < len(out) <= len(word) + 1
    assert out[:-1] == word[: len(out) - 1] or out[:-2] == word[: len(out) - 2]
    assert set(shape(word)) <= {"c", "v"}


@given(st.text())
def test_any_text_has_words(text: str) -> None:
    for word in analyse(text):
        assert word
        assert word not in STOP_WORDS or word != term(word)


@pytest.mark.parametrize(
    "name", ["bm25", "character_classes", "english", "porter", "postings", "packed_strings", "tokens"]
)
def test_the_examples_in_the_modules(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"turncredit.tools.retrieval.{name}"))
    assert result.attempted > 0
    assert result.failed == 0


def golden(data_dir: Path) -> tuple[dict[str, list[dict[str, object]]], list[dict[str, object]]]:
    tokens = json.loads((data_dir / "webshop/golden_lucene_tokens_1k.json").read_text(encoding="utf-8"))
    items = json.loads((data_dir / "webshop/items_shuffle_1000.reconstructed.json").read_text(encoding="utf-8"))
    return tokens, items


def test_words_of_every_product_match_lucene(data_dir: Path) -> None:
    tokens, items = golden(data_dir)
    texts = {item["asin"]: contents(item) for item in items}
    assert len(tokens["docs"]) == len(texts) == 1000
    assert [one["id"] for one in tokens["docs"] if analyse(texts[one["id"]]) != one["tokens"]] == []


def test_words_of_every_query_match_lucene(data_dir: Path) -> None:
    tokens, _ = golden(data_dir)
    assert len(tokens["queries"]) == 394
    assert [one["query"] for one in tokens["queries"] if analyse(one["query"]) != one["tokens"]] == []  # type: ignore[arg-type]
