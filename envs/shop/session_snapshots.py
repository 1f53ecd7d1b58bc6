"""Saves a customer's session as plain data and restores it.

Search results and rewards are not saved, since they follow from the shop. The goal is saved in order to detect a shop
with different goals.
"""

from __future__ import annotations

import json
from typing import Final

from turncredit.envs.errors import BadSnapshot, UnknownOption, UnknownTask
from turncredit.envs.shop.arguments import prices_of, session_name
from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.goal_sources import GoalSource
from turncredit.envs.shop.session import SUBS, Page, ShopSession
from turncredit.envs.snapshot import Fields

__all__ = ["GIVEN", "saved_session", "session_of"]

GIVEN: Final = "goal:"
"""Prefix of the task id of a complete goal."""

_ITEMS: Final = ("item", "sub", "done")
_KINDS: Final = ("index", "results", *_ITEMS)


def saved_session(session: ShopSession) -> dict[str, object]:
    """Return a session as JSON values."""
    page = session.page
    return {
        "name": session.name,
        "goal": session.goal.as_dict(),
        "prices": session.prices,
        "visited": sorted(session.visited),
        "kind": page.kind,
        "keywords": list(page.keywords),
        "number": page.number,
        "asin": page.asin,
        "names": [name for name, _ in page.options],
        "values": [value for _, value in page.options],
        "sub": page.sub,
    }


def session_of(saved: Fields, source: GoalSource, task: str, *, numbered: bool = False) -> ShopSession:
    """Return the session that `saved_session` saved.

    Args:
        saved: its fields.
        source: the shop and its goals.
        task: id of the goal.
        numbered: see `ShopSession`.

    Raises:
        BadSnapshot: it is damaged, or belongs to another shop.
    """
    shop = source.shop_of(task)
    try:
        goal = _goal(saved, source, task)
        name, prices = session_name(saved.get("name", str)), prices_of(saved.get("prices", dict), shop)
    except (UnknownOption, UnknownTask) as error:
        raise BadSnapshot(f"the snapshot does not belong to this shop: {error}") from error
    session = ShopSession(shop, goal, name, prices=prices, numbered=numbered)
    page = _page(saved)
    visited = saved.texts("visited")
    for asin in [*visited, *filter(None, [page.asin])]:
        if shop.catalogue.get(asin) is None:
            raise BadSnapshot(f"the snapshot contains the product {asin!r}, which is not in this shop")
    session.go(page)
    session.visited = set(visited)
    if page.kind == "done":
        session.reward = shop.reward_function(
            shop.product(page.asin), goal, session.price(page.asin), dict(page.options)
        )
    return session


def _goal(saved: Fields, source: GoalSource, task: str) -> Goal:
    """Return the goal; that of a known task must be the same in the shop."""
    described = saved.get("goal", dict)
    if task.startswith(GIVEN):
        goal = Goal.of(described)
        if source.shop.catalogue.get(goal.asin) is None:
            raise UnknownOption(f"the goal's product {goal.asin!r} is not in the catalogue")
        return goal
    goal = source.get(task)
    if json.dumps(goal.as_dict(), sort_keys=True) != json.dumps(described, sort_keys=True):
        raise BadSnapshot(f"the goal {task!r} differs between this shop and the snapshot")
    return goal


def _page(saved: Fields) -> Page:
    """Return the page of a session.

    Raises:
        BadSnapshot: there is no such page.
    """
    kind, sub, asin = saved.get("kind", str), saved.get("sub", str), saved.get("asin", str)
    keywords = tuple(saved.texts("keywords"))
    names, values = saved.texts("names"), saved.texts("values")
    if kind not in _KINDS:
        raise saved.wrong("kind", f"one of {', '.join(_KINDS)}")
    if len(names) != len(values):
        raise saved.wrong("values", "as many strings as there are names")
    if (sub in SUBS) != (kind == "sub"):
        raise saved.wrong("sub", "the name of a sub-page, and only there")
    if bool(asin) != (kind in _ITEMS):
        raise saved.wrong("asin", "the id of a product, and only on a product's page")
    if kind == "results" and not keywords:
        raise saved.wrong("keywords", "at least one word, on a page of results")
    return Page(kind, keywords, saved.get("number", int), asin, tuple(zip(names, values, strict=True)), sub)
