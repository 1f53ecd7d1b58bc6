"""Checks of the environment's arguments and of the options of reset()."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

from turnwise.envs.errors import UnknownOption
from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.goal_sources import GoalSource
from turnwise.envs.shop.session import Shop
from turnwise.envs.validation import integer

__all__ = ["check_reading", "digest_of", "goal_of", "prices_of", "refuse_given", "session_name"]


def refuse_given(arguments: Mapping[str, tuple[object, object]], why: str) -> None:
    """Refuse arguments that have no effect.

    Args:
        arguments: name -> value and default.
        why: completes the message after the name.

    Raises:
        UnknownOption: an argument differs from its default.
    """
    for name, (value, default) in arguments.items():
        if value != default:
            raise UnknownOption(f"{name} {why}")


def check_reading(cache: object, keep: object, limit: object) -> None:
    """Check the arguments about reading files.

    Raises:
        UnknownOption: `cache` is neither a path nor a bool, `keep` is not callable, or `limit` is not an integer >= 1.
    """
    if not isinstance(cache, bool | str | os.PathLike):
        raise UnknownOption(f"cache must be True, False or the path of a folder, got {cache!r}")
    if keep is not None and not callable(keep):
        raise UnknownOption(f"keep must be a function of a number and a goal, or None, got {keep!r}")
    if limit is not None:
        integer("limit", limit, 1)


def goal_of(given: Any, source: GoalSource) -> Goal:
    """Return a complete goal, given as a `Goal` or as a mapping.

    Raises:
        UnknownOption: it is not a goal, or the shop does not have its product.
    """
    goal = given if isinstance(given, Goal) else Goal.of(given)
    if source.shop.catalogue.get(goal.asin) is None:
        which = "the first catalogue" if getattr(source, "count", 1) > 1 else "the catalogue"
        raise UnknownOption(f"the goal's product {goal.asin!r} is not in {which}")
    return goal


def digest_of(goal: Goal) -> str:
    """Return a digest that identifies a goal."""
    return blake2b(repr(sorted(goal.as_dict().items())).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def prices_of(given: object, shop: Shop) -> dict[str, float]:
    """Return the prices of an episode.

    Raises:
        UnknownOption: they are not a mapping of product ids of the shop to dollars.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UnknownOption(f"prices must be a mapping of product ids to dollars, got {given!r}")
    for asin, price in given.items():
        if not isinstance(asin, str) or shop.catalogue.get(asin) is None:
            raise UnknownOption(f"prices contain the product {asin!r}, which is not in the catalogue")
        if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price):
            raise UnknownOption(f"the price of {asin} must be a number of dollars, got {price!r}")
    return {asin: float(price) for asin, price in given.items()}


def session_name(given: object) -> str:
    """Return the name of a session.

    Raises:
        UnknownOption: it is not a string of 1 to 1,000 characters.
    """
    if not isinstance(given, str) or not given or len(given) > 1000:
        raise UnknownOption(f"session must be a name of 1 to 1,000 characters, got {given!r}")
    return given
