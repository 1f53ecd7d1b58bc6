"""Parses pages from the observations `text` and `text_rich`, for players that know only what an agent knows.

Not included: the observation `url`, which contains no prices, and the page after a purchase.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from turncredit.envs.errors import EnvError

__all__ = ["Offer", "ParsedPage", "read"]

_MARKED: Final = re.compile(r"\s*\[(clicked )?button\] (.*) \[(?:clicked )?button_\]\s*")
_RESULTS: Final = re.compile(r"Page (-?\d+) \(Total results: \d+\)")
_DOLLARS: Final = re.compile(r"\$(\d+(?:\.\d+)?)")
_BUTTONS: Final = frozenset(
    ("search", "back to search", "next >", "< prev", "description", "features", "reviews", "attributes", "buy now")
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A product on a page of results: id, title, and lowest price in dollars."""

    asin: str
    title: str
    price: float


@dataclass(frozen=True, slots=True)
class ParsedPage:
    """The contents of a page.

    Attributes:
        kind: "index", "results", "item" or "sub".
        instruction: the instruction.
        offers: products on a page of results.
        number: number of the page of results; 0 elsewhere.
        title: title of the product on its page; "" elsewhere.
        price: its lowest price in dollars.
        options: names and values of its options.
        marked: whether selected values are marked, as in `text_rich`.
        chosen: the marked values.
        texts: texts of a sub-page.
    """

    kind: str
    instruction: str
    offers: tuple[Offer, ...] = ()
    number: int = 0
    title: str = ""
    price: float = 0.0
    options: tuple[tuple[str, tuple[str, ...]], ...] = ()
    marked: bool = False
    chosen: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


def read(observation: str, admissible: Sequence[str]) -> ParsedPage:
    """Return the contents of a page.

    Args:
        observation: `text` or `text_rich`; of several pages in a row, the last is parsed.
        admissible: its admissible actions.

    Raises:
        EnvError: the text is not a page of the shop.
    """
    parts, clicked = _parts(observation)
    links = {action[6:-1] for action in admissible if action.startswith("click[")} - _BUTTONS
    if "Instruction:" not in parts:
        raise EnvError(f"expected a page of the shop as text or text_rich, got {observation!r:.200}")
    start = len(parts) - parts[::-1].index("Instruction:")
    button = next((name for name in ("Back to Search", "Search") if name in parts[start:]), None)
    end = parts.index(button, start) if button else len(parts)
    instruction, remainder = " ".join(parts[start:end]), parts[end + 1 :]
    if button == "Search":
        return ParsedPage("index", instruction)
    for index, part in enumerate(remainder):
        if match := _RESULTS.fullmatch(part):
            return ParsedPage("results", instruction, _offers(remainder[index + 1 :], links), int(match[1]))
    if "Buy Now" not in remainder:
        return ParsedPage("sub", instruction, texts=tuple(remainder[1:]))
    price = next(index for index, part in enumerate(remainder) if part.startswith("Price: "))
    return ParsedPage(
        "item",
        instruction,
        title=remainder[price - 1],
        price=_dollars(remainder[price]),
        options=_options(remainder[1 : price - 1], links),
        marked="[button]" in observation,
        chosen=tuple(value for value in clicked if value in links),
    )


def _parts(observation: str) -> tuple[list[str], list[str]]:
    """Return the strings of a page without marks, and those that are marked as clicked."""
    parts, clicked = [], []
    rich = "[button]" in observation
    for part in observation.split("\n" if rich else " [SEP] "):
        if match := _MARKED.fullmatch(part):
            part = match[2]
            if match[1]:
                clicked.append(part)
        if part.strip():
            parts.append(part.strip())
    return parts, clicked


def _offers(parts: Sequence[str], links: set[str]) -> tuple[Offer, ...]:
    """Return the products of a page of results: a clickable id, the title, the price."""
    starts = [index for index, part in enumerate(parts) if part.lower() in links]
    offers = []
    for index, end in pairwise([*starts, len(parts)]):
        texts = parts[index + 1 : end]
        offers.append(Offer(parts[index].lower(), " ".join(texts[:-1]), _dollars(texts[-1] if texts else "")))
    return tuple(offers)


def _options(parts: Sequence[str], values: set[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return names and values; a string that cannot be clicked is the name of the values after it."""
    options: list[tuple[str, list[str]]] = []
    for part in parts:
        if part in values and options:
            options[-1][1].append(part)
        else:
            options.append((part, []))
    return tuple((name, tuple(offered)) for name, offered in options)


def _dollars(tag: str) -> float:
    """Return the first price of a price tag in dollars, or 0."""
    match = _DOLLARS.search(tag)
    return float(match[1]) if match else 0.0
