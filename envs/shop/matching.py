"""What counts as a match between a purchase and a goal: type, attributes and options.

Two rules. "original" is the original's, with its defects: a goal's options that come with names are compared as the
text of a Python pair, and their colours are shortened only when a part of the pair is the bare name of a colour, while
the colours of what was bought always are; so some goals cannot be fulfilled. "fixed" shortens colours on both sides,
compares values with values, and lets equal texts match even when they hold no letter or digit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from turnwise.envs.shop.colours import COLOURS, colour_of
from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.product import Product
from turnwise.envs.shop.text_similarity import alike

__all__ = ["RULES", "TypeMatch", "attribute_match", "fulfils", "option_keys", "option_match", "type_match"]

RULES: Final = ("original", "fixed")
"""The rules of the reward."""


@dataclass(frozen=True, slots=True)
class TypeMatch:
    """How the kind of what was bought compares with the kind that the goal asks for.

    Attributes:
        value: the factor of the reward: 1, 0.5, 0.1 or 0.
        query_match: both were found under the same search.
        category_match: their paths of categories share two names or more.
        title_score: share of the nouns of the goal's title that the bought title has; 0.2 when the goal's has none.
    """

    value: float
    query_match: bool
    category_match: bool
    title_score: float


def type_match(product: Product, goal: Goal, bought: frozenset[str], wanted: list[str]) -> TypeMatch:
    """Return how well the kind of the product fits.

    Args:
        product: what was bought.
        goal: what was asked for.
        bought: nouns of the product's title.
        wanted: nouns of the goal's title, repeated where they repeat.
    """
    query = product.query == goal.query
    category = len(_segments(product.product_category) & _segments(goal.product_category)) >= 2
    title = len(bought.intersection(wanted)) / len(wanted) if wanted else 0.2
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
    """Return where a product has an attribute, or None when it has not.

    Returns:
        ("attributes", the product's attribute that is alike), or ("title" | "features" | "description", the attribute).
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
    """Return the texts that the values of bought options are compared with, one for each option of the goal."""
    options = goal.options
    if isinstance(options, tuple):
        return tuple(colour_of(value) for value in options)
    if rule == "fixed":
        return tuple(colour_of(value) for value in options.values())
    return tuple(_pair(name, value) for name, value in options.items())


@lru_cache(maxsize=1 << 16)
def _pair(name: str, value: str) -> str:
    """Return what the original compares for a named option: the colour that one of the two is, or both as a pair."""
    return next((colour for colour in COLOURS if colour in (name, value)), str((name, value)))


def option_match(key: str, values: Iterable[str], rule: str) -> str | None:
    """Return the first bought value that fulfils an option of the goal (see `option_keys`), or None."""
    return next((value for value in values if fulfils(value, key, rule)), None)


@lru_cache(maxsize=1 << 17)
def fulfils(value: str, key: str, rule: str) -> bool:
    """Return whether a bought value fulfils an option of the goal, given as its key (see `option_keys`)."""
    bought = colour_of(value)
    return alike(bought, key) or (rule == "fixed" and bought == key)
