"""A customer's session as data, and back: the way to save an episode in the shop (see `env`).

What follows from the shop is not saved but looked up again: what a search lists, what a purchase was worth. A goal is
saved to be compared, so that a shop with other goods shows itself.
"""

from __future__ import annotations

import json
from typing import Any, Final

from turnwise.envs.errors import BadSnapshot, UnknownOption, UnknownTask
from turnwise.envs.shop.arguments import prices_of, session_name
from turnwise.envs.shop.goal import Goal
from turnwise.envs.shop.goal_sources import GoalSource
from turnwise.envs.shop.session import SUBS, Page, ShopSession
from turnwise.envs.snapshot import Fields

__all__ = ["GIVEN", "saved_session", "session_of"]

GIVEN: Final = "goal:"
"""What the task id of a goal that was given whole begins with."""

_ITEMS: Final = ("item", "sub", "done")
_KINDS: Final = ("index", "results", *_ITEMS)


def saved_session(session: ShopSession) -> dict[str, Any]:
    """Return a session, in what JSON can say."""
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


def session_of(saved: Fields, source: GoalSource, task: str) -> ShopSession:
    """Return the session of what `saved_session` gave.

    Args:
        saved: that.
        source: the shop, and its goals.
        task: id of the goal.

    Raises:
        BadSnapshot: it does not fit to this shop, or is none.
    """
    shop = source.shop_of(task)
    try:
        goal = _goal(saved, source, task)
        name, prices = session_name(saved.get("name", str)), prices_of(saved.get("prices", dict), shop)
    except (UnknownOption, UnknownTask) as error:
        raise BadSnapshot(f"the snapshot does not fit to this shop: {error}") from error
    session = ShopSession(shop, goal, name, prices=prices)
    page = _page(saved)
    visited = saved.texts("visited")
    for asin in [*visited, *filter(None, [page.asin])]:
        if shop.catalogue.get(asin) is None:
            raise BadSnapshot(f"the snapshot names the product {asin!r}, which is not in this shop")
    session.go(page)
    session.visited = set(visited)
    if page.kind == "done":
        session.reward = shop.reward_function(
            shop.product(page.asin), goal, session.price(page.asin), dict(page.options)
        )
    return session


def _goal(saved: Fields, source: GoalSource, task: str) -> Goal:
    """Return the goal: of a known task the shop's own, which has to be the same."""
    described = saved.get("goal", dict)
    if task.startswith(GIVEN):
        goal = Goal.of(described)
        if source.shop.catalogue.get(goal.asin) is None:
            raise UnknownOption(f"the goal's product {goal.asin!r} is not in the catalogue")
        return goal
    goal = source.get(task)
    if json.dumps(goal.as_dict(), sort_keys=True) != json.dumps(described, sort_keys=True):
        raise BadSnapshot(f"the goal {task!r} is not the same in this shop as in the snapshot")
    return goal


def _page(saved: Fields) -> Page:
    """Return a page that a session can show.

    Raises:
        BadSnapshot: there is no such page.
    """
    kind, sub, asin = saved.get("kind", str), saved.get("sub", str), saved.get("asin", str)
    keywords = tuple(saved.texts("keywords"))
    names, values = saved.texts("names"), saved.texts("values")
    if kind not in _KINDS:
        raise saved.wrong("kind", f"one of {', '.join(_KINDS)}")
    if len(names) != len(values):
        raise saved.wrong("values", "as many texts as there are names")
    if (sub in SUBS) != (kind == "sub"):
        raise saved.wrong("sub", "the name of a sub-page, on such a page alone")
    if bool(asin) != (kind in _ITEMS):
        raise saved.wrong("asin", "the id of a product, on a product's page alone")
    if kind == "results" and not keywords:
        raise saved.wrong("keywords", "at least one word, on a page of results")
    return Page(kind, keywords, saved.get("number", int), asin, tuple(zip(names, values, strict=True)), sub)
