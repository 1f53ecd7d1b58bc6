"""The taggers: our own by hand, the perceptron by hand and on NLTK's tables, what is refused, which one is taken."""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import types
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.envs.errors import EnvError, UnknownOption
from turnwise.envs.shop.catalogue import Catalogue
from turnwise.envs.shop.reward import Judge
from turnwise.envs.shop.tagger import (
    BadTables,
    OwnTagger,
    PerceptronTagger,
    SpacyTagger,
    choose,
    find_tagger,
    open_tables,
)
from turnwise.envs.shop.tagger import tables as tables_module
from turnwise.envs.shop.tagger.perceptron import Tables
from turnwise.envs.shop.tagger.tables import find_tables
from turnwise.envs.shop.tagger.words import words

# -- words and our own tagger -----------------------------------------------------------------------------------------


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


def tiny() -> PerceptronTagger:
    """Tables with a handful of weights."""
    return PerceptronTagger(
        Tables(
            weights={
                "bias": {"NN": 1.0, "JJ": 0.5},
                "i word red": {"JJ": 1.0},
                "i suffix ing": {"VBG": 3.0},
                "i-1 tag+i word VBG paint": {"VB": 2.0},
                "i word !DIGITS": {"CD": 9.0},
                "i word !YEAR": {"YEAR": 9.0},
                "i word !HYPHEN": {"HYPHEN": 9.0},
                "i+1 word -END-": {"NNS": 0.25, "NN": 0.25},
                "i-2 word tie": {"NN": -1.0, "JJ": 0.0, "VB": 0.5},
            },
            known={"The": "DT", "the": "DT"},
            tags=frozenset({"NN", "JJ", "VBG", "VB", "CD", "YEAR", "HYPHEN", "DT", "NNS"}),
        )
    )


@pytest.mark.parametrize(
    ("sentence", "tags"),
    [
        ("The red paint", "DT JJ NN"),  # 1.5 against 1
        ("drying paint", "VBG VB"),  # the tag before is a feature
        ("drying Paint", "VBG VB"),  # in small letters
        ("paint 12oz 1999 tie-dye -x", "NN CD YEAR HYPHEN NN"),
        ("tie a b", "NN NN VB"),  # VB 0.5, JJ 0.5, NN 0.25: the last in the alphabet of the best
        ("", ""),
    ],
)
def test_tags_by_hand(sentence: str, tags: str) -> None:
    assert tiny().tag(sentence.split()) == tags.split()


def test_nouns_are_common_and_proper_ones() -> None:
    tables = Tables({}, {"A": "NN", "B": "NNS", "C": "NNP", "D": "NNPS", "E": "PRP", "F": "JJ"}, frozenset({"X"}))
    assert PerceptronTagger(tables).nouns("A B C D E F A") == ["a", "b", "c", "d", "a"]


@given(st.sampled_from([OwnTagger(), tiny()]), st.text(max_size=60))
def test_nouns_are_words_of_the_title_in_its_order(tagger: Any, title: str) -> None:
    rest = iter(word.lower() for word in words(title))
    assert all(noun in rest for noun in tagger.nouns(title))


# -- tables -----------------------------------------------------------------------------------------------------------

SOUND = ({"bias": {"NN": 1.0}}, {"red": "JJ"}, {"NN", "JJ"})
NAME = "averaged_perceptron_tagger"


def as_pickle(path: Path) -> Path:
    path.write_bytes(pickle.dumps(SOUND, protocol=2))
    return path


def as_folder(folder: Path) -> Path:
    folder.mkdir(parents=True)
    as_pickle(folder / f"{NAME}.pickle")
    return folder


def as_json(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for part, value in zip(("weights", "tagdict", "classes"), (*SOUND[:2], sorted(SOUND[2])), strict=True):
        (folder / f"{NAME}_eng.{part}.json").write_text(json.dumps(value), encoding="utf-8")
    return folder


def as_zip(path: Path, folder: Path) -> Path:
    with zipfile.ZipFile(path, "w") as packed:
        packed.mkdir(folder.name)
        for file in folder.iterdir():
            packed.write(file, f"{folder.name}/{file.name}")
    return path


def test_tables_come_in_several_forms(tmp_path: Path) -> None:
    data = tmp_path / "nltk_data"
    places = [
        as_pickle(tmp_path / "some.pickle"),
        as_folder(tmp_path / NAME),
        as_json(tmp_path / f"{NAME}_eng"),
        as_zip(tmp_path / "a.zip", tmp_path / NAME),
        as_zip(tmp_path / "b.zip", tmp_path / f"{NAME}_eng"),
        as_folder(data / "taggers" / NAME).parent.parent,
    ]
    for place in places:
        tagger = open_tables(place)
        assert tagger.tag(["red", "hat"]) == ["JJ", "NN"]
        assert tagger.name == "nltk"
        assert open_tables(str(place)) is tagger


class Harm:
    """What a hostile pickle would call."""

    def __init__(self, call: Any, *arguments: Any) -> None:
        self.made = call, arguments

    def __reduce__(self) -> Any:
        return self.made


@pytest.mark.parametrize("call", [print, eval, getattr, io.StringIO, Path])
def test_a_pickle_may_call_nothing(tmp_path: Path, call: Any) -> None:
    path = tmp_path / "harm.pickle"
    path.write_bytes(pickle.dumps(({"bias": Harm(call, "1")}, {}, {"NN"})))
    with pytest.raises(BadTables, match="tables are made of plain values"):
        open_tables(path)


@pytest.mark.parametrize(
    "value",
    [
        (),
        ({}, {}, set()),
        ({"bias": 1.0}, {}, {"NN"}),
        ({"bias": {"NN": "1"}}, {}, {"NN"}),
        ({}, {"red": 3}, {"NN"}),
        ({}, {}, {4}),
        "text",
        None,
        [1, 2, 3],
    ],
)
def test_pickles_that_hold_something_else(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "other.pickle"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(BadTables):
        open_tables(path)


def test_broken_files_are_said_to_be_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadTables, match="there is no such file or folder"):
        open_tables(tmp_path / "nothing")
    whole = as_pickle(tmp_path / "whole.pickle").read_bytes()
    (tmp_path / "torn.pickle").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BadTables, match=r"torn\.pickle should hold the tables of NLTK's perceptron tagger; reading it"):
        open_tables(tmp_path / "torn.pickle")
    with pytest.raises(BadTables, match=f"should hold {NAME}.pickle, or {NAME}_eng.weights.json"):
        open_tables(tmp_path)
    folder = as_json(tmp_path / "json")
    (folder / f"{NAME}_eng.weights.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadTables, match="reading it failed"):
        open_tables(folder)
    monkeypatch.setattr(tables_module, "_LARGEST", 10)
    with pytest.raises(BadTables, match="at most 10 bytes"):
        open_tables(as_pickle(tmp_path / "large.pickle"))
    assert issubclass(BadTables, EnvError)


@given(st.data())
def test_torn_tables_are_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("torn")
    path = data.draw(st.sampled_from([as_pickle(folder / "a"), as_zip(folder / "b", as_folder(folder / NAME))]))
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1))])
    with pytest.raises(BadTables):
        open_tables(path)


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = as_pickle(tmp_path / "some.pickle")
    first = open_tables(path)
    path.write_bytes(pickle.dumps(({}, {"red": "NN"}, {"NN"})))
    os.utime(path, ns=(1, 1))
    assert first.tag(["red"]) == ["JJ"]
    assert open_tables(path).tag(["red"]) == ["NN"]


# -- which tagger -----------------------------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without spaCy and without NLTK's data; the folder is where $NLTK_DATA points."""
    monkeypatch.setitem(sys.modules, "spacy", None)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "prefix"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", str(tmp_path / "nltk_data"))
    found = find_tables()
    if found is not None:
        pytest.skip(f"NLTK's tables are installed for all users: {found}")
    return tmp_path / "nltk_data"


def test_auto_takes_what_is_there(bare: Path) -> None:
    assert Judge().tagger_name == find_tagger().name == "own"
    as_folder(bare / "taggers" / NAME)
    assert find_tables() == bare / "taggers" / NAME
    assert Judge().tagger_name == find_tagger("nltk").name == "nltk"
    assert find_tagger("own").name == "own"


def test_zips_are_found_as_well(bare: Path, tmp_path: Path) -> None:
    folder = as_json(tmp_path / f"{NAME}_eng")
    (bare / "taggers").mkdir(parents=True)
    as_zip(bare / "taggers" / f"{NAME}_eng.zip", folder)
    assert find_tagger("nltk").nouns("red hat") == ["hat"]


def test_what_is_not_there_is_said(bare: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownOption, match="no nltk_data folder holds them"):
        find_tagger("nltk")
    with pytest.raises(UnknownOption, match='the tagger "spacy" needs spaCy: pip install spacy'):
        find_tagger("spacy")
    with pytest.raises(UnknownOption, match=r"unknown tagger 'own:x'"):
        find_tagger("own:x")
    assert find_tagger(f"nltk:{as_folder(tmp_path / 'given')}").nouns("hat") == ["hat"]


def test_spacy_is_taken_where_it_is(monkeypatch: pytest.MonkeyPatch, bare: Path) -> None:
    def load(model: str, exclude: list[str]) -> Any:
        if model != "en_core_web_sm":
            raise OSError(model)
        tags = {"Red": "ADJ", "Hat": "NOUN", "Acme": "PROPN"}
        return lambda title: [types.SimpleNamespace(text=word, pos_=tags.get(word, "X")) for word in title.split()]

    monkeypatch.setitem(sys.modules, "spacy", types.SimpleNamespace(load=load))
    assert find_tagger("auto").name == "spacy"
    assert find_tagger("spacy").nouns("Red Acme Hat !") == ["acme", "hat"]
    with pytest.raises(UnknownOption, match="python -m spacy download en_core_web_lg"):
        find_tagger("spacy:en_core_web_lg")
    monkeypatch.setattr(choose, "MODEL", "absent")
    monkeypatch.setattr(SpacyTagger.__init__, "__defaults__", ("absent",))
    assert find_tagger("auto").name == "own"  # spaCy without its model is as good as none


# -- NLTK's own tables ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nltk_tagger(data_dir: Path) -> PerceptronTagger:
    return open_tables(data_dir / "webshop" / "nltk_averaged_perceptron_tagger.zip")


def test_sentences_as_nltk_tags_them(nltk_tagger: PerceptronTagger) -> None:
    sentence, tags = "The quick brown fox jumps over the lazy dog", "DT JJ NN NN VBZ IN DT JJ NN"
    assert nltk_tagger.tag(sentence.split()) == tags.split()
    assert nltk_tagger.tag(["The", "red", "cat"]) == ["DT", "JJ", "NN"]


def test_titles_as_nltk_tags_them(data_dir: Path, nltk_tagger: PerceptronTagger) -> None:
    folder = data_dir / "webshop"
    catalogue = Catalogue.open(
        folder / "items_shuffle_1000.reconstructed.json", folder / "items_ins_v2_1000.json", cache=False
    )
    counts: Counter[str] = Counter()
    for product in catalogue:
        counts.update(nltk_tagger.tag(words(product.name)))
    # The counts of NLTK 3.10, its own tagger on the same tables and words.
    wanted = {"NNP": 14151, "NN": 606, "NNS": 172, "NNPS": 37, "JJ": 444, "CD": 1499, "IN": 924}
    assert {tag: counts[tag] for tag in wanted} == wanted
