"""Admissible actions of a page: a click for everything that can be clicked, and an example of a search."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from turncredit.envs.shop.product import Product
from turncredit.envs.shop.session import ShopSession, item_targets, parse

__all__ = ["FREE", "admissible"]

FREE: Final = "search[...]"
"""Form of the actions that cannot be listed."""

_BOUND: Final = re.compile(r",(?: and)? price [^,]* dollars\s*$")


def admissible(session: ShopSession) -> list[str]:
    """Return a click for everything that can be clicked, or on the index page an example of a search."""
    page = session.page
    if page.kind == "index":
        return [_example(session.goal.instruction)]
    if page.kind == "item":
        return list(session.shop.once(_clicks_of, page.asin, session.shop.attributes))
    return _clicks(session.clickables())


def _clicks_of(product: Product, attributes: bool) -> list[str]:
    return _clicks(item_targets(product, attributes))


def _clicks(texts: Iterable[str]) -> list[str]:
    """Return the clicks on texts that can be written as an action, without stray brackets or line breaks."""
    return [action for text in texts if parse(action := f"click[{text}]") == ("click", text) and text != "search"]


def _example(instruction: str) -> str:
    """Return a search for the instruction without its price limit, which no product's text contains."""
    words = re.sub(r"[\[\]\s]+", " ", _BOUND.sub("", instruction)).strip().lower()
    return f"search[{words or 'anything'}]"
