"""The expert: a plan that leads from any page to the best purchase for a goal.

The expert knows the goal, the reward function and the whole shop. It takes the goal's own product, or a better one if
the reward's rules keep that one below 1, tries queries until one lists the product on an early page, and selects the
options that count. Plans are verified on a copy of the session. `scripted_shoppers` has players without such knowledge.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from turncredit.envs.errors import EnvError
from turncredit.envs.shop.product import Product
from turncredit.envs.shop.session import SHOWN, ShopSession, parse

__all__ = ["Purchase", "plan", "purchases"]

_WORD: Final = re.compile(r"\w+(?:['’-]\w+)*")
_TRIED: Final = 4
"""How many of the best purchases are tried; a product that no query lists cannot be bought."""
_ENOUGH: Final = 1.0 - 1e-9


class Purchase(NamedTuple):
    """A product with options by name, and the reward of buying it in a session."""

    worth: float
    product: Product
    options: dict[str, str]


def plan(session: ShopSession) -> list[str]:
    """Return the actions from the current page to the best purchase that was found; [] after a purchase.

    Among equal rewards, the goal's own product is preferred, and the shortest way.

    Raises:
        EnvError: no search finds a product with a positive reward.
    """
    if session.done:
        return []
    best: tuple[float, list[str]] = (0.0, [])
    for purchase in purchases(session)[:_TRIED]:
        for actions in sorted(_ways(session, purchase), key=len):
            reached = _outcome(session, actions)
            if reached > best[0]:
                best = reached, actions
            if reached >= purchase.worth - 1e-9:
                break
        if best[0] >= purchase.worth - 1e-9:
            break
    if not best[1]:
        raise EnvError(f"no search finds a product with a positive reward for {session.goal.instruction!r:.200}")
    return best[1]


def purchases(session: ShopSession) -> list[Purchase]:
    """Return candidate purchases, the best first.

    The candidates are the goal's own product and, unless its reward is 1, the products that searches for the goal's
    words list.
    """
    goal, shop = session.goal, session.shop
    own = shop.catalogue.get(goal.asin)
    candidates = [] if own is None else [_purchase_of(session, own)]
    if candidates and candidates[0].worth >= _ENOUGH:
        return candidates
    queries = (goal.name, goal.query, " ".join([*goal.attributes, goal.query]), goal.instruction)
    others = dict.fromkeys(asin for query in queries for asin, _ in shop.search(_words(query)))
    candidates += [_purchase_of(session, shop.product(asin)) for asin in others if asin != goal.asin]
    return sorted((purchase for purchase in candidates if purchase.worth > 0), key=lambda purchase: -purchase.worth)


def _purchase_of(session: ShopSession, product: Product) -> Purchase:
    offered = replace(product, options=_clickable(session, product))
    reward, options = session.shop.reward_function.best(offered, session.goal, session.price(product.asin))
    return Purchase(reward.total, product, options)


def _clickable(session: ShopSession, product: Product) -> dict[str, tuple[str, ...]]:
    """Return the options of a product without the values that no action can select.

    A value that two options share belongs to one of them, and some texts cannot be written as an action.
    """
    targets = session.shop.targets(product.asin)
    return {
        name: tuple(
            value
            for value in values
            if targets[value] == ("option", name) and parse(f"click[{value}]") == ("click", value)
        )
        for name, values in product.options.items()
    }


def _ways(session: ShopSession, purchase: Purchase) -> Iterator[list[str]]:
    """Yield ways to a purchase: from the product's page, through the current results, and by a new search."""
    page, asin = session.page, purchase.product.asin
    chosen = dict(page.options) if page.asin == asin else {}
    back = ["click[< prev]"] if page.kind == "sub" else []
    if page.kind in ("item", "sub") and page.asin == asin:
        yield [*back, *_finish(purchase, chosen)]
    if page.keywords:
        if page.kind in ("item", "sub"):
            back.append("click[< prev]")
        listed = session.shop.listed(page.keywords, session.name, page.number)
        if asin in listed:
            pages = listed.index(asin) // SHOWN + 1 - page.number
            turning = ["click[next >]" if pages > 0 else "click[< prev]"] * abs(pages)
            yield [*back, *turning, _opening(session, asin, listed), *_finish(purchase, {})]
    searched = _search(session, purchase.product)
    if searched is not None:
        query, results = searched
        turning = ["click[next >]"] * (results.index(asin) // SHOWN)
        yield [f"search[{query}]", *turning, _opening(session, asin, results), *_finish(purchase, {})]


def _opening(session: ShopSession, asin: str, listed: Sequence[str]) -> str:
    """Return the click on a product, on the page of results that shows it."""
    return f"click[{listed.index(asin) % SHOWN + 1}]" if session.numbered else f"click[{asin.lower()}]"


def _finish(purchase: Purchase, chosen: dict[str, str]) -> list[str]:
    """Return the remaining actions on the product's page."""
    # pages store the names of selected options in lower case
    values = [value for name, value in purchase.options.items() if chosen.get(name.lower()) != value]
    return [*(f"click[{value}]" for value in values), "click[buy now]"]


def _search(session: ShopSession, product: Product) -> tuple[str, list[str]] | None:
    """Return the query that lists a product on the earliest page, and the ids that it lists."""
    best: tuple[str, list[str]] | None = None
    for query in dict.fromkeys(_queries(session, product)):
        listed = [asin for asin, _ in session.shop.search(query)] if query else []
        if product.asin in listed:
            page = listed.index(product.asin) // SHOWN
            if best is None or page < best[1].index(product.asin) // SHOWN:
                best = query, listed
            if page == 0:
                break
    return best


def _queries(session: ShopSession, product: Product) -> Iterator[str]:
    """Yield queries that may find a product, from a customer's words to its whole description."""
    goal, title = session.goal, _words(product.name)
    yield _words(" ".join([*goal.attributes, product.query]))
    for count in (4, 8, 16):
        yield " ".join(title.split()[:count])
    yield title
    yield _words(f"{product.name} {product.query} {' '.join(goal.attributes)}")
    offers = " ".join(f"{name} {' '.join(values)}" for name, values in product.options.items())
    yield _words(f"{product.name} {offers}")
    yield _words(f"{product.name} {product.description} {' '.join(product.bullets[:1])} {offers}")[:2000]


def _words(text: str) -> str:
    """Return the words of a text in lower case, without brackets and signs."""
    return " ".join(_WORD.findall(text.lower()))


def _outcome(session: ShopSession, actions: list[str]) -> float:
    """Return the reward that actions lead to on a copy of the session, or 0."""
    trial = session.duplicate()
    for action in actions:
        trial.act(action)
    return trial.reward.total if trial.reward is not None else 0.0
