"""Goals of WebShop's files: human instructions, or synthetic sentences combined with options.

Random draws have WebShop's order: prices first (`draw_prices`), then a price limit for each instruction from the same
generator. Another generator shuffles the goals, so that their order is always the same.
"""

from __future__ import annotations

import itertools
import math
import random
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.catalogue import Catalogue
from turncredit.envs.shop.goal import UNBOUNDED, Goal
from turncredit.envs.shop.product import Product

__all__ = ["SHUFFLE", "draw_goal", "make_goals"]

SHUFFLE: Final = 233
"""The seed with which WebShop shuffles its goals."""

_BOUNDS: Final = tuple(10.0 * step for step in range(1, 100))
_MOST = 1_000_000  # largest number of goals of one product

Keep = Callable[[int, Goal], bool]


def make_goals(
    products: Iterable[Product],
    prices: Mapping[str, float],
    *,
    human: bool,
    rng: random.Random,
    shuffle: int | None = SHUFFLE,
    keep: Keep | None = None,
    limit: int | None = None,
) -> list[Goal]:
    """Return the goals of a catalogue, shuffled.

    The price limit is the larger of two samples from the next four multiples of ten dollars above the price. From 980
    dollars on there are not two of them below 1,000, and the goal has no limit.

    Args:
        products: products in the order of the catalogue.
        prices: dollars by product id (see `draw_prices`).
        human: one goal for each human instruction; else one for each combination of a product's options. Instructions
            without attributes give no goal.
        rng: generator of the limits; WebShop's is the one that drew the prices.
        shuffle: seed of the order; None keeps the order. verl-agent uses the seed of its environment.
        keep: predicate of a goal's number (after the shuffle) and the goal.
        limit: number of goals to draw by weight, without replacement, from those that are kept.

    Raises:
        UnknownOption: a product has no price or makes more than a million goals, or the limit is below 1.

    Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its goals.
    """
    if limit is not None and limit < 1:
        raise UnknownOption(f"limit must be >= 1, got {limit}")
    chosen = products.instructed(human) if isinstance(products, Catalogue) else products
    goals = list(_human(chosen, prices, rng) if human else _synthetic(list(chosen), prices, rng))
    order = rng if shuffle is None else random.Random(shuffle)
    if shuffle is not None:
        order.shuffle(goals)
    if keep is not None:
        goals = [goal for number, goal in enumerate(goals) if keep(number, goal)]
    return goals if limit is None or limit >= len(goals) else _limited(goals, limit, order)


def draw_goal(cumulative: Sequence[float], rng: random.Random) -> int:
    """Return the number of a random goal, drawn by weight.

    As in WebShop the numbers are off by one: goal i + 1 has the weight of goal i, and the first goal is drawn only if
    it is the only one.

    Args:
        cumulative: cumulative weights of the goals.
        rng: random generator.
    """
    return min(bisect(cumulative, rng.uniform(0, cumulative[-1])) + 1, len(cumulative) - 1)


def _human(products: Iterable[Product], prices: Mapping[str, float], rng: random.Random) -> Iterator[Goal]:
    for product in products:
        for instruction in product.human:
            if instruction.attributes:
                bound, text = _bound(product, prices, rng)
                yield _goal(
                    product, instruction.text.strip(".") + text, instruction.attributes, bound, instruction.options
                )


def _synthetic(products: Sequence[Product], prices: Mapping[str, float], rng: random.Random) -> Iterator[Goal]:
    sources = [(item, item.instruction, _combinations(item)) for item in products if item.instruction_attributes]
    asked: Counter[str] = Counter()
    for product, sentence, many in sources:
        if sentence is not None:
            asked.update(
                {attribute: many * times for attribute, times in Counter(product.instruction_attributes).items()}
            )
    for product, sentence, _ in sources:
        if sentence is not None:
            shares = [1.0 / max(asked[attribute], 1) for attribute in product.instruction_attributes]
            yield from _filled(product, sentence, _bound(product, prices, rng), sum(shares) / len(shares))


def _combinations(product: Product) -> int:
    many = math.prod(map(len, product.options.values()))
    if many > _MOST:
        raise UnknownOption(f"product {product.asin} would make {many:,} goals; the largest number is {_MOST:,}")
    return many


def _filled(product: Product, sentence: str, bound: tuple[float, str], weight: float) -> Iterator[Goal]:
    """Yield the goals of a product, one for each combination of its options."""
    names = sorted(product.options)
    for values in itertools.product(*(product.options[name] for name in names)):
        options = dict(zip(names, values, strict=True))
        choices = ", and ".join(f"{name}: {value}" for name, value in options.items())
        text = f"{sentence} with {choices}{bound[1]}" if choices else sentence + bound[1]
        yield _goal(product, text, product.instruction_attributes, bound[0], options, weight)


def _bound(product: Product, prices: Mapping[str, float], rng: random.Random) -> tuple[float, str]:
    """Return a price limit in dollars, and the words for it."""
    price = prices.get(product.asin)
    if price is None:
        raise UnknownOption(f"product {product.asin} has a goal but no price")
    above = [bound for bound in _BOUNDS if bound > price][:4]
    if len(above) < 2:
        return UNBOUNDED, ""
    bound = max(rng.sample(above, 2))
    return bound, f", and price lower than {bound:.2f} dollars"


def _goal(
    product: Product,
    instruction: str,
    attributes: tuple[str, ...],
    bound: float,
    options: Mapping[str, str] | tuple[str, ...],
    weight: float = 1.0,
) -> Goal:
    kind = (product.asin, product.category, product.query, product.name, product.product_category)
    return Goal(*kind, instruction, attributes, bound, options, weight)


def _limited(goals: list[Goal], limit: int, rng: random.Random) -> list[Goal]:
    """Return `limit` goals, drawn by weight, in the order of the draws."""
    cumulative = list(accumulate(goal.weight for goal in goals))
    drawn: dict[int, None] = {}
    while len(drawn) < limit:
        drawn[draw_goal(cumulative, rng)] = None
    return [goals[number] for number in drawn]
