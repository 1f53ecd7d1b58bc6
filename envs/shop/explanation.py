"""Explains a reward part by part: what was asked for, what was bought, what matched and where.

The parts come from the functions that compute the reward, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from turncredit.envs.shop.goal import UNBOUNDED, Goal
from turncredit.envs.shop.matching import attribute_match, option_keys, option_match
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.reward import Reward, RewardFunction

__all__ = ["AttributePart", "OptionPart", "PricePart", "RewardExplanation", "TypePart", "explain"]


@dataclass(frozen=True, slots=True)
class TypePart:
    """The kind of product.

    Attributes:
        value: factor of the reward.
        reason: the reason as a clause.
        query_match, category_match, title_score: see `Reward`.
        shared: nouns in both titles, in alphabetical order.
        missing: nouns that only the goal's title contains, in alphabetical order.
    """

    value: float
    reason: str
    query_match: bool
    category_match: bool
    title_score: float
    shared: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AttributePart:
    """One attribute of the goal.

    Attributes:
        attribute: the attribute.
        matched: whether the product has it.
        where: "attributes", "title", "features" or "description"; None without a match.
        text: the matching text; None without a match.
    """

    attribute: str
    matched: bool
    where: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class OptionPart:
    """One option of the goal.

    Attributes:
        name: name of the option; "" if the goal gives only the value.
        value: the value.
        matched: whether a selected value satisfies it.
        chosen: the value that satisfies it, else the selected value of the option of that name, else None.
        offered: whether the product offers a value that satisfies it.
        defect: whether exactly this value was selected and the original rule does not count it (see `matching`).
    """

    name: str
    value: str
    matched: bool
    chosen: str | None
    offered: bool
    defect: bool


@dataclass(frozen=True, slots=True)
class PricePart:
    """The price.

    Attributes:
        paid: dollars.
        bound: limit in dollars; None if the goal has none.
        matched: whether the price is within the limit.
    """

    paid: float
    bound: float | None
    matched: bool


@dataclass(frozen=True, slots=True)
class RewardExplanation:
    """A reward with the reason for each part."""

    reward: Reward
    type: TypePart
    attributes: tuple[AttributePart, ...]
    options: tuple[OptionPart, ...]
    price: PricePart

    @property
    def points(self) -> int:
        """Number of requirements (attributes, options, price) that are satisfied."""
        parts: list[AttributePart | OptionPart | PricePart] = [*self.attributes, *self.options, self.price]
        return sum(part.matched for part in parts)

    @property
    def possible(self) -> int:
        """Number of requirements."""
        return len(self.attributes) + len(self.options) + 1

    def lines(self) -> list[str]:
        """Return one line of text for each part, and the total last."""
        lines = [f"type {self.type.value:g}: {self.type.reason}"]
        lines += [f"attribute {part.attribute!r}: {_attribute(part)}" for part in self.attributes]
        lines += [f"option {_named(part)!r}: {_option(part)}" for part in self.options]
        bound = "no limit" if self.price.bound is None else f"limit ${self.price.bound:,.2f}"
        lines.append(
            f"price ${self.price.paid:,.2f}, {bound}: {'within it' if self.price.matched else 'too expensive'}"
        )
        lines.append(f"reward {self.reward.total:.3f} = {self.type.value:g} x {self.points} / {self.possible}")
        return lines


def explain(
    reward_function: RewardFunction, product: Product, goal: Goal, price: float, options: Mapping[str, str]
) -> RewardExplanation:
    """Return the reward of a purchase (see `RewardFunction`) with the reason for each part."""
    reward = reward_function(product, goal, price, options)
    bound = None if goal.price_upper >= UNBOUNDED else goal.price_upper
    return RewardExplanation(
        reward,
        _type(reward_function, reward, product, goal),
        tuple(_attribute_part(product, attribute, reward_function.rule) for attribute in goal.attributes),
        tuple(_option_parts(reward_function.rule, product, goal, options)),
        PricePart(price, bound, reward.price),
    )


def _type(reward_function: RewardFunction, reward: Reward, product: Product, goal: Goal) -> TypePart:
    bought, sought = reward_function.nouns(product.name)[1], reward_function.nouns(goal.name)[1]
    return TypePart(
        reward.type,
        _reason(reward),
        reward.query_match,
        reward.category_match,
        reward.title_score,
        tuple(sorted(bought & sought)),
        tuple(sorted(sought - bought)),
    )


def _reason(reward: Reward) -> str:
    """Return the reason for the type: the first that applies in the order of the rule."""
    if reward.title_score == 0.0:
        return "the titles share no noun"
    if reward.title_score < 0.1:
        return "the titles share less than a tenth of the nouns"
    if reward.query_match:
        return "found by the same search"
    if reward.category_match:
        return "in the same categories"
    if reward.title_score > 0.2:
        return f"the titles share {reward.title_score:.0%} of the nouns"
    return "another kind of product: other search, other categories, at most a fifth of the title's nouns"


def _attribute_part(product: Product, attribute: str, rule: str) -> AttributePart:
    where, matched = attribute_match(product, attribute, rule) or (None, None)
    return AttributePart(attribute, where is not None, where, matched)


def _option_parts(rule: str, product: Product, goal: Goal, options: Mapping[str, str]) -> list[OptionPart]:
    requested = goal.options
    named = [("", value) for value in requested] if isinstance(requested, tuple) else list(requested.items())
    on_offer = [value for values in product.options.values() for value in values]
    parts = []
    for (name, value), key in zip(named, option_keys(goal, rule), strict=True):
        match = option_match(key, options.values(), rule)
        offered = option_match(key, on_offer, rule) is not None
        chosen = match if match is not None else options.get(name)
        exact = value in options.values() if name == "" else options.get(name) == value
        parts.append(OptionPart(name, value, match is not None, chosen, offered, match is None and exact))
    return parts


def _attribute(part: AttributePart) -> str:
    if not part.matched:
        return "not found"
    return f"among its attributes as {part.text!r}" if part.where == "attributes" else f"in its {part.where}"


def _named(part: OptionPart) -> str:
    return f"{part.name}: {part.value}" if part.name else part.value


def _option(part: OptionPart) -> str:
    if part.matched:
        return "selected" if part.chosen == part.value else f"satisfied by {part.chosen!r}"
    if part.defect:
        return "selected, but the original rule does not count it"
    chosen = "not selected" if part.chosen is None else f"{part.chosen!r} was selected"
    return chosen if part.offered else f"{chosen}; the product does not offer it"
