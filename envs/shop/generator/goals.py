"""An unlimited number of goals over a generated catalogue; the task id determines the goal.

An id is SPLIT/LEVEL/NUMBER, such as "held_out/small/000012", or "train/small@7/000003" for the catalogue of seed 7.

The splits are disjoint by construction: each product family (see `families`) belongs to one split, and a goal is made
of a product of its own split. No product that a held-out goal asks for is the target of any training goal, although it
may appear among search results.
"""

from __future__ import annotations

import math
import re
from random import Random
from typing import Final

import numpy as np

from turncredit.envs.caching import SharedObjects
from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.shop.catalogue import contents
from turncredit.envs.shop.generator.families import GoalRequirements, ProductSpec
from turncredit.envs.shop.generator.generated_catalogue import SPLITS, GeneratedCatalogue, generated_catalogue, name_of
from turncredit.envs.shop.generator.goal_text import GoalContents, goal_sentence
from turncredit.envs.shop.generator.level import ShopLevel
from turncredit.envs.shop.generator.stable_random import StableRandom
from turncredit.envs.shop.goal import UNBOUNDED, Goal
from turncredit.envs.shop.product import Product
from turncredit.registry import suggest

__all__ = ["GeneratedGoals", "generated_goals"]

_DRAWN_FROM: Final = 10**6  # `draw` gives ids of six digits
_FIRST: Final = 0.5  # share of goals about the first member of a family
_NUMBER: Final = re.compile(r"[0-9]{6,12}")


def generated_goals(split: str, level: ShopLevel | str = "small", seed: int = 0) -> GeneratedGoals:
    """Return the goals of a split over the catalogue of a level and a seed.

    Args:
        split: "train" or "held_out"; no product is the target of goals of both.
        level: size and difficulty, or their text.
        seed: seed of the catalogue.

    Raises:
        UnknownOption: there is no such split or level, or the catalogue is too small for the split.
    """
    parsed = ShopLevel.parse(level) if isinstance(level, str) else level
    return _GOALS.get((split, parsed, seed), lambda: GeneratedGoals(split, parsed, seed))


class GeneratedGoals:
    """The goals of one split, numbered from 0 on."""

    def __init__(self, split: str, level: ShopLevel, seed: int = 0) -> None:
        """See `generated_goals`, which caches instances."""
        if split not in SPLITS:
            raise UnknownOption(f"unknown split {split!r} of generated goals{suggest(split, SPLITS)}")
        self.split, self.level, self.seed = split, level, seed
        self.prefix = f"{split}/{name_of(level, seed)}/"
        self._generated = generated_catalogue(level, seed)
        self._subjects = StableRandom(f"order {self.prefix}").some(
            _subjects(self._generated, split), len(self._generated.families)
        )
        if not self._subjects:
            raise UnknownOption(
                f"a catalogue of level {level.text!r} is too small for a split {split!r}; increase products"
            )

    def ids(self, count: int | None = None, start: int = 0) -> list[str]:
        """Return `count` ids (1,000 by default) from number `start` on, without making the goals."""
        return [f"{self.prefix}{number:06d}" for number in range(start, start + (1000 if count is None else count))]

    def draw(self, rng: np.random.Generator | Random) -> str:
        """Return the id of one of the first million goals, drawn with a numpy Generator or a `random.Random`."""
        number = rng.randrange(_DRAWN_FROM) if isinstance(rng, Random) else rng.integers(_DRAWN_FROM)
        return f"{self.prefix}{int(number):06d}"

    def get(self, id: str) -> Goal:
        """Return the goal of an id.

        Raises:
            UnknownTask: the id does not belong to these goals.
        """
        number = id.removeprefix(self.prefix) if isinstance(id, str) else ""
        if id == number or not _NUMBER.fullmatch(number) or f"{int(number):06d}" != number:
            raise UnknownTask(f"unknown task {id!r}; ids look like {self.prefix + '000012'!r}")
        return self._make(int(number), StableRandom(f"goal {id}"))

    def product(self, goal: Goal) -> Product:
        """Return the product that a goal was made of."""
        product = self._generated.catalogue.get(goal.asin)
        if product is None:
            raise UnknownTask(f"the goal's product {goal.asin!r} is not in the catalogue {self.level.text!r}")
        return product

    def _make(self, number: int, rng: StableRandom) -> Goal:
        subjects = self._subjects[number % len(self._subjects)]
        family, member = subjects[0] if rng.chance(_FIRST) else rng.one(subjects)
        spec = self._generated.families[family].members[member]
        product = self._generated.catalogue.get(self._generated.asins[family][member])
        assert product is not None
        requirements = _draw_wanted(
            rng, self.level, spec, self._generated.families[family].requirements[member], product
        )
        return Goal(
            asin=product.asin,
            category=product.category,
            query=product.query,
            name=product.name,
            product_category=product.product_category,
            instruction=goal_sentence(rng, self.level, requirements),
            attributes=(
                *(feature.name for feature in requirements.features),
                *([requirements.brand.lower()] if requirements.brand else []),
            ),
            price_upper=UNBOUNDED if requirements.bound is None else float(requirements.bound),
            options=dict(requirements.values),
        )


_GOALS: Final[SharedObjects[GeneratedGoals]] = SharedObjects(8)


def _subjects(generated: GeneratedCatalogue, split: str) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return for each family of a split the (family, member) pairs that goals can be made of."""
    return tuple(
        tuple((number, member) for member, must in enumerate(generated.families[number].requirements) if must.possible)
        for number in generated.splits[split]
    )


def _draw_wanted(
    rng: StableRandom, level: ShopLevel, spec: ProductSpec, must: GoalRequirements, product: Product
) -> GoalContents:
    """Return the necessary requirements and as many more as the level asks for."""
    wished = {feature.name for feature in must.features}
    count = rng.between(level.ask_attributes)
    stated = {feature.name for feature in spec.features if feature.name in contents(product)}
    if wished and not wished & stated:  # a hidden feature is never asked for alone
        count = min(max(count, len(wished) + 1), level.ask_attributes[1])
    remaining = rng.some([feature.name for feature in spec.features if feature.name not in wished], len(spec.features))
    remaining.sort(key=lambda name: name not in stated)
    wished |= set(remaining[: max(count - len(wished), 0)])
    values = dict(must.values)
    others = rng.some([(name, rng.one(offered)) for name, offered in spec.choices if name not in values], 9)
    values |= dict(others[: max(rng.between(level.ask_options) - len(values), 0)])
    return GoalContents(
        spec.kind,
        tuple(feature for feature in spec.features if feature.name in wished),
        tuple((name, values[name]) for name, _ in spec.choices if name in values),
        spec.brand if must.brand else "",
        _draw_bound(rng, level, spec.price, must.below),
    )


def _draw_bound(rng: StableRandom, level: ShopLevel, price: float, below: float) -> int | None:
    """Return whole dollars above the price and below any more expensive look-alike; None for no bound."""
    least, most = level.slack
    bound = math.ceil(price * (1 + least + (most - least) * rng.uniform()))
    asked = rng.chance(level.priced)
    if below < math.inf:
        return min(bound, math.floor(below))  # prices are never whole dollars
    return bound if asked else None
