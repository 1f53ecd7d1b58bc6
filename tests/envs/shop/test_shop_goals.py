"""Prices, goals and splits: by hand, by laws, and compared with WebShop's."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_shop import real_catalogue

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.goal import UNBOUNDED, Goal
from turncredit.envs.shop.goals import draw_goal, make_goals
from turncredit.envs.shop.prices import draw_prices
from turncredit.envs.shop.product import HumanInstruction, Product
from turncredit.envs.shop.splits import RULES, goal_order, split_range

SHOE = Product(
    "B1",
    "Red shoe",
    category="fashion",
    query="shoes",
    product_category="Clothing › Shoes",
    pricing=(20.0, 30.0),
    options={"size": ("5", "6"), "color": ("red",)},
    instruction="Find shoes with soft sole",
    instruction_attributes=("soft", "light"),
    human=(
        HumanInstruction("...i want a shoe.", ("soft",), ("red", "5")),
        HumanInstruction("nothing asked"),
        HumanInstruction("another", ("light",)),
    ),
)
HAT = Product("B2", "Hat", pricing=(985.0,), instruction="Find a hat", instruction_attributes=("soft",))
SOCK = Product("B3", "Sock")
SHOP = [SHOE, HAT, SOCK]


def made(products: list[Product] = SHOP, *, human: bool = False, seed: int = 0, **options: Any) -> list[Goal]:
    rng = random.Random(seed)
    prices = draw_prices(products, rng)
    return make_goals(products, prices, human=human, rng=rng, **options)


def test_prices_are_drawn_where_there_is_a_range() -> None:
    rng, same = random.Random(5), random.Random(5)
    prices = draw_prices([HAT, SHOE, SOCK], rng)
    assert prices == {"B2": 985.0, "B1": 20 + 10 * same.random(), "B3": 100.0}
    assert list(prices) == ["B2", "B1", "B3"]
    assert rng.getstate() == same.getstate()  # and nothing else was drawn
    assert draw_prices(Catalogue(SHOP), random.Random(1)) == draw_prices(SHOP, random.Random(1))


def test_goals_of_a_sentence() -> None:
    rng = random.Random(3)
    prices = draw_prices(SHOP, rng)
    bound = max(random.Random(3).sample([], 0) or _after(prices["B1"], 3))
    goals = make_goals(SHOP, prices, human=False, rng=rng, shuffle=None)
    text = f", and price lower than {bound:.2f} dollars"
    assert [goal.instruction for goal in goals] == [
        f"Find shoes with soft sole with color: red, and size: 5{text}",
        f"Find shoes with soft sole with color: red, and size: 6{text}",
        "Find a hat",
    ]
    assert [goal.options for goal in goals] == [{"color": "red", "size": "5"}, {"color": "red", "size": "6"}, {}]
    assert [goal.price_upper for goal in goals] == [bound, bound, UNBOUNDED]
    # "soft" is asked for by three goals, "light" by two
    assert [goal.weight for goal in goals] == [(1 / 3 + 1 / 2) / 2, (1 / 3 + 1 / 2) / 2, 1 / 3]
    assert goals[0] == Goal.of(
        {
            "asin": "B1",
            "category": "fashion",
            "query": "shoes",
            "name": "Red shoe",
            "product_category": "Clothing › Shoes",
            "instruction_text": goals[0].instruction,
            "attributes": ["soft", "light"],
            "price_upper": bound,
            "goal_options": {"color": "red", "size": "5"},
            "weight": goals[0].weight,
        }
    )


def _after(price: float, seed: int) -> list[float]:
    """What is sampled behind one draw of a price."""
    rng = random.Random(seed)
    rng.random()
    return rng.sample([bound for bound in range(10, 1000, 10) if bound > price][:4], 2)


def test_goals_of_people() -> None:
    goals = made(human=True, shuffle=None)
    assert [goal.instruction.split(", and price")[0] for goal in goals] == ["i want a shoe", "another"]
    assert [(goal.attributes, goal.options, goal.weight) for goal in goals] == [
        (("soft",), ("red", "5"), 1.0),
        (("light",), (), 1.0),
    ]
    assert all(goal.instruction.endswith(f", and price lower than {goal.price_upper:.2f} dollars") for goal in goals)


@pytest.mark.parametrize(
    ("price", "bounded"), [(0.0, True), (969.99, True), (979.99, True), (980.0, False), (5e4, False)]
)
def test_the_last_bounds(price: float, bounded: bool) -> None:
    (goal,) = made([replace(HAT, pricing=(price,))])
    assert (goal.price_upper < UNBOUNDED) == ("price lower" in goal.instruction) == bounded
    if bounded:
        assert price + 10 < goal.price_upper <= price + 40
        assert goal.price_upper % 10 == 0


def test_a_product_makes_no_goal() -> None:
    empty = replace(SHOE, options={"size": ()})
    silent = replace(HAT, instruction_attributes=())
    assert made([empty, silent, SOCK]) == []
    # the limit is drawn all the same, as in WebShop
    assert made([empty, replace(HAT, pricing=(50.0,))], seed=4)[0].price_upper == _bounds_behind_another(4)


def _bounds_behind_another(seed: int) -> float:
    rng = random.Random(seed)
    price = rng.uniform(20.0, 30.0)
    rng.sample([bound for bound in range(10, 1000, 10) if bound > price][:4], 2)
    return float(max(rng.sample([60, 70, 80, 90], 2)))


def test_errors() -> None:
    with pytest.raises(UnknownOption, match="B1 has a goal but no price"):
        make_goals(SHOP, {}, human=False, rng=random.Random(0))
    huge = replace(SHOE, options={str(number): tuple("abcdefghij") for number in range(9)})
    with pytest.raises(UnknownOption, match=r"B1 would make 1,000,000,000 goals"):
        made([huge])
    with pytest.raises(UnknownOption, match="limit"):
        made(limit=0)


def test_the_order_follows_from_its_own_seed() -> None:
    many = [replace(HAT, asin=f"B{number}", instruction=f"Find {number}") for number in range(50)]
    order = list(range(50))
    random.Random(233).shuffle(order)
    for seed in (0, 1):
        assert [goal.asin for goal in made(many, seed=seed)] == [f"B{number}" for number in order]
    assert [goal.asin for goal in made(many, shuffle=42)] != [f"B{number}" for number in order]
    assert made(many, keep=lambda number, goal: number % 2 == 0) == made(many)[::2]


def test_goals_are_limited_by_weight() -> None:
    many = [replace(HAT, asin=f"B{number}", instruction_attributes=(f"a{number % 10}",)) for number in range(60)]
    whole, some = made(many), made(many, limit=7)
    assert len(some) == len({goal.asin for goal in some}) == 7
    assert all(goal in whole for goal in some)
    assert whole[0] not in made(many, limit=59)  # WebShop never draws the first goal
    assert made(many, limit=60) == made(many, limit=99) == whole
    rng = random.Random(233)
    rng.shuffle(list(range(60)))
    cumulative = list(accumulate(goal.weight for goal in whole))
    assert some[0] == whole[draw_goal(cumulative, rng)]


def test_a_goal_is_drawn_by_the_weight_of_the_one_before() -> None:
    rng = random.Random(0)
    drawn = Counter(draw_goal([1.0, 1.0, 4.0, 6.0], rng) for _ in range(3000))  # weights 1, 0, 3, 2
    assert drawn[0] == drawn[2] == 0
    assert drawn[1] == pytest.approx(500, abs=100)
    assert drawn[3] == pytest.approx(2500, abs=100)
    assert draw_goal([2.0], rng) == 0


texts = st.text(max_size=6)
options = st.dictionaries(texts, st.lists(texts, max_size=3).map(tuple), max_size=3)
attributes = st.lists(st.sampled_from("abc"), max_size=3).map(tuple)
said = st.builds(HumanInstruction, text=texts, attributes=attributes, options=st.lists(texts, max_size=2).map(tuple))
prices = st.lists(st.floats(0, 2000), min_size=1, max_size=2).map(tuple)
products = st.lists(
    st.builds(
        Product,
        asin=st.integers(0, 99).map(str),
        name=texts,
        pricing=prices,
        options=options,
        instruction=st.none() | texts,
        instruction_attributes=attributes,
        human=st.lists(said, max_size=2).map(tuple),
    ),
    max_size=6,
    unique_by=lambda product: product.asin,
)


@settings(deadline=None, max_examples=150)
@given(products, st.booleans(), st.integers(0, 5))
def test_laws_of_goals(shop: list[Product], human: bool, seed: int) -> None:
    goals = made(shop, human=human, seed=seed)
    assert goals == made(Catalogue(shop), human=human, seed=seed)  # type: ignore[arg-type]
    by_id = {product.asin: product for product in shop}
    costs = draw_prices(shop, random.Random(seed))
    for goal in goals:
        product = by_id[goal.asin]
        assert goal.weight > 0
        assert goal.price_upper > costs[goal.asin] or goal.price_upper == UNBOUNDED
        assert Goal.of(goal.as_dict()) == goal
        if not human:
            assert isinstance(goal.options, dict)
            assert list(goal.options) == sorted(product.options)
            assert all(value in product.options[name] for name, value in goal.options.items())


def test_splits() -> None:
    assert split_range("test", "original", 6910) == range(500)
    assert split_range("eval", "original", 6910) == range(500, 1500)
    assert split_range("train", "original", 6910) == range(1500, 6910)
    assert split_range("train", "verl-agent", 6910) == range(500, 6910)
    assert split_range("eval", "verl-agent", 6910) == split_range("test", "verl-agent", 6910) == range(500)
    assert split_range("val", "ragen", 6910) == range(500, 1500)
    assert split_range("test", "original", 13) == range(13)
    for name in ("train", "eval", "test"):
        assert split_range(name, "all", 13) == range(13)
    for rule in RULES:
        order = goal_order(rule, 6910)
        assert sorted(order) == list(range(6910))
        assert (list(order) == list(range(6910))) == (rule != "ragen")
    assert list(goal_order("ragen", 5)) == [3, 1, 2, 4, 0]  # random.Random(42).shuffle
    with pytest.raises(UnknownOption, match="starts at goal 1500, but there are only 13 goals; splits='all'"):
        split_range("train", "original", 13)
    with pytest.raises(UnknownOption, match="unknown split 'dev'"):
        split_range("dev", "original", 6910)
    with pytest.raises(UnknownOption, match="unknown rule of splits 'verl'"):
        split_range("train", "verl", 6910)


@pytest.fixture(scope="module")
def real(data_dir: Path) -> Catalogue:
    return real_catalogue(data_dir)


@pytest.mark.parametrize(
    ("human", "seed", "shuffle", "count", "bounds", "costs", "first", "next_bounds"),
    [  # sums and first values of WebShop's own functions with these seeds
        (False, 0, 233, 6910, 412510.0, 103238.88572696263, "B0743JKHBV", [30.0, 50.0, 50.0, 340.0, 30.0]),
        (True, 0, 233, 13, 890.0, 103238.88572696263, "B09MW563KN", [60.0, 70.0, 60.0, 180.0, 40.0]),
        (False, 42, 42, 6910, 428010.0, 103136.60278699738, "B09R9YCM6R", [50.0, 40.0, 70.0, 140.0, 60.0]),
    ],
)
def test_the_goals_are_the_originals(
    real: Catalogue,
    human: bool,
    seed: int,
    shuffle: int,
    count: int,
    bounds: float,
    costs: float,
    first: str,
    next_bounds: list[float],
) -> None:
    rng = random.Random(seed)
    prices = draw_prices(real, rng)
    goals = make_goals(real, prices, human=human, rng=rng, shuffle=shuffle)
    assert (len(goals), goals[0].asin) == (count, first)
    assert sum(goal.price_upper for goal in goals if goal.price_upper < UNBOUNDED) == bounds
    assert sum(prices.values()) == pytest.approx(costs, abs=1e-6)
    assert [goal.price_upper for goal in goals[:5]] == next_bounds


def test_limited_goals_are_the_originals(real: Catalogue) -> None:
    rng = random.Random(7)
    goals = make_goals(real, draw_prices(real, rng), human=False, rng=rng, limit=300)
    assert [goal.asin for goal in goals[:3]] == ["B003I567W4", "B00O30JLDK", "B09DG3YTHY"]
    assert (len(goals), sum(goal.price_upper for goal in goals)) == (300, 18190.0)


def test_counts_of_the_real_set(real: Catalogue) -> None:
    rng = random.Random(0)
    goals = make_goals(real, draw_prices(real, rng), human=False, rng=rng)
    assert Counter(len(goal.options) for goal in goals) == {0: 185, 1: 538, 2: 4729, 3: 1458}
    assert len({goal.asin for goal in goals}) == 415
    assert sum(goal.price_upper == UNBOUNDED for goal in goals) == 15


def test_recorded_goals_have_our_numbers(real: Catalogue, data_dir: Path) -> None:
    rng = random.Random(123)  # prices of the recording are not known; the order does not depend on them
    goals = make_goals(real, draw_prices(real, rng), human=False, rng=rng)
    episodes = json.loads((data_dir / "webshop/episodes.json").read_text(encoding="utf-8"))
    assert len(episodes) == 16
    for episode in episodes:
        wanted, goal = episode["goal"], goals[episode["goal_index"]].as_dict()
        assert (
            goal["instruction_text"].split(", and price lower")[0]
            == wanted["instruction_text"].split(", and price lower")[0]
        )
        for key in set(wanted) - {"instruction_text", "price_upper"}:
            assert goal[key] == wanted[key], key
