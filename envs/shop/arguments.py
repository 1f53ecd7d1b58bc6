"""What a user gives to the shop's environment, checked: arguments, and options of reset().

Left out on purpose: paths (`sources`), and what the shop's own parts check.
"""

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

__all__ = ["digest_of", "files_only", "goal_of", "ours_only", "prices_of", "reading", "session_name"]


def files_only(given: Mapping[str, tuple[object, object]]) -> None:
    """Refuse arguments that are about files.

    Args:
        given: name -> value, and what it is where it was not given.

    Raises:
        UnknownOption: one was given.
    """
    for name, (value, absent) in given.items():
        if value != absent:
            raise UnknownOption(f"{name} goes with products=PATH; our own catalogue takes none")


def ours_only(given: Mapping[str, tuple[object, object]]) -> None:
    """Refuse arguments that are about our own catalogues, as `files_only` does those about files.

    Raises:
        UnknownOption: one was given.
    """
    for name, (value, absent) in given.items():
        if value != absent:
            raise UnknownOption(f"{name} is about our own catalogues; with products=PATH there is one, the file's")


def reading(cache: object, keep: object, limit: object) -> None:
    """Check how files are read.

    Raises:
        UnknownOption: `cache` is no path and no bool, `keep` no function, or `limit` no number from 1 on.
    """
    if not isinstance(cache, bool | str | os.PathLike):
        raise UnknownOption(f"cache is {cache!r}; it is True, False or the path of a folder")
    if keep is not None and not callable(keep):
        raise UnknownOption(f"keep is {keep!r}; it is a function of a number and a goal, or None")
    if limit is not None:
        integer("limit", limit, 1)


def goal_of(given: Any, source: GoalSource) -> Goal:
    """Return a goal that is given whole, as such or as a mapping.

    Raises:
        UnknownOption: it is none, or about a product that the shop does not have.
    """
    goal = given if isinstance(given, Goal) else Goal.of(given)
    if source.shop.catalogue.get(goal.asin) is None:
        several = ", the first of several" if getattr(source, "count", 1) > 1 else ""
        raise UnknownOption(f"the goal's product {goal.asin!r} is not in the catalogue{several}")
    return goal


def digest_of(goal: Goal) -> str:
    """Return what tells a goal from others."""
    return blake2b(repr(sorted(goal.as_dict().items())).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def prices_of(given: object, shop: Shop) -> dict[str, float]:
    """Return prices that hold in one episode.

    Raises:
        UnknownOption: they are not dollars by id of products in the shop.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise UnknownOption(f"prices are dollars by product id, in a mapping; got {given!r}")
    for asin, price in given.items():
        if not isinstance(asin, str) or shop.catalogue.get(asin) is None:
            raise UnknownOption(f"prices name the product {asin!r}, which is not in the catalogue")
        if isinstance(price, bool) or not isinstance(price, int | float) or not math.isfinite(price):
            raise UnknownOption(f"the price of {asin} is {price!r}; it is a number of dollars")
    return {asin: float(price) for asin, price in given.items()}


def session_name(given: object) -> str:
    """Return the name of a session.

    Raises:
        UnknownOption: it is no str, empty, or longer than 1,000 characters.
    """
    if not isinstance(given, str) or not given or len(given) > 1000:
        raise UnknownOption(f"session is {given!r}; it is a name of 1 to 1,000 characters")
    return given
