"""Goals without end over a generated catalogue; a task id alone is the goal.

An id is SPLIT/LEVEL/NUMBER, such as "held_out/small/000012", or "train/small@7/000003" over the catalogue of seed 7.

Disjoint by construction: each family of products (one and its look-alikes, see `families.py`) belongs to one split, and
goals are made of the products of families of their split. So no product that a held-out goal is about is the subject of
any training goal, whatever its options, attributes or words; as everywhere in a shop, it is seen among the results.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from turnwise.envs.caching import Shared
from turnwise.envs.errors import UnknownOption, UnknownTask
from turnwise.envs.shop.catalogue import contents
from turnwise.envs.shop.generator.draws import Draws
from turnwise.envs.shop.generator.families import Must, Spec
from turnwise.envs.shop.generator.level import Level
from turnwise.envs.shop.generator.stock import SPLITS, Stock, name_of, stock
from turnwise.envs.shop.generator.wording import Wanted, word
from turnwise.envs.shop.goal import UNBOUNDED, Goal
from turnwise.envs.shop.product import Product
from turnwise.registry import suggest

__all__ = ["GeneratedGoals", "generated_goals"]

_DRAWN_FROM: Final = 10**6  # `draw` gives ids of six digits
_FIRST: Final = 0.5  # of the goals are about the first member of a family, from which all others differ in one thing
_NUMBER: Final = re.compile(r"[0-9]{6,12}")


def generated_goals(split: str, level: Level | str = "small", seed: int = 0) -> GeneratedGoals:
    """Return the goals of a split over the catalogue of a level and a seed.

    Args:
        split: "train" or "held_out"; no product is the subject of goals of both.
        level: size and difficulty, or their text.
        seed: of the catalogue.

    Raises:
        UnknownOption: no such split, no such level, or a catalogue too small to hold anything out.
    """
    known = Level.parse(level) if isinstance(level, str) else level
    return _GOALS.get((split, known, seed), lambda: GeneratedGoals(split, known, seed))


class GeneratedGoals:
    """The goals of one split, numbered from 0 on."""

    def __init__(self, split: str, level: Level, seed: int = 0) -> None:
        """See `generated_goals`, which shares them."""
        if split not in SPLITS:
            raise UnknownOption(f"generated goals have no split {split!r}{suggest(split, SPLITS)}")
        self.split, self.level, self.seed = split, level, seed
        self.prefix = f"{split}/{name_of(level, seed)}/"
        self._stock = stock(level, seed)
        self._subjects = Draws(f"order {self.prefix}").some(_subjects(self._stock, split), len(self._stock.families))
        if not self._subjects:
            raise UnknownOption(
                f"a catalogue of level {level.text!r} is too small for a split {split!r}: more products are needed"
            )

    def ids(self, count: int | None = None, start: int = 0) -> list[str]:
        """Return so many ids from number `start` on, 1,000 if no count is given, without making the goals."""
        return [f"{self.prefix}{number:06d}" for number in range(start, start + (1000 if count is None else count))]

    def draw(self, rng: Any) -> str:
        """Return the id of one of the first million goals, drawn with a numpy Generator or a `random.Random`."""
        number = rng.integers(_DRAWN_FROM) if hasattr(rng, "integers") else rng.randrange(_DRAWN_FROM)
        return f"{self.prefix}{int(number):06d}"

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: the text is not an id of these goals.
        """
        number = id.removeprefix(self.prefix) if isinstance(id, str) else ""
        if id == number or not _NUMBER.fullmatch(number) or f"{int(number):06d}" != number:
            raise UnknownTask(
                f"unknown task {id!r} among generated goals: their ids are like {self.prefix + '000012'!r}"
            )
        return self._make(int(number), Draws(f"goal {id}"))

    def product(self, goal: Goal) -> Product:
        """Return the product of which a goal was made."""
        found = self._stock.catalogue.get(goal.asin)
        if found is None:
            raise UnknownTask(f"the goal's product {goal.asin!r} is not in the catalogue {self.level.text!r}")
        return found

    def _make(self, number: int, draws: Draws) -> Goal:
        subjects = self._subjects[number % len(self._subjects)]
        family, member = subjects[0] if draws.chance(_FIRST) else draws.one(subjects)
        spec = self._stock.families[family].members[member]
        product = self._stock.catalogue.get(self._stock.asins[family][member])
        assert product is not None
        wanted = _draw_wanted(draws, self.level, spec, self._stock.families[family].musts[member], product)
        return Goal(
            asin=product.asin,
            category=product.category,
            query=product.query,
            name=product.name,
            product_category=product.product_category,
            instruction=word(draws, self.level, wanted),
            attributes=(*(one.name for one in wanted.features), *([wanted.brand.lower()] if wanted.brand else [])),
            price_upper=UNBOUNDED if wanted.bound is None else float(wanted.bound),
            options=dict(wanted.values),
        )


_GOALS: Final[Shared[GeneratedGoals]] = Shared(8)


def _subjects(stock: Stock, split: str) -> tuple[tuple[tuple[int, int], ...], ...]:
    """For each family of a split, (family, member) of those that goals can be made of."""
    return tuple(
        tuple((number, member) for member, must in enumerate(stock.families[number].musts) if must.possible)
        for number in stock.splits[split]
    )


def _draw_wanted(draws: Draws, level: Level, spec: Spec, must: Must, product: Product) -> Wanted:
    """Return what has to be asked for, and more until it is as much as the level wants."""
    wished = {one.name for one in must.features}
    count = draws.between(level.ask_attributes)
    found = {one.name for one in spec.features if one.name in contents(product)}
    if wished and not wished & found:  # what search does not read is never asked for alone
        count = min(max(count, len(wished) + 1), level.ask_attributes[1])
    rest = draws.some([one.name for one in spec.features if one.name not in wished], len(spec.features))
    rest.sort(key=lambda name: name not in found)
    wished |= set(rest[: max(count - len(wished), 0)])
    values = dict(must.values)
    others = draws.some([(name, draws.one(offered)) for name, offered in spec.choices if name not in values], 9)
    values |= dict(others[: max(draws.between(level.ask_options) - len(values), 0)])
    return Wanted(
        spec.kind,
        tuple(one for one in spec.features if one.name in wished),
        tuple((name, values[name]) for name, _ in spec.choices if name in values),
        spec.brand if must.brand else "",
        _draw_bound(draws, level, spec.price, must.below),
    )


def _draw_bound(draws: Draws, level: Level, price: float, below: float) -> int | None:
    """Return whole dollars from the price on, and below what a dearer look-alike costs; None for no bound."""
    least, most = level.slack
    bound = math.ceil(price * (1 + least + (most - least) * draws.uniform()))
    asked = draws.chance(level.priced)
    if below < math.inf:
        return min(bound, math.floor(below))  # a price is never a whole number of dollars
    return bound if asked else None
