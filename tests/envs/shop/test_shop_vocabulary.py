"""The vocabulary: within a kind, nothing matches anything else under the reward's rules."""

from __future__ import annotations

import pytest

from turncredit.envs.shop.generator.product_text import article, phrase
from turncredit.envs.shop.generator.vocabulary import BRANDS, KINDS, TITLES, ProductKind
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.matching import RULES, attribute_match, option_keys, option_match
from turncredit.envs.shop.product import Product

BUTTONS = {
    "search",
    "back to search",
    "next >",
    "< prev",
    "description",
    "features",
    "reviews",
    "attributes",
    "buy now",
}
each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.noun)


def names(kind: ProductKind) -> list[str]:
    return [feature.name for facet in kind.facets for feature in facet]


def brands(kind: ProductKind) -> list[str]:
    return [brand.lower() for brand in BRANDS[kind.department]]


def test_all_departments_have_kinds_and_kinds_differ():
    assert {kind.department for kind in KINDS} == set(BRANDS) == set(TITLES)
    assert len({kind.query for kind in KINDS}) == len({kind.aisle for kind in KINDS}) == len(KINDS) == 30


@each_kind
def test_no_attribute_and_no_brand_passes_for_another(kind: ProductKind):
    everything = [*names(kind), *brands(kind)]
    assert len(set(everything)) == len(everything)
    for wanted in everything:
        others = Product("X", "", attributes=tuple(name for name in everything if name != wanted))
        own = Product("X", "", attributes=(wanted,))
        for rule in RULES:
            assert attribute_match(others, wanted, rule) is None
            assert attribute_match(own, wanted, rule) is not None


@each_kind
def test_no_option_value_passes_for_another_whether_a_goal_names_the_option_or_not(kind: ProductKind):
    values = [(option.name, value) for option in kind.options for value in option.values]
    assert len({value for _, value in values}) == len(values)
    assert not BUTTONS & {value for _, value in values}
    for rule in RULES:
        for name, wanted in values:
            for options in ({name: wanted}, (wanted,)):
                key = option_keys(Goal("", "", "", "", "", "", ("x",), options=options), rule)[0]
                assert [value for _, value in values if option_match(key, [value], rule) is not None] == [wanted]


@each_kind
def test_texts_name_a_feature_only_where_it_is_true(kind: ProductKind):
    for facet in kind.facets:
        assert len(facet) >= 3
        for feature in facet:
            assert [name for name in names(kind) if name in feature.line.lower()] == [feature.name]
            assert feature.others
    for text in (*kind.about, *kind.uses, *kind.others, kind.noun, *brands(kind)):
        assert not [name for name in names(kind) if name in text.lower()], text


@each_kind
def test_a_paraphrase_uses_no_word_of_the_shop(kind: ProductKind):
    for facet in kind.facets:
        for feature in facet:
            for text in feature.others:
                assert not [name for name in names(kind) if name in text], text


@each_kind
def test_each_option_leaves_look_alikes_a_value(kind: ProductKind):
    assert kind.options
    for option in kind.options:
        assert len(option.values) >= 3
        assert option.phrase.count("{}") == 1
    assert 1 <= kind.prices[0] < kind.prices[1]


def test_sentences_around_a_noun():
    kind = KINDS[0]
    leakproof, steel, lid = kind.facets[1][0], kind.facets[0][0], kind.facets[2][0]
    assert phrase(kind, [steel, leakproof, lid]) == "a leakproof steel travel mug with a flip lid"
    assert phrase(kind, [lid], lead=False, articles=False, noun="tumbler") == "tumbler with flip lid"
    assert phrase(kind, [kind.facets[1][0], kind.facets[1][1], kind.facets[1][2]]).startswith(
        "a leakproof, dishwasher safe, double walled travel mug"
    )
    assert phrase(kind, [facet[0] for facet in kind.facets]).endswith("with a flip lid for cup holders")
    assert [article(word) for word in ("apron", "usb plug", "one piece", "mug")] == [
        "an apron",
        "a usb plug",
        "a one piece",
        "a mug",
    ]


def test_kinds_are_filed_under_their_plural():
    filed = {kind.noun: kind.query for kind in KINDS}
    assert filed["travel mug"] == "travel mugs"
    assert filed["hair brush"] == "hair brushes"
    assert filed["socks"] == "socks"
    assert filed["granola"] == "granola"
