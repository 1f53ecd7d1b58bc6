"""A customer's session in the shop: pages, actions and clickable texts by WebShop's rules.

Some rules look odd because they are WebShop's: a search works on every page, pages of results never end, the target of
"< Prev" is read from the address, and a value that two options share belongs to the last of them.

Three things differ. WebShop's text engine fails on a search "<a> attribute", on "<c>" without a category and on "<r>"
in a shop of fewer than fifty products; here they list the products with the attribute, nothing, and all products. And
the random products of "<r>" depend only on the session's name and the page number, so that states are reproducible.

Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its text environment.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from turncredit.envs.shop.goal import Goal
from turncredit.envs.shop.product import Product
from turncredit.envs.spaces import LONGEST

if TYPE_CHECKING:
    from turncredit.envs.shop.catalogue import Catalogue
    from turncredit.envs.shop.reward import Reward, RewardFunction

__all__ = ["BASE", "LISTED", "SHOWN", "SUBS", "Page", "Shop", "ShopSession", "item_targets", "parse"]

BASE: Final = "http://127.0.0.1:3000"
LISTED: Final = 50
"""Largest number of products that a search lists."""
SHOWN: Final = 10
"""Products on a page of results."""
SUBS: Final = ("Description", "Features", "Reviews", "Attributes")

BACK, PREVIOUS, NEXT, BUY = "Back to Search", "< Prev", "Next >", "Buy Now"
_PAGES: Final = ("search_results", "item_page", "item_sub_page", "done")
_REMEMBERED: Final = 4096
_LONG_QUERY: Final = 1000
_SPELT_OUT: Final = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the shop.

    Attributes:
        kind: "index" (the search bar), "results", "item", "sub" (a product's description, features, ...) or "done".
        keywords: words of the last search; empty on the index page.
        number: page of the results, from 1; on a product's pages, that of the results it was opened from; else 0.
        asin: id of the product that is shown or was bought, or "".
        options: name and value of each selected option, in the order of their first selection.
        sub: name of the sub-page, such as "Description", or "".
    """

    kind: str = "index"
    keywords: tuple[str, ...] = ()
    number: int = 0
    asin: str = ""
    options: tuple[tuple[str, str], ...] = ()
    sub: str = ""


def parse(action: str) -> tuple[str, str] | None:
    r"""Return name and lower-case argument of an action such as "search[red shoes]", or None for other texts.

    It matches what the regular expression `(.+)\[(.+)\]` matches at the beginning of the text, in linear time.

    >>> parse("Click[Buy Now]"), parse("click[a]b] and more"), parse("click[]"), parse("buy")
    (('Click', 'buy now'), ('click', 'a]b'), None, None)
    """
    end = action.find("\n")
    line = action if end < 0 else action[:end]
    close = line.rfind("]")
    start = line.rfind("[", 1, max(1, close - 1))
    return None if start < 1 else (line[:start], line[start + 1 : close].lower())


class Shop:
    """What sessions share: products, prices, search and reward.

    Recent searches of up to 1,000 characters and the texts of recent products are cached.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        prices: Mapping[str, float],
        reward_function: RewardFunction,
        *,
        attributes: bool = False,
    ) -> None:
        """Open a shop.

        Args:
            catalogue: the products.
            prices: price in dollars by product id.
            reward_function: computes the reward of a purchase.
            attributes: whether products have a sub-page with their attributes.
        """
        self.catalogue = catalogue
        self.prices = prices
        self.reward_function = reward_function
        self.attributes = attributes
        self._equip()

    def _equip(self) -> None:
        """Create the caches, which are not pickled."""
        self._search = lru_cache(_REMEMBERED)(self._searched)
        self._listed = lru_cache(8)(self._scanned)
        self._once: Callable[..., Any] = lru_cache(2 * _REMEMBERED)(self._made)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the caches."""
        return {key: value for key, value in self.__dict__.items() if key not in ("_search", "_listed", "_once")}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore the state with empty caches."""
        self.__dict__.update(state)
        self._equip()

    def search(self, query: str, k: int = LISTED) -> list[tuple[str, float]]:
        """Return the best products for a query as pairs (id, score > 0), the best first.

        Args:
            query: any text.
            k: largest number of products.
        """
        return list(self._searched(query, k) if len(query) > _LONG_QUERY else self._search(query, k))

    def listed(self, keywords: tuple[str, ...], name: str, number: int) -> tuple[str, ...]:
        """Return the ids of the products that a search lists, on all pages together.

        Args:
            keywords: words of the search; the first may be "<r>" (random), "<a>" (attribute), "<c>" (category) or "<q>"
                (query).
            name, number: name of the session and number of the page, which determine the products of "<r>".
        """
        first, *other_words = keywords
        if first == "<r>":
            draw = Random(f"{name} {number}")
            rows = draw.sample(range(len(self.catalogue)), min(LISTED, len(self.catalogue)))
            return tuple(self.catalogue[row].asin for row in rows)
        if first in ("<a>", "<c>", "<q>"):
            words = other_words[:1] if first == "<c>" else other_words
            return self._listed(first, " ".join(words).strip()) if other_words else ()
        return tuple([asin for asin, _ in self.search(" ".join(keywords))])

    def product(self, asin: str) -> Product:
        """Return the product of a known id."""
        return cast(Product, self.catalogue.get(asin))

    def once(self, function: Callable[..., T], asin: str, *arguments: Hashable) -> T:
        """Return function(product, *rest), cached by product."""
        return cast(T, self._once(function, asin, *arguments))

    def targets(self, asin: str) -> dict[str, tuple[str, str]]:
        """Return what can be clicked on a product's page (see `ShopSession.targets`)."""
        return self.once(item_targets, asin, self.attributes)

    def _searched(self, query: str, k: int) -> tuple[tuple[str, float], ...]:
        return tuple(self.catalogue.search(query, k))

    def _scanned(self, field: str, value: str) -> tuple[str, ...]:
        if field == "<a>":
            return tuple(product.asin for product in self.catalogue if value in product.attributes)
        name = "category" if field == "<c>" else "query"
        return tuple(product.asin for product in self.catalogue if getattr(product, name) == value)

    def _made(self, function: Callable[..., T], asin: str, *arguments: Hashable) -> T:
        return function(self.product(asin), *arguments)


class ShopSession:
    """One customer with one goal.

    Attributes:
        shop, goal: the shop, and what to buy.
        name: the name in addresses.
        page: the page that is shown.
        visited: ids of the products that were opened since the search bar was last shown.
        numbered: whether products on a page of results are shown and clicked by number rather than by id.
        reward: reward of the purchase with its parts; None before it.
    """

    def __init__(
        self,
        shop: Shop,
        goal: Goal,
        name: str,
        *,
        prices: Mapping[str, float] | None = None,
        numbered: bool = False,
    ) -> None:
        """Start at the search bar.

        Args:
            shop: the shop.
            goal: what the customer is asked to buy.
            name: name of the session.
            prices: prices in dollars by product id that replace the shop's in this session.
            numbered: whether products on a page of results have the numbers 1 to 10 instead of their ids.
        """
        self.shop = shop
        self.goal = goal
        self.name = name
        self.prices = dict(prices or {})
        self.visited: set[str] = set()
        self.numbered = numbered
        self.reward: Reward | None = None
        self.page = Page()
        self._found: tuple[str, ...] = ()
        self._targets: dict[str, tuple[str, str]] | None = None

    @property
    def done(self) -> bool:
        """Whether something has been bought."""
        return self.reward is not None

    def duplicate(self) -> ShopSession:
        """Return a copy whose actions leave this session as it is."""
        other = copy(self)
        other.visited = set(self.visited)
        return other

    def act(self, action: str) -> bool:
        """Perform an action and return whether it was valid. An invalid action changes nothing.

        Args:
            action: "search[words]", until something is bought, or "click[text]" with a text of `clickables()`.
        """
        parsed = None if self.done or len(action) > LONGEST else parse(action)
        if parsed is None:
            return False
        name, argument = parsed
        if name == "search" and _writable(argument):
            self.find(argument)
            return True
        return name == "click" and argument != "search" and self._click(argument)

    def find(self, query: str) -> None:
        """Show the results of a search."""
        self._arrive(Page("results", tuple(query.split(" ")), 1))

    def go(self, page: Page) -> None:
        """Show a page without checking it, as opening its address does.

        Args:
            page: of any kind but "done"; its product counts as visited.
        """
        self._arrive(page)
        if page.asin:
            self.visited.add(page.asin)

    def clickables(self) -> list[str]:
        """Return the texts that can be clicked in WebShop's order: buttons, products, values of options."""
        return list(self.targets())

    def targets(self) -> dict[str, tuple[str, str]]:
        """Return what can be clicked: lower-case text -> ("button", ""), ("link", asin) or ("option", name)."""
        if self._targets is None:
            self._targets = self._look()
        return self._targets

    def results(self) -> list[Product]:
        """Return the products on the current page of results; [] on other pages."""
        if self.page.kind != "results":
            return []
        # WebShop's slice: page 0, which odd queries lead to, is empty.
        first = (self.page.number - 1) * SHOWN
        return [self.shop.product(asin) for asin in self._found[first : self.page.number * SHOWN]]

    def links(self) -> list[tuple[str, str]]:
        """Return the shown text and the id of each product on the current page of results."""
        asins = [product.asin for product in self.results()]
        return [(str(number) if self.numbered else asin, asin) for number, asin in enumerate(asins, 1)]

    def total(self) -> int:
        """Return the number of products that the search listed on all pages."""
        return len(self._found)

    def price(self, asin: str) -> float:
        """Return the price of a product in this session, in dollars."""
        return self.prices[asin] if asin in self.prices else self.shop.prices[asin]

    def url(self) -> str:
        """Return the address of the page as WebShop writes it, without escaping."""
        page = self.page
        words = "+".join(page.keywords)
        if page.kind == "index":
            return f"{BASE}/{self.name}"
        if page.kind == "results":
            return f"{BASE}/search_results/{self.name}/{words}/{page.number}"
        if page.kind == "item":
            options = json.dumps(dict(page.options))
            return f"{BASE}/item_page/{self.name}/{page.asin}/{words}/{page.number}/{options}"
        if page.kind == "sub":
            chosen = f"{page.number}/{page.sub}/{dict(page.options)}"
            return f"{BASE}/item_sub_page/{self.name}/{page.asin}/{words}/{chosen}"
        return f"{BASE}/done/{self.name}/{page.asin}/{dict(page.options)}"

    def state_key(self) -> str:
        """Return the canonical key of the page, which determines what can follow.

        It contains neither the goal nor the order in which options were selected. A query of more than 32 characters is
        replaced by a digest, since it may be very long or the task's own sentence. Visited products are not included:
        they only affect how `text_rich` shows links, so an environment with that observation adds them.
        """
        page = self.page
        if page.kind == "index":
            return "index"
        parts = [page.kind, f"query={_short(' '.join(page.keywords))}", f"page={page.number}"]
        if page.asin:
            parts += [f"asin={page.asin}", f"options={dict(sorted(page.options))}"]
        return " ".join([*parts, page.sub] if page.sub else parts)

    def _arrive(self, page: Page) -> None:
        """Show a page."""
        if page.kind == "index":
            self.visited = set()
        listed = page.kind == "results"
        self._found = self.shop.listed(page.keywords, self.name, page.number) if listed else ()
        self._targets = None
        self.page = page

    def _look(self) -> dict[str, tuple[str, str]]:
        page = self.page
        if page.kind == "item":
            return self.shop.targets(page.asin)
        if page.kind == "results":
            buttons = (BACK, PREVIOUS, NEXT) if page.number > 1 else (BACK, NEXT)
            return _buttons(buttons) | {text.lower(): ("link", asin) for text, asin in self.links()}
        return _buttons({"index": ("Search",), "sub": (BACK, PREVIOUS), "done": ()}[page.kind])

    def _click(self, text: str) -> bool:
        """Click on a text; as in WebShop, the text decides before the kind of its target."""
        target = self.targets().get(text)
        if target is None:
            return False
        page, kind = self.page, self._place()
        if text == BUY.lower():
            self._buy()
        elif text == BACK.lower():
            self._arrive(Page())
        elif text in (NEXT.lower(), PREVIOUS.lower()) and kind == "search_results":
            number = page.number + (1 if text == NEXT.lower() else -1)
            self._arrive(Page("results", page.keywords, number))
        elif text == PREVIOUS.lower() and kind == "item_page":
            self._arrive(Page("results", page.keywords, page.number))
        elif text.capitalize() in SUBS:
            self._arrive(replace(page, kind="sub", sub=text.capitalize()))
        else:
            self._open(target, text)
        return True

    def _open(self, target: tuple[str, str], text: str) -> None:
        """Show a product's page after a click on a link, a value of an option, or another button."""
        kind, name = target
        page = self.page
        if kind == "link":
            self.visited.add(name)
            page = replace(page, asin=name)
        elif kind == "option":
            page = replace(page, options=tuple((dict(page.options) | {name.lower(): text}).items()))
        self._arrive(replace(page, kind="item", sub=""))

    def _buy(self) -> None:
        asin = self.page.asin
        options = dict(self.page.options)
        self.reward = self.shop.reward_function(self.shop.product(asin), self.goal, self.price(asin), options)
        self._arrive(Page("done", (), 0, asin, self.page.options))

    def _place(self) -> str:
        """Return the kind of page that the address names, which a query or an option can distort."""
        url = self.url()
        return next((name for name in _PAGES if name in url), "")


def item_targets(product: Product, attributes: bool) -> dict[str, tuple[str, str]]:
    """Return what can be clicked on a product's page (see `ShopSession.targets`)."""
    targets = _buttons((BACK, PREVIOUS, *(SUBS if attributes else SUBS[:-1]), BUY))
    for name, values in product.options.items():
        # a value that was there before keeps its place and now belongs to this option
        targets |= dict.fromkeys(values, ("option", name))
    return targets


def _buttons(texts: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    return {text.lower(): ("button", "") for text in texts}


def _short(query: str) -> str:
    if len(query) <= _SPELT_OUT:
        return repr(query)
    return f"#{blake2b(query.encode(errors='surrogatepass'), digest_size=12).hexdigest()}"


def _writable(text: str) -> bool:
    """Return whether a text is valid UTF-8; the address would repeat a lone surrogate."""
    try:
        text.isascii() or text.encode()
    except UnicodeEncodeError:
        return False
    return True
