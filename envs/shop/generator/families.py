"""Product families: a product and look-alikes that differ from it in exactly one respect.

A look-alike has another feature of one facet, another value of an option, a higher price, or another brand. For each
member, `GoalRequirements` says what a goal must ask for so that no other member of the family satisfies it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from turncredit.envs.shop.generator.level import ShopLevel
from turncredit.envs.shop.generator.stable_random import StableRandom
from turncredit.envs.shop.generator.vocabulary import BRANDS, Feature, ProductKind

__all__ = ["GoalRequirements", "ProductFamily", "ProductSpec", "draw_family"]

T = TypeVar("T")
_CENTS: Final = (0.99, 0.95, 0.49, 0.79)  # never a whole dollar, so that "less than" and "at most" agree


@dataclass(frozen=True, slots=True)
class ProductSpec:
    """The properties of a product.

    Attributes:
        kind, brand: kind and brand.
        features: one for each of some facets, in the order of the facets.
        choices: name and values of each option.
        price: dollars.
    """

    kind: ProductKind
    brand: str
    features: tuple[Feature, ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    price: float


@dataclass(frozen=True, slots=True)
class GoalRequirements:
    """What a goal for one member of a family must ask for, so that no other member satisfies it.

    Attributes:
        features, values: required features, and required option values by name.
        below: price of the cheapest more expensive member, which the price limit must exclude; infinite without one.
        brand: whether the goal must name the brand.
        possible: whether such a goal exists; there is none for a member that only costs more.
    """

    features: tuple[Feature, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    below: float = math.inf
    brand: bool = False
    possible: bool = True


@dataclass(frozen=True, slots=True)
class ProductFamily:
    """A product (the first member), its look-alikes, and the requirements of a goal for each."""

    members: tuple[ProductSpec, ...]
    requirements: tuple[GoalRequirements, ...]


def draw_family(rng: StableRandom, level: ShopLevel, kind: ProductKind, size: int) -> ProductFamily:
    """Return a family with `size` members."""
    base = _draw_spec(rng, level, kind)
    builder = _FamilyBuilder(rng, level, base)
    axes = rng.some((builder.feature, builder.value, builder.price), 3)
    if rng.chance(level.brands):
        axes.insert(0, builder.brand)
    turn = 0
    while len(builder.members) < size:
        axis = axes[turn % len(axes)] if turn < 4 * size else builder.price  # a higher price is always possible
        if axis == builder.brand and turn:
            axis = builder.price
        axis()
        turn += 1
    return builder.family()


def _draw_spec(rng: StableRandom, level: ShopLevel, kind: ProductKind) -> ProductSpec:
    facets = kind.facets[: rng.between(level.attributes)]
    names = sorted(rng.some(range(len(kind.options)), rng.between(level.options)))
    low, high = kind.prices
    return ProductSpec(
        kind,
        rng.one(_first(BRANDS[kind.department], level)),
        tuple(rng.one(_first(facet, level)) for facet in facets),
        tuple(_draw_values(rng, level, kind, index) for index in names),
        _priced(rng, low * (high / low) ** rng.uniform()),
    )


def _draw_values(rng: StableRandom, level: ShopLevel, kind: ProductKind, number: int) -> tuple[str, tuple[str, ...]]:
    option = kind.options[number]
    pool = _pool(option.values, level)
    count = min(rng.between(level.values), max(len(pool) - 1, 2))
    indices = sorted(rng.some(range(len(pool)), count))
    return option.name, tuple(pool[index] for index in indices)


def _first(things: tuple[T, ...], level: ShopLevel) -> tuple[T, ...]:
    return things[: level.variety]


def _pool(values: tuple[str, ...], level: ShopLevel) -> tuple[str, ...]:
    """Return the values that an option may have: two more than the level shows, which leaves some for look-alikes."""
    return values[: max(level.variety, level.values[1]) + 2]


def _priced(rng: StableRandom, dollars: float) -> float:
    return round(max(math.floor(dollars), 1) + rng.one(_CENTS), 2)


class _FamilyBuilder:
    """Builds a family; each method adds one look-alike, or none where that is impossible."""

    def __init__(self, rng: StableRandom, level: ShopLevel, base: ProductSpec) -> None:
        self.rng, self.level, self.base = rng, level, base
        self.members = [base]
        self.requirements = [GoalRequirements()]
        asked = level.ask_attributes[0]
        self.swapped = sorted(rng.some(range(len(base.features)), min(asked, len(base.features))))
        self.chosen = rng.some(range(len(base.choices)), max(level.ask_options[0], 1))
        self.lost = {index: rng.one(base.choices[index][1]) for index in self.chosen}
        self.turns = {"feature": 0, "value": 0}

    def feature(self) -> None:
        """Add a look-alike with another feature of one facet."""
        index = self.swapped[self._turn("feature") % len(self.swapped)]
        facet = next(facet for facet in self.base.kind.facets if self.base.features[index] in facet)
        used = {member.features[index].name for member in self.members}
        free = [feature for feature in _first(facet, self.level) if feature.name not in used]
        if not free:
            return
        other = self.rng.one(free)
        features = (*self.base.features[:index], other, *self.base.features[index + 1 :])
        self._add(replace(self.base, features=features), GoalRequirements(features=(other,)))
        old = self.base.features[index]
        if old not in self.requirements[0].features:
            self.requirements[0] = replace(self.requirements[0], features=(*self.requirements[0].features, old))

    def value(self) -> None:
        """Add a look-alike that offers another value of an option in place of one."""
        if not self.chosen:
            return
        index = self.chosen[self._turn("value") % len(self.chosen)]
        name, values = self.base.choices[index]
        option = next(option for option in self.base.kind.options if option.name == name)
        used = {value for member in self.members for value in member.choices[index][1]}
        free = [value for value in _pool(option.values, self.level) if value not in used]
        if not free:
            return
        old, new = self.lost[index], self.rng.one(free)
        others = tuple(value for value in option.values if value == new or (value in values and value != old))
        choices = (*self.base.choices[:index], (name, others), *self.base.choices[index + 1 :])
        self._add(replace(self.base, choices=choices), GoalRequirements(values=((name, new),)))
        if (name, old) not in self.requirements[0].values:
            self.requirements[0] = replace(self.requirements[0], values=(*self.requirements[0].values, (name, old)))

    def price(self) -> None:
        """Add a look-alike that costs more."""
        price = self.base.price
        dearer = _priced(self.rng, max(price * (1.2 + 0.8 * self.rng.uniform()), price + 2))
        self._add(replace(self.base, price=dearer), GoalRequirements(possible=False))
        self.requirements[0] = replace(self.requirements[0], below=min(self.requirements[0].below, dearer))

    def brand(self) -> None:
        """Add a look-alike of another brand."""
        brands = [brand for brand in _first(BRANDS[self.base.kind.department], self.level) if brand != self.base.brand]
        self._add(replace(self.base, brand=self.rng.one(brands)), GoalRequirements(brand=True))
        self.requirements[0] = replace(self.requirements[0], brand=True)

    def family(self) -> ProductFamily:
        """Return the family."""
        return ProductFamily(tuple(self.members), tuple(self.requirements))

    def _add(self, spec: ProductSpec, must: GoalRequirements) -> None:
        self.members.append(spec)
        self.requirements.append(must)

    def _turn(self, name: str) -> int:
        self.turns[name] += 1
        return self.turns[name] - 1
