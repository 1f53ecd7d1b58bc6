"""A visitor's way through the site as actions of the text environment, so that it can be replayed and imitated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from turncredit.envs.shop.session import LISTED, Page, ShopSession

__all__ = ["VisitLog", "actions_between"]


class VisitLog:
    """The actions of sessions that are being visited."""

    def __init__(self) -> None:
        self._actions: WeakKeyDictionary[ShopSession, list[str] | None] = WeakKeyDictionary()

    def add(self, session: ShopSession, steps: Sequence[str] | None) -> None:
        """Add steps of a session; None (see `actions_between`) makes its way impossible to replay."""
        actions = self._actions.get(session, [])
        self._actions[session] = None if actions is None or steps is None else [*actions, *steps]

    def take(self, session: ShopSession) -> list[str] | None:
        """Return the actions of a session since it began, and forget them; None if they cannot be replayed."""
        return self._actions.pop(session, None)


def actions_between(session: ShopSession, page: Page) -> list[str] | None:
    """Return the actions that lead from the page that a session shows to another one.

    Most pages are one action away. Others, such as a bookmark, are reached by a search for the page's keywords and by
    clicks from there. An address that no actions lead to gives None.
    """
    if _same(session.page, page):
        return []
    for action in _actions_to(page):
        if _leads_to(session, [action], page):
            return [action]
    way = list(_way_to(page))
    return way if _leads_to(session, way, page) else None


def _actions_to(page: Page) -> Iterator[str]:
    """Yield the actions that may lead to a page."""
    if page.kind == "done":
        yield "click[buy now]"
        return
    yield from ("click[back to search]", "click[next >]", "click[< prev]")
    if page.kind == "results":
        yield _search(page)
    texts = [page.asin, *(value for _, value in page.options), page.sub]
    yield from (f"click[{text.lower()}]" for text in texts if text)


def _way_to(page: Page) -> Iterator[str]:
    """Yield a search for the page's keywords and the clicks from its results to the page."""
    if page.kind == "done" or not 1 <= page.number <= LISTED:
        return
    yield _search(page)
    yield from ["click[next >]"] * (page.number - 1)
    texts = [page.asin, *(value for _, value in page.options), page.sub]
    yield from (f"click[{text.lower()}]" for text in texts if text)


def _search(page: Page) -> str:
    return f"search[{' '.join(page.keywords)}]"


def _leads_to(session: ShopSession, actions: Sequence[str], page: Page) -> bool:
    trial = session.duplicate()
    return bool(actions) and all(trial.act(action) for action in actions) and _same(trial.page, page)


def _same(page: Page, other: Page) -> bool:
    """Return whether two pages are equal but for the order in which options were selected."""
    return replace(page, options=()) == replace(other, options=()) and dict(page.options) == dict(other.options)
