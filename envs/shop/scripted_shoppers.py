"""Scripted shoppers that know only what an agent knows: the instruction and the pages.

`Shopper` searches for the instruction and buys the first product: a baseline between chance and the expert.
`CarefulShopper` searches for the significant words, opens the first product within the price, checks its page and, if
necessary, its features, goes back if something is missing, and buys. Each of its choices follows from the text, so a
policy can learn it by imitation. Both read the observations `text` and `text_rich`, and can take over at any turn. Only
`text_rich` shows which options are selected; on `text` they remember their own clicks. They know no synonyms.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from turncredit.envs.errors import EnvError
from turncredit.envs.shop.page_parser import Offer, ParsedPage, read
from turncredit.envs.shop.session import SHOWN
from turncredit.tools.retrieval import analyse

__all__ = ["CarefulShopper", "Shopper"]

_LIMIT: Final = (
    "lower than|less than|more than|cheaper than|below|under|above|over|beyond|within|up to|at most|budget is|budget of"
)
_BOUND: Final = re.compile(rf"[^,.]*\b(?:{_LIMIT}) \$?(\d+(?:\.\d+)?)(?: (?:dollars|usd|bucks))?")
"""The clause with the price limit, including "not more than"."""
_FILLERS: Final = frozenset(
    analyse(
        "i me my we us you it find show get got need want wanted looking look for search searching please some any one "
        "that which who where should would could must can like also have has having do does is are am buy shop "
        "shopping order hoping trying help choose pick from so new set pair"
    )
)
_WORD: Final = re.compile(r"[\w'-]+")
_LATE: Final = 9
"""Turn from which a careful shopper accepts the best product so far."""
_PAGES: Final = 2
"""Number of pages of results that are inspected."""


_Key = tuple[int, str]
"""What identifies a product among results: 0 and its id, or the number of the page and its number there."""


class Shopper:
    """Searches the instruction, opens the first product, picks the options that the instruction names, and buys."""

    def __init__(self) -> None:
        """Start without memory."""
        self.asked = ""
        self._said: tuple[ParsedPage, str] | None = None
        self._picked: Counter[str] = Counter()  # clicks on options of the current page
        self._begin()

    def start(self, observation: str) -> None:
        """Start an episode; its first observation is parsed at the first turn."""
        self._begin()

    def act(self, observation: str, admissible: Sequence[str]) -> str:
        """Return the next action. An observation that is not a page, such as an error message, is ignored.

        Raises:
            EnvError: the first observation is not a page of the shop as text or text_rich.
        """
        try:
            seen = read(observation, admissible)
        except EnvError:
            if self._said is None:
                raise
            seen = self._said[0]
        self.asked = self.asked or seen.instruction.lower()
        action = self._next(seen)
        self._said = (seen, action)
        return action

    def _begin(self) -> None:
        self.asked, self._said, self._picked = "", None, Counter()

    def _next(self, seen: ParsedPage) -> str:
        if seen.kind == "index":
            return f"search[{self._query()}]"
        if seen.kind == "results":
            return f"click[{seen.offers[0].asin}]" if seen.offers else "click[back to search]"
        return self._pick(seen) or "click[buy now]" if seen.kind == "item" else "click[< prev]"

    def _query(self) -> str:
        return " ".join(re.sub(r"[\[\]]", " ", self.asked).split()) or "anything"

    def _pick(self, seen: ParsedPage) -> str | None:
        """Return a click on an option that the instruction asks for and that is not selected yet."""
        before, action = self._said or (None, "")
        if before is None or before.title != seen.title:
            self._picked = Counter()
        elif before.kind == "item":
            self._picked[action] += 1
        tries = 2 if seen.marked else 1  # if marks show that a click had no effect, click again
        for _, values in seen.options:
            value = _named(values, self.asked)
            if value and value not in seen.chosen and self._picked[f"click[{value}]"] < tries:
                return f"click[{value}]"
        return None


class CarefulShopper(Shopper):
    """Searches for the significant words, opens the first affordable product, checks it, and buys it or goes back."""

    def __init__(self) -> None:
        """Start without memory."""
        self._turn = 0
        self._lacks: dict[_Key, int] = {}  # rejected products: number of missing words
        self._here: tuple[_Key, Offer] | None = None  # the product opened last
        self._features: set[str] | None = None  # words of its features page, if read
        super().__init__()

    def _begin(self) -> None:
        super()._begin()
        self._turn, self._lacks, self._here, self._features = 0, {}, None, None

    def _next(self, seen: ParsedPage) -> str:
        self._turn += 1
        if seen.kind == "index":  # numbers will mean other products
            self._lacks = {key: count for key, count in self._lacks.items() if not key[0]}
        if seen.kind == "results":
            return self._choose(seen)
        if seen.kind == "item":
            return self._check(seen)
        if seen.kind == "sub":
            self._features = set(analyse(" ".join(seen.texts)))
        return super()._next(seen)

    def _query(self) -> str:
        words = [word for word in _WORD.findall(_BOUND.sub(" ", self.asked)) if _wanted(word)]
        return " ".join(words) or "anything"

    def _choose(self, seen: ParsedPage) -> str:
        """Open the first affordable product that was not inspected yet; late in the episode, the best inspected one."""
        most = _bound(self.asked)
        offers = {_key(seen, offer): offer for offer in seen.offers}
        fresh = [key for key, offer in offers.items() if key not in self._lacks and offer.price <= most]
        if self._turn < _LATE and fresh:
            return self._open(fresh[0], offers)
        if self._turn < _LATE and len(seen.offers) == SHOWN and seen.number < _PAGES:
            return "click[next >]"
        candidates = [key for key in offers if key in self._lacks] or list(offers)
        if not candidates:
            return "click[back to search]"
        return self._open(min(candidates, key=lambda key: self._lacks.get(key, 0)), offers)

    def _matter(self) -> set[str]:
        return _wanted(_BOUND.sub(" ", self.asked))

    def _open(self, key: _Key, offers: Mapping[_Key, Offer]) -> str:
        self._here, self._features = (key, offers[key]), None
        return f"click[{offers[key].asin}]"

    def _check(self, seen: ParsedPage) -> str:
        """Buy a product that has everything or must be accepted; else go back."""
        here, offer = self._here or (None, None)
        fresh = offer is not None and offer.title == seen.title and here not in self._lacks
        missing = self._matter() - _of(seen) - (self._features or set())
        if here is None or not fresh or not missing or self._turn >= _LATE:
            return self._pick(seen) or "click[buy now]"
        refused = any(_asks(name, self.asked) and not _named(values, self.asked) for name, values in seen.options)
        if self._features is None and not refused:
            return "click[features]"
        self._lacks[here] = len(missing)
        return "click[< prev]"


def _key(seen: ParsedPage, offer: Offer) -> _Key:
    """Return what identifies a product: its id, or its number with that of the page."""
    return (seen.number if len(offer.asin) <= len(str(SHOWN)) and offer.asin.isdigit() else 0), offer.asin


def _of(seen: ParsedPage) -> set[str]:
    """Return the words of a product's page."""
    texts = [seen.title, *(" ".join([name, *values]) for name, values in seen.options)]
    return set(analyse(" ".join(texts)))


def _asks(name: str, text: str) -> bool:
    """Return whether a text mentions an option by its name."""
    return re.search(rf"(?<!\w){re.escape(name.lower())}(?!\w)", text) is not None


def _wanted(text: str) -> set[str]:
    """Return the significant words of a text, stemmed as by the search."""
    return set(analyse(text)) - _FILLERS


def _bound(text: str) -> float:
    """Return the price limit of an instruction in dollars."""
    match = _BOUND.search(text)
    return float(match[1]) if match else float("inf")


def _named(values: Iterable[str], text: str) -> str | None:
    """Return the longest value that a text mentions, or None."""
    named = [value for value in values if re.search(rf"(?<![\w'’]){re.escape(value)}(?![\w'’])", text)]
    return max(named, key=len, default=None)
