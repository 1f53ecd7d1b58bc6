"""Renders pages as WebShop's observations `text` and `text_rich`.

A page is a list of visible strings (`PageLine`) in the order of its HTML. `text` joins the stripped strings by
" [SEP] ". `rich` writes one string a line and marks what can be clicked. The HTML pages of `site` contain the same
strings.

White space is treated as by WebShop's HTML parser: a string of white space disappears if it contains a line break, else
it becomes a single blank. An empty feature therefore leaves an empty place between two separators.

Source: WebShop (Yao et al. 2022, arXiv:2207.01206), its text environment and templates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from turncredit.envs.shop.product import Product

if TYPE_CHECKING:
    from turncredit.envs.shop.session import ShopSession

__all__ = ["SEPARATOR", "TITLE", "PageLine", "lines", "rich", "text"]

SEPARATOR: Final = " [SEP] "
TITLE: Final = "WebShop"
_BLANK: Final = " \n\t\f\r"


class PageLine(NamedTuple):
    """A visible string of kind "text", "button", "label" (value of an option) or "link" (to a product)."""

    text: str
    kind: str = "text"


def lines(session: ShopSession) -> list[PageLine]:
    """Return the visible strings of the session's page."""
    kind, shop, page = session.page.kind, session.shop, session.page
    if kind == "done":
        return _done(session)
    page_lines = _head(session)
    if kind == "results":
        for shown, asin in session.links():
            page_lines += [*_visible(shown, "link"), *shop.once(_offer, asin)]
    elif kind == "item":
        page_lines += shop.once(_item, page.asin, shop.attributes)
    elif kind == "sub":
        page_lines += shop.once(_sub, page.asin, page.sub)
    return page_lines


def text(session: ShopSession) -> str:
    """Return the session's page as WebShop's observation `text`."""
    kind, shop, page = session.page.kind, session.shop, session.page
    if kind == "done":
        return _joined(_done(session))
    parts = [_joined(_head(session))]
    if kind == "results":
        parts += [_joined([*_visible(shown, "link"), *shop.once(_offer, asin)]) for shown, asin in session.links()]
    elif kind == "item":
        parts.append(shop.once(_item_text, page.asin, shop.attributes))
    elif kind == "sub" and shop.once(_sub, page.asin, page.sub):
        parts.append(shop.once(_sub_text, page.asin, page.sub))
    return SEPARATOR.join(parts)


def rich(session: ShopSession) -> str:
    """Return the session's page as WebShop's observation `text_rich`.

    A value is marked as selected if the address contains it in quotation marks. Values with letters beyond ASCII, which
    the address escapes, are therefore never marked.
    """
    address = session.url()
    visited = {shown for shown, asin in session.links() if asin in session.visited}
    pieces, clicked = [], []
    for shown, kind in lines(session):
        if kind == "button":
            pieces.append(f"[button] {shown} [button_]\n")
        elif kind == "label" and f'"{shown}"' in address:
            pieces.append(f"  [clicked button] {shown} [clicked button_]\n")
            clicked.append(f"You have clicked {shown}.\n")
        elif kind == "label":
            pieces.append(f"  [button] {shown} [button_]\n")
        elif kind == "link":
            mark = "clicked button" if shown in visited else "button"
            pieces.append(f"\n[{mark}] {shown} [{mark}_]\n")
        else:
            pieces.append(f"{shown}\n")
    return "".join([*reversed(clicked), *pieces])


def _head(session: ShopSession) -> list[PageLine]:
    """Return the strings above the products."""
    page = session.page
    told = list(_visible(session.goal.instruction))
    if page.kind == "index":
        return [PageLine(TITLE), PageLine("Instruction: "), *told, PageLine("Search", "button")]
    page_lines = [PageLine("Instruction:"), *told, PageLine("Back to Search", "button")]
    if page.kind != "results":
        return [*page_lines, PageLine("< Prev", "button")]
    page_lines.append(PageLine(f"Page {page.number} (Total results: {session.total()})"))
    if page.number > 1:
        page_lines.append(PageLine("< Prev", "button"))
    return [*page_lines, PageLine("Next >", "button")]


def _offer(product: Product) -> tuple[PageLine, ...]:
    """Return what a page of results says about a product, below the link to it."""
    return (*_visible(product.name), *_visible(product.price_tag))


def _item(product: Product, attributes: bool) -> tuple[PageLine, ...]:
    """Return a product's own page."""
    page_lines: list[PageLine] = []
    for name, values in product.options.items():
        page_lines += _visible(name)
        for value in values:
            page_lines += _visible(value, "label")
    buttons = ["Description", "Features", "Reviews", *(["Attributes"] if attributes else []), "Buy Now"]
    page_lines += [*_visible(product.name), PageLine(f"Price: {product.price_tag}"), PageLine("Rating: N.A.")]
    return (*page_lines, *(PageLine(button, "button") for button in buttons))


def _sub(product: Product, sub: str) -> tuple[PageLine, ...]:
    """Return one of a product's sub-pages; there are no reviews."""
    if sub == "Description":
        return tuple(_visible(product.description))
    if sub == "Features":
        return tuple(line for bullet in product.bullets for line in _visible(f" {bullet}"))
    if sub == "Reviews":
        return ()
    page_lines = [line for attribute in product.attributes for line in _visible(f" {attribute}")]
    return (*page_lines, *_visible(product.category), *_visible(product.query), *_visible(product.product_category))


def _done(session: ShopSession) -> list[PageLine]:
    """Return the page after the purchase, with the fields that WebShop leaves empty."""
    page = session.page
    total = session.reward.total if session.reward is not None else 0.0
    texts = [
        "Thank you for shopping with us!",
        "Your code: ",
        "None",
        " (Paste it in your MTurk interface.)",
        "Purchased",
    ]
    texts += ["asin", page.asin, "options", _options(dict(page.options))]
    texts += ["attrs", "None", "category", "None", "query", "None", "product category", "None"]
    texts += ["Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category"]
    texts += [
        "query",
        "Goal ",
        "None",
        "Reward",
        "Your score (min 0.0, max 1.0)",
        str(total),
        "Reward Details ",
        "None",
    ]
    return [PageLine(string) for string in texts]


def _options(options: dict[str, str]) -> str:
    """Return options as WebShop's page writes them: sorted JSON with HTML characters escaped."""
    written = json.dumps(options, sort_keys=True)
    for letter in "<>&'":
        written = written.replace(letter, f"\\u{ord(letter):04x}")
    return written


def _visible(raw: str, kind: str = "text") -> Iterator[PageLine]:
    """Yield the visible form of a string: itself, a blank, or nothing."""
    if raw.strip(_BLANK):
        yield PageLine(raw, kind)
    elif raw and "\n" not in raw:
        yield PageLine(" ", kind)


def _joined(page_lines: Iterable[PageLine]) -> str:
    return SEPARATOR.join(line.text.strip() for line in page_lines)


def _item_text(product: Product, attributes: bool) -> str:
    return _joined(_item(product, attributes))


def _sub_text(product: Product, sub: str) -> str:
    return _joined(_sub(product, sub))
