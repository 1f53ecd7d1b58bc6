"""Families: a product and its look-alikes, each of which differs from it in one thing.

A look-alike takes another feature of one facet, swaps one value of an option, costs more, or is of another brand; all
else is equal. With each member goes what a goal has to ask for so that no other member of the family fulfils it.

Left out on purpose: words. Titles and texts are written in `writing.py`, sentences of goals in `wording.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from turnwise.envs.shop.generator.draws import Draws
from turnwise.envs.shop.generator.level import Level
from turnwise.envs.shop.generator.words import BRANDS, Feature, Kind

__all__ = ["Family", "Must", "Spec", "draw_family"]

T = TypeVar("T")
_CENTS: Final = (0.99, 0.95, 0.49, 0.79)  # never a whole dollar, so "less than" and "at most" agree


@dataclass(frozen=True, slots=True)
class Spec:
    """What a product is.

    Attributes:
        kind, brand, price: kind, brand, dollars.
        features: one of each of some facets, in the order of the facets.
        choices: name and values of each option.
    """

    kind: Kind
    brand: str
    features: tuple[Feature, ...]
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    price: float


@dataclass(frozen=True, slots=True)
class Must:
    """What a goal for one member of a family has to ask for, so that no other member will do.

    Attributes:
        features, values: features, and values of options by name.
        below: the price of the cheapest dearer member, which a bound has to exclude; infinite if there is none.
        brand: the brand has to be named.
        possible: there is such a goal; for a member that is only dearer there is none.
    """

    features: tuple[Feature, ...] = ()
    values: tuple[tuple[str, str], ...] = ()
    below: float = math.inf
    brand: bool = False
    possible: bool = True


@dataclass(frozen=True, slots=True)
class Family:
    """A product (the first member) and its look-alikes, and what their goals have to ask for."""

    members: tuple[Spec, ...]
    musts: tuple[Must, ...]


def draw_family(draws: Draws, level: Level, kind: Kind, size: int) -> Family:
    """Return a family of so many members."""
    base = _draw_spec(draws, level, kind)
    grower = _Grower(draws, level, base)
    axes = draws.some((grower.feature, grower.value, grower.price), 3)
    if draws.chance(level.brands):
        axes.insert(0, grower.brand)
    turn = 0
    while len(grower.members) < size:
        axis = axes[turn % len(axes)] if turn < 4 * size else grower.price  # which is always possible
        if axis == grower.brand and turn:
            axis = grower.price
        axis()
        turn += 1
    return grower.family()


def _draw_spec(draws: Draws, level: Level, kind: Kind) -> Spec:
    facets = kind.facets[: draws.between(level.attributes)]
    names = sorted(draws.some(range(len(kind.options)), draws.between(level.options)))
    low, high = kind.prices
    return Spec(
        kind,
        draws.one(_first(BRANDS[kind.department], level)),
        tuple(draws.one(_first(facet, level)) for facet in facets),
        tuple(_draw_values(draws, level, kind, place) for place in names),
        _priced(draws, low * (high / low) ** draws.uniform()),
    )


def _draw_values(draws: Draws, level: Level, kind: Kind, place: int) -> tuple[str, tuple[str, ...]]:
    option = kind.options[place]
    pool = _pool(option.values, level)
    count = min(draws.between(level.values), max(len(pool) - 1, 2))
    kept = sorted(draws.some(range(len(pool)), count))
    return option.name, tuple(pool[index] for index in kept)


def _first(things: tuple[T, ...], level: Level) -> tuple[T, ...]:
    return things[: level.variety]


def _pool(values: tuple[str, ...], level: Level) -> tuple[str, ...]:
    """Values that an option of the level may have: two more than it shows, so that look-alikes find others."""
    return values[: max(level.variety, level.values[1]) + 2]


def _priced(draws: Draws, dollars: float) -> float:
    return round(max(math.floor(dollars), 1) + draws.one(_CENTS), 2)


class _Grower:
    """Adds look-alikes to a family one by one; each method adds one of its sort, or none if that is impossible."""

    def __init__(self, draws: Draws, level: Level, base: Spec) -> None:
        self.draws, self.level, self.base = draws, level, base
        self.members = [base]
        self.musts = [Must()]
        asked = level.ask_attributes[0]
        self.swapped = sorted(draws.some(range(len(base.features)), min(asked, len(base.features))))
        self.chosen = draws.some(range(len(base.choices)), max(level.ask_options[0], 1))
        self.lost = {place: draws.one(base.choices[place][1]) for place in self.chosen}
        self.turns = {"feature": 0, "value": 0}

    def feature(self) -> None:
        """Add one that has another feature of one facet."""
        place = self.swapped[self._turn("feature") % len(self.swapped)]
        facet = next(facet for facet in self.base.kind.facets if self.base.features[place] in facet)
        used = {member.features[place].name for member in self.members}
        free = [feature for feature in _first(facet, self.level) if feature.name not in used]
        if not free:
            return
        other = self.draws.one(free)
        features = (*self.base.features[:place], other, *self.base.features[place + 1 :])
        self._add(replace(self.base, features=features), Must(features=(other,)))
        old = self.base.features[place]
        if old not in self.musts[0].features:
            self.musts[0] = replace(self.musts[0], features=(*self.musts[0].features, old))

    def value(self) -> None:
        """Add one that offers another value of an option instead of one of them."""
        if not self.chosen:
            return
        place = self.chosen[self._turn("value") % len(self.chosen)]
        name, values = self.base.choices[place]
        option = next(option for option in self.base.kind.options if option.name == name)
        used = {value for member in self.members for value in member.choices[place][1]}
        free = [value for value in _pool(option.values, self.level) if value not in used]
        if not free:
            return
        old, new = self.lost[place], self.draws.one(free)
        others = tuple(value for value in option.values if value == new or (value in values and value != old))
        choices = (*self.base.choices[:place], (name, others), *self.base.choices[place + 1 :])
        self._add(replace(self.base, choices=choices), Must(values=((name, new),)))
        if (name, old) not in self.musts[0].values:
            self.musts[0] = replace(self.musts[0], values=(*self.musts[0].values, (name, old)))

    def price(self) -> None:
        """Add one that costs more."""
        price = self.base.price
        dearer = _priced(self.draws, max(price * (1.2 + 0.8 * self.draws.uniform()), price + 2))
        self._add(replace(self.base, price=dearer), Must(possible=False))
        self.musts[0] = replace(self.musts[0], below=min(self.musts[0].below, dearer))

    def brand(self) -> None:
        """Add one of another brand."""
        brands = [brand for brand in _first(BRANDS[self.base.kind.department], self.level) if brand != self.base.brand]
        self._add(replace(self.base, brand=self.draws.one(brands)), Must(brand=True))
        self.musts[0] = replace(self.musts[0], brand=True)

    def family(self) -> Family:
        """Return what has grown."""
        return Family(tuple(self.members), tuple(self.musts))

    def _add(self, spec: Spec, must: Must) -> None:
        self.members.append(spec)
        self.musts.append(must)

    def _turn(self, name: str) -> int:
        self.turns[name] += 1
        return self.turns[name] - 1
