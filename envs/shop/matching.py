"""Matching of a purchase with a goal: type, attributes and options.

The rule "original" is WebShop's, including its defects: a goal's named option is compared as the text of a Python pair
and shortened to a colour only if name or value is exactly a colour, whereas the selected value is always shortened, so
some goals cannot be satisfied. The rule "fixed" shortens both sides, compares values with values, and lets equal texts
match even if they contain no letter or digit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turncredit.envs.shop.colours import COLOURS, colour_of
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.text_similarity import alike

__all__ = ["RULES", "TypeMatch", "attribute_match", "fulfils", "option_keys", "option_match", "type_match"]

RULES: Final = ("original", "fixed")
"""The rules of the reward."""


@dataclass(frozen=True, slots=True)
class TypeMatch:
    """How the kind of the purchase compares with the kind that the goal asks for.

    Attributes:
        value: factor of the reward: 1, 0.5, 0.1 or 0.
        query_match: whether both belong to the same search.
        category_match: whether their category paths share at least two names.
        title_score: share of the nouns in the goal's title that the purchased title contains; 0.2 without nouns.
    """

    value: float
    query_match: bool
    category_match: bool
    title_score: float


def type_match(product: Product, goal: Goal, bought: frozenset[str], sought: list[str]) -> TypeMatch:
    """Return how well the kind of a product fits a goal.

    Args:
        product: the purchase.
        goal: the goal.
        bought: nouns of the product's title.
        sought: nouns of the goal's title, repeated where they repeat.
    """
    query = product.query == goal.query
    category = len(_segments(product.product_category) & _segments(goal.product_category)) >= 2
    title = len(bought.intersection(sought)) / len(sought) if sought else 0.2
    if title == 0.0:
        value = 0.0
    elif title < 0.1:
        value = 0.1
    else:
        value = 1.0 if query or category or title > 0.2 else 0.5
    return TypeMatch(value, query, category, title)


@lru_cache(maxsize=1 << 14)
def _segments(path: str) -> frozenset[str]:
    return frozenset(part.strip() for part in path.split("›"))


def attribute_match(product: Product, attribute: str, rule: str) -> tuple[str, str] | None:
    """Return where a product has an attribute, or None.

    Returns:
        ("attributes", the similar attribute of the product), or ("title" | "features" | "description", the attribute).
    """
    for own in product.attributes:
        if alike(own, attribute) or (rule == "fixed" and own == attribute):
            return "attributes", own
    if attribute in product.name.lower():
        return "title", attribute
    if attribute in " ".join(product.bullets).lower():
        return "features", attribute
    if attribute in product.description.lower():
        return "description", attribute
    return None


def option_keys(goal: Goal, rule: str) -> tuple[str, ...]:
    """Return the texts that selected values are compared with, one for each option of the goal."""
    options = goal.options
    if isinstance(options, tuple):
        return tuple(colour_of(value) for value in options)
    if rule == "fixed":
        return tuple(colour_of(value) for value in options.values())
    return tuple(_pair(name, value) for name, value in options.items())


@lru_cache(maxsize=1 << 16)
def _pair(name: str, value: str) -> str:
    """Return what WebShop compares for a named option: a colour that name or value equals, or both as a pair."""
    return next((colour for colour in COLOURS if colour in (name, value)), str((name, value)))


def option_match(key: str, values: Iterable[str], rule: str) -> str | None:
    """Return the first selected value that satisfies an option of the goal (see `option_keys`), or None."""
    return next((value for value in values if fulfils(value, key, rule)), None)


@lru_cache(maxsize=1 << 17)
def fulfils(value: str, key: str, rule: str) -> bool:
    """Return whether a selected value satisfies an option of the goal, given by its key (see `option_keys`)."""
    bought = colour_of(value)
    return alike(bought, key) or (rule == "fixed" and bought == key)
