"""The reward: tables by hand, laws, and goals that the original rule cannot satisfy."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_shop import goal_of, real_catalogue

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.colours import COLOURS, colour_of
from turncredit.envs.shop.explanation import explain
from turncredit.envs.shop.goal import UNBOUNDED, Goal
from turncredit.envs.shop.goals import make_goals
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import Reward, RewardFunction
from turncredit.envs.shop.text_similarity import alike, token_set_ratio

JUDGE = RewardFunction(tagger="own")
FIXED = RewardFunction("fixed", "own")

SHIRT = Product(
    asin="B000000001",
    name="Linen Shirt for Men, Long Sleeve",
    description="A shirt for warm days.",
    bullets=("Machine wash", "Loose fit"),
    query="men's shirts",
    product_category="Clothing › Men › Shirts",
    options={"color": ("r.brown2060", "red", "light blue"), "size": ("small", "x-large", "9.5")},
    attributes=("breathable", "button closure"),
)


def options_share(wanted: Any, chosen: dict[str, str], judge: RewardFunction = JUDGE) -> float | None:
    return judge(SHIRT, goal_of(SHIRT, options=wanted), 20.0, chosen).options


# -- how alike two texts are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "ratio"),
    [
        ("long sleeve", "sleeve long", 100),
        ("long sleeve", "Long Sleeve shirt", 100),  # all words of one are in the other
        ("machine washable", "machine wash", 86),  # 2 x 12 of 28 letters: 85.7
        ("abc", "abd", 67),  # 1 - 2/6
        ("ab", "cd", 0),
        ("", "", 0),
        ("...", "...", 0),  # no words are left
        ("été", "t", 100),  # letters between U+0080 and U+00FF go
        ("5-ounce", "5 ounce", 100),
        ("under_score", "under score", 100),
        ("small", "x-small", 100),
        ("('size', 'small')", "small", 100),
        ("('color', 'r.brown2060')", "brown", 45),  # "brown" in "brown2060 color r": 2 x 5 of 22 letters
        ("4 oz", "4 fl oz", 100),
        ("1 + 1", "1", 100),
        ("١", "1", 0),
    ],
)
def test_ratios_by_hand(one: str, other: str, ratio: int) -> None:
    assert token_set_ratio(one, other) == token_set_ratio(other, one) == ratio


def test_alike_is_above_85() -> None:
    assert alike("machine washable", "machine wash")
    # 17 of 20 letters stay: exactly 85.
    assert token_set_ratio("a" * 17, "a" * 17 + "b" * 6) == 85
    assert not alike("a" * 17, "a" * 17 + "b" * 6)


words = st.lists(st.text("abcde1", min_size=1, max_size=6), min_size=1, max_size=6)


@given(words, st.randoms(use_true_random=False), st.sampled_from([" ", "  ", " - ", " | ", ", "]))
def test_order_case_and_signs_do_not_matter(some: list[str], rng: random.Random, gap: str) -> None:
    other = list(some)
    rng.shuffle(other)
    assert token_set_ratio(" ".join(some), gap.join(other).upper()) == 100


@given(st.text(max_size=30), st.text(max_size=30))
def test_ratios_are_symmetric_and_bounded(one: str, other: str) -> None:
    assert 0 <= token_set_ratio(one, other) == token_set_ratio(other, one) <= 100


# -- colours ----------------------------------------------------------------------------------------------------------


def test_colours() -> None:
    assert len(COLOURS) == len(set(COLOURS)) == 102
    assert list(COLOURS) == sorted(COLOURS)
    table = {
        "dark blue": "blue",  # the first in the list's order, not in the text's
        "navy blue": "blue",
        "r.brown2060": "brown",
        "lightning": "light",
        "embroidered": "red",
        "washed": "ash",
        "standard": "tan",
        "large": "large",
        "Red": "Red",  # capitals are not looked for
        "": "",
    }
    assert {value: colour_of(value) for value in table} == table


# -- the kind of product ----------------------------------------------------------------------------------------------


def kind(wanted: str, bought: str, query: str = "other", category: str = "Other") -> Reward:
    """The reward for titles made of single letters, which stand for nouns."""
    goal = goal_of(SHIRT, name=wanted, query="query", product_category="A › B › C")
    return RewardFunction(tagger=Letters())(
        replace(SHIRT, name=bought, query=query, product_category=category), goal, 1.0, {}
    )


class Letters:
    """Every letter of a title is a noun."""

    name = "letters"

    def nouns(self, title: str) -> list[str]:
        return list(title)


@pytest.mark.parametrize(
    ("wanted", "bought", "query", "category", "score", "value"),
    [
        ("abcd", "abcd", "query", "A › B", 1.0, 1.0),
        ("abcd", "ax", "other", "A", 0.25, 1.0),  # above a fifth
        ("abcde", "ax", "other", "A", 0.2, 0.5),  # not above a fifth
        ("abcde", "ax", "query", "A", 0.2, 1.0),
        ("abcde", "ax", "other", "X › B › A", 0.2, 1.0),  # two categories, wherever they stand
        ("abcde", "ax", "other", "A › A", 0.2, 0.5),  # the same one twice is one
        ("abcdefghij", "a", "other", "A", 0.1, 0.5),
        ("abcdefghijk", "a", "query", "A › B", 1 / 11, 0.1),  # though everything else fits
        ("abc", "x", "query", "A › B", 0.0, 0.0),
        ("", "x", "other", "A", 0.2, 0.5),
        ("", "x", "query", "A", 0.2, 1.0),
        ("aaab", "a", "other", "A", 0.25, 1.0),  # repeated nouns count below the line only
        ("aaaaaaaaaaaa", "a", "query", "A", 1 / 12, 0.1),
    ],
)
def test_kinds(wanted: str, bought: str, query: str, category: str, score: float, value: float) -> None:
    reward = kind(wanted, bought, query, category)
    assert (reward.title_score, reward.type) == (score, value)
    assert reward.total == reward.type * reward_points(reward)


def reward_points(reward: Reward) -> float:
    """The share of what was asked for that was bought, out of the parts."""
    return (
        (reward.attributes or 0.0) * reward.attributes_weight
        + (reward.options or 0.0) * reward.options_weight
        + reward.price * reward.price_weight
    )


# -- attributes, options, price ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "where"),
    [
        ("breathable", "attributes"),
        ("closure button", "attributes"),
        ("linen shirt", "title"),
        ("linen", "title"),
        ("machine wash loose", "features"),  # across the end of a line
        ("warm days", "description"),
        ("Linen", None),  # a goal's capitals are kept, the title's are not
        ("waterproof", None),
        ("", "title"),
    ],
)
def test_where_an_attribute_is_found(wanted: str, where: str | None) -> None:
    goal = goal_of(SHIRT, attributes=(wanted,))
    (part,) = explain(JUDGE, SHIRT, goal, 1.0, {}).attributes
    assert (part.where, part.matched) == (where, where is not None)
    assert JUDGE(SHIRT, goal, 1.0, {}).attributes == float(part.matched)


@pytest.mark.parametrize(
    ("wanted", "chosen", "original", "fixed"),
    [
        ({"color": "red"}, {"color": "red"}, 1.0, 1.0),
        ({"color": "r.brown2060"}, {"color": "r.brown2060"}, 0.0, 1.0),  # the defect
        ({"color": "dark blue"}, {"color": "light blue"}, 1.0, 1.0),  # both are blue
        (("r.brown2060",), {"color": "r.brown2060"}, 1.0, 1.0),  # goals of people have no pairs
        ({"size": "x-large"}, {"size": "large"}, 1.0, 1.0),
        ({"size": "small"}, {"size": "x-large"}, 0.0, 0.0),
        ({"color": "red", "size": "small"}, {"size": "small"}, 0.5, 0.5),
        ({"stone": "5"}, {"stone": "5"}, 0.0, 1.0),  # the option's name is a colour, and replaces the pair
        ({"size": "x"}, {"other": "size"}, 1.0, 0.0),  # a value that is the option's name
        ({"size": "++"}, {"size": "++"}, 0.0, 1.0),  # nothing is left to compare
        ({"a": "red", "b": "red"}, {"a": "red"}, 1.0, 1.0),  # one value fulfils both
        ({}, {"size": "small"}, None, None),
        ((), {}, None, None),
    ],
)
def test_options(wanted: Any, chosen: dict[str, str], original: float | None, fixed: float | None) -> None:
    assert options_share(wanted, chosen) == original
    assert options_share(wanted, chosen, FIXED) == fixed


def test_the_price_may_equal_the_bound() -> None:
    paid = [JUDGE(SHIRT, goal_of(SHIRT), price, {}).price for price in (49.99, 50.0, 50.01)]
    assert paid == [True, True, False]


def test_the_sum_by_hand() -> None:
    goal = goal_of(
        SHIRT,
        attributes=("breathable", "waterproof", "linen"),
        options={"color": "red", "size": "9.5"},
        price_upper=10.0,
    )
    reward = JUDGE(SHIRT, goal, 20.0, {"size": "9.5"})
    assert reward.total == (2 + 1 + 0) / 6
    assert reward.as_dict() == {
        "r_type": 1.0,
        "r_att": 2 / 3,
        "w_att": 3 / 6,
        "query_match": True,
        "category_match": True,
        "title_score": 1.0,
        "r_option": 1 / 2,
        "w_option": 2 / 6,
        "r_price": False,
        "w_price": 1 / 6,
    }


def test_a_goal_that_asks_for_nothing_but_the_price() -> None:
    reward = JUDGE(SHIRT, goal_of(SHIRT, attributes=(), options=()), 20.0, {})
    assert reward.total == 1.0
    assert list(reward.as_dict()) == ["r_type", "query_match", "category_match", "title_score", "r_price", "w_price"]


def test_another_rule_or_tagger_is_refused() -> None:
    with pytest.raises(UnknownOption, match=r"unknown reward rule 'fix'; did you mean 'fixed'\?"):
        RewardFunction("fix", "own")
    with pytest.raises(UnknownOption, match=r"unknown tagger 'spaci'; did you mean 'spacy'\?"):
        RewardFunction(tagger="spaci")
    assert RewardFunction(tagger=Letters()).tagger_name == "letters"


# -- laws -------------------------------------------------------------------------------------------------------------

VALUES = ["red", "dark red", "r.brown2060", "navy", "small", "x-small", "9.5", "++", "size", "8 wide", "stone", "a b"]
NAMES = ["color", "size", "stone", "fit type"]
menus = st.dictionaries(
    st.sampled_from(NAMES),
    st.lists(st.sampled_from(VALUES), min_size=1, max_size=4, unique=True).map(tuple),
    max_size=3,
)
texts = st.text("ab red", max_size=12)


@st.composite
def products(draw: st.DrawFn) -> Product:
    return replace(
        SHIRT,
        name=draw(st.sampled_from(["Red Shirt", "Blue Hat with Band", "A", "for", ""])),
        query=draw(st.sampled_from("ab")),
        product_category=draw(st.sampled_from(["A › B", "B › C", "A"])),
        options=draw(menus),
        attributes=tuple(draw(st.lists(texts, min_size=1, max_size=3))),
        description=draw(texts),
    )


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    wanted = draw(st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=3))
    return goal_of(
        draw(products()),
        options=draw(st.sampled_from([wanted, tuple(wanted.values())])),
        price_upper=draw(st.sampled_from([10.0, 50.0, UNBOUNDED])),
    )


rules = st.sampled_from([JUDGE, FIXED])
prices = st.sampled_from([5.0, 10.0, 60.0])


def choices_of(product: Product) -> list[dict[str, str]]:
    """All that can be chosen on a product's page."""
    each = [[(name, value) for value in (None, *values)] for name, values in product.options.items()]
    return [{name: value for name, value in choice if value is not None} for choice in itertools.product(*each)]


@settings(max_examples=150)
@given(rules, products(), goals(), prices)
def test_the_best_options_are_the_best(judge: RewardFunction, product: Product, goal: Goal, price: float) -> None:
    reward, options = judge.best(product, goal, price)
    assert reward == judge(product, goal, price, options)
    rewards = {tuple(choice.items()): judge(product, goal, price, choice) for choice in choices_of(product)}
    assert tuple(options.items()) in rewards
    best = max(found.options or 0.0 for found in rewards.values())
    assert (reward.options or 0.0) == best
    assert reward.total == max(found.total for found in rewards.values())
    fewest = min(len(choice) for choice, found in rewards.items() if (found.options or 0.0) == best)
    assert len(options) == fewest


def test_the_best_options_are_those_that_the_goal_names() -> None:
    hat = replace(SHIRT, options={"color": ("navy blue", "light blue", "dark blue"), "size": ("8 wide", "8")})
    assert JUDGE.best(hat, goal_of(hat, options=("dark blue", "8")), 1.0)[1] == {"color": "dark blue", "size": "8"}
    assert FIXED.best(hat, goal_of(hat, options={"color": "light blue"}), 1.0)[1] == {"color": "light blue"}
    assert JUDGE.best(hat, goal_of(hat, options=("blue",)), 1.0)[1] == {"color": "navy blue"}


def test_many_options_do_not_take_for_ever() -> None:
    rng = random.Random(0)
    names = ["".join(rng.choices("jkqvwxyz", k=12)) for _ in range(40)]  # unlike each other
    wide = replace(SHIRT, options={name: (name[:6], name, name[6:]) for name in names})
    wanted = {name: name for name in names}
    goal = goal_of(wide, options=wanted)
    reward, options = FIXED.best(wide, goal, 1.0)
    assert reward.options == 1.0
    assert options == wanted


@given(rules, products(), goals(), prices, st.data())
def test_more_never_lowers_a_reward(
    judge: RewardFunction, product: Product, goal: Goal, price: float, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(choices_of(product)))
    fewer = dict(itertools.islice(chosen.items(), data.draw(st.integers(0, len(chosen)))))
    reward = judge(product, goal, price, chosen)
    assert judge(product, goal, price, fewer).total <= reward.total
    assert judge(product, goal, price + data.draw(st.floats(0, 100)), chosen).total <= reward.total
    richer = replace(product, attributes=(*product.attributes, data.draw(texts)))
    assert judge(richer, goal, price, chosen).total >= reward.total


@given(rules, products(), goals(), prices, st.data())
def test_the_parts_make_the_sum(
    judge: RewardFunction, product: Product, goal: Goal, price: float, data: st.DataObject
) -> None:
    reward = judge(product, goal, price, data.draw(st.sampled_from(choices_of(product))))
    assert 0.0 <= reward.total <= 1.0
    assert reward.attributes_weight + reward.options_weight + reward.price_weight == pytest.approx(1.0)
    assert reward.total == pytest.approx(reward.type * reward_points(reward))


@given(products(), st.data())
def test_under_the_fixed_rule_a_perfect_purchase_is_worth_1(product: Product, data: st.DataObject) -> None:
    product = replace(product, attributes=("cotton", *product.attributes))
    wanted = {name: data.draw(st.sampled_from(values)) for name, values in product.options.items()}
    assert FIXED(product, goal_of(product, options=wanted), 50.0, wanted).total == 1.0


# -- the explanation -------------------------------------------------------------------------------------------------


@given(rules, products(), goals(), prices, st.data())
def test_the_explanation_agrees_with_the_reward(
    judge: RewardFunction, product: Product, goal: Goal, price: float, data: st.DataObject
) -> None:
    chosen = data.draw(st.sampled_from(choices_of(product)))
    explanation = explain(judge, product, goal, price, chosen)
    reward = judge(product, goal, price, chosen)
    assert explanation.reward == reward
    assert explanation.points / explanation.possible * explanation.type.value == reward.total
    assert sum(part.matched for part in explanation.options) == round((reward.options or 0.0) * len(goal.options))
    assert len(explanation.options) == len(goal.options)
    assert all(part.offered for part in explanation.options if part.matched)
    assert not any(part.defect for part in explanation.options if part.matched)
    assert len(explanation.lines()) == len(goal.attributes) + len(goal.options) + 3
    if judge is FIXED:
        assert not any(part.defect for part in explanation.options)


def test_an_explanation_in_words() -> None:
    goal = goal_of(
        SHIRT,
        attributes=("closure button", "linen", "waterproof"),
        options={"color": "r.brown2060", "size": "x-large wide", "fit": "slim", "style": "red"},
        price_upper=19.0,
    )
    explanation = explain(JUDGE, SHIRT, goal, 20.0, {"color": "r.brown2060", "size": "x-large"})
    assert explanation.lines() == [
        "type 1: found by the same search",
        "attribute 'closure button': among its attributes as 'button closure'",
        "attribute 'linen': in its title",
        "attribute 'waterproof': not found",
        "option 'color: r.brown2060': selected, but the original rule does not count it",
        "option 'size: x-large wide': satisfied by 'x-large'",
        "option 'fit: slim': not selected; the product does not offer it",
        "option 'style: red': not selected",
        "price $20.00, limit $19.00: too expensive",
        "reward 0.375 = 1 x 3 / 8",
    ]
    assert explanation.type.missing == ()
    assert explain(JUDGE, SHIRT, goal_of(SHIRT, price_upper=UNBOUNDED), 20.0, {}).price.bound is None


@pytest.mark.parametrize(
    ("wanted", "bought", "query", "category", "reason"),
    [
        ("abcd", "x", "query", "A › B", "share no noun"),
        ("abcdefghijk", "a", "query", "A › B", "less than a tenth"),
        ("abcd", "a", "query", "A", "same search"),
        ("abcd", "a", "other", "A › B", "same categories"),
        ("abcd", "a", "other", "A", "share 25% of the nouns"),
        ("abcde", "a", "other", "A", "another kind of product"),
    ],
)
def test_the_reason_of_a_type(wanted: str, bought: str, query: str, category: str, reason: str) -> None:
    goal = goal_of(SHIRT, name=wanted, query="query", product_category="A › B")
    product = replace(SHIRT, name=bought, query=query, product_category=category)
    assert reason in explain(RewardFunction(tagger=Letters()), product, goal, 1.0, {}).type.reason


# -- the real thousand products ---------------------------------------------------------------------------------------


def test_what_a_perfect_purchase_is_worth(data_dir: Path) -> None:
    catalogue = real_catalogue(data_dir)
    rng = random.Random(0)
    cost = draw_prices(catalogue, rng)
    goals = make_goals(catalogue, cost, human=False, rng=rng)
    assert len(goals) == 6910
    below = {"original": 0, "fixed": 0}
    for judge in (JUDGE, FIXED):
        for goal in goals:
            product = catalogue.get(goal.asin)
            assert product is not None
            assert isinstance(goal.options, dict)
            below[judge.rule] += judge(product, goal, cost[goal.asin], goal.options).total < 1.0
    assert below == {"original": 458, "fixed": 0}
