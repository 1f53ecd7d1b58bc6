"""Checks of the options of reset()."""

from __future__ import annotations

import math
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from turncredit.envs.errors import UnknownOption
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.goal_sources import GoalSource
from turncredit.envs.shop.session import Shop

__all__ = ["digest_of", "goal_of", "prices_of", "session_name"]


def goal_of(value: Any, source: GoalSource) -> Goal:
    """Return a complete goal, given as a `Goal` or as a mapping.

    Raises:
        UnknownOption: it is not a goal, or the shop does not have its product.
    """
    goal = value if isinstance(value, Goal) else Goal.of(value)
    if source.shop.catalogue.get(goal.asin) is None:
        which = "the first catalogue" if getattr(source, "count", 1) > 1 else "the catalogue"
        raise UnknownOption(f"the goal's product {goal.asin!r} is not in {which}")
    return goal


def digest_of(goal: Goal) -> str:
    """Return a digest that identifies a goal."""
    return blake2b(repr(sorted(goal.as_dict().items())).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def prices_of(prices: object, shop: Shop) -> dict[str, float]:
    """Return the prices of an episode.

    Raises:
        UnknownOption: they are not a mapping of product ids of the shop to dollars.
    """
    if prices is None:
        return {}
    if not isinstance(prices, Mapping):
        raise UnknownOption(f"prices must be a mapping of product ids to dollars, got {prices!r}")
    for asin, price in prices.items():
        if not isinstance(asin, str) or shop.catalogue.get(asin) is None:
            raise UnknownOption(f"prices contain the product {asin!r}, which is not in the catalogue")
        if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price):
            raise UnknownOption(f"the price of {asin} must be a number of dollars, got {price!r}")
    return {asin: float(price) for asin, price in prices.items()}


def session_name(session: object) -> str:
    """Return the name of a session.

    Raises:
        UnknownOption: it is not a string of 1 to 1,000 characters.
    """
    if not isinstance(session, str) or not session or len(session) > 1000:
        raise UnknownOption(f"session must be a name of 1 to 1,000 characters, got {session!r}")
    return session
