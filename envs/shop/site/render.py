"""Renders sessions as HTML, for the site and the environment's html observation.

Two rules hold for every page. Its visible strings, extracted as by WebShop (text nodes outside style, script, head,
title and meta, without blank ones between tags, stripped, joined by " [SEP] "), are the text observation; and elements
of class "btn" or "product-link" and radio inputs are its clickable texts. Everything else comes from style sheets,
pictures and attributes. Only the end page for people (`explained`) contains more.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from turncredit.envs.shop.product import Product
from turncredit.envs.shop.session import SHOWN, SUBS, ShopSession
from turncredit.envs.shop.site.addresses import LONGEST_QUERY, drawing, href
from turncredit.envs.shop.site.pictures import tint
from turncredit.envs.shop.site.score_page import explain_score
from turncredit.installation import MissingPackage, needs

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["MISSING", "error", "html"]

MISSING: Final = "the site of the shop needs jinja2, fastapi and uvicorn"

# fields of WebShop's end page that are never filled, with the ids of their elements
_PURCHASED: Final = (
    ("attrs", "purchased_attrs"),
    ("category", "purchased-category"),
    ("query", "purchased-query"),
    ("product category", "purchased-pc"),
)
_TARGET: Final = (
    ("asin", "goal-asin"),
    ("options", "goal-options"),
    ("attrs", "goal-attrs"),
    ("price upper", "goal-price"),
    ("instuction text", "goal-instruction-text"),
    ("category", "goal-category"),
    ("product category", "goal-pc"),
    ("query", "goal-query"),
)


def html(session: ShopSession, *, explained: bool = False) -> str:
    """Return the page that a session shows, as an HTML document.

    Args:
        session: the session.
        explained: whether the end page explains the score part by part, for people.

    Raises:
        ImportError: jinja2 is not installed.
    """
    page = session.page
    context: dict[str, object] = {"session": session, "page": page, "goal": session.goal, "links": _Links(session)}
    if page.kind == "index":
        return _render("index.html", title="Search", longest_query=LONGEST_QUERY, **context)
    if page.kind == "results":
        total = session.total()
        last = page.number * SHOWN >= total
        products = session.results()
        return _render("results.html", title="Results", products=products, total=total, last=last, **context)
    product = session.shop.product(page.asin)
    context |= {"product": product, "chosen": dict(page.options), "title": product.name}
    if page.kind == "item":
        sub_pages = SUBS if session.shop.attributes else SUBS[:-1]
        return _render("item.html", rating="N.A.", sub_pages=sub_pages, tint=tint, **context)
    if page.kind == "sub":
        return _render("sub.html", **context)
    context["reward"] = session.reward
    if explained:
        return _render("score.html", score=explain_score(session), **context)
    return _render("done.html", purchased=_PURCHASED, target=_TARGET, **context)


def error(status: int, sentence: str) -> str:
    """Return an error page as an HTML document."""
    return _render("error.html", title=str(status), status=status, sentence=sentence)


class _Links:
    """The targets of the links and forms on a session's page."""

    def __init__(self, session: ShopSession) -> None:
        self._name = session.name
        self._page = session.page

    def _to(self, kind: str, **changed: Any) -> str:
        return href(self._name, replace(self._page, **{"kind": kind, "sub": ""} | changed))

    @property
    def index(self) -> str:
        return self._to("index")

    @property
    def previous(self) -> str:
        back = self._page.number - 1 if self._page.kind == "results" else self._page.number
        return self._to("results", number=back)

    @property
    def next(self) -> str:
        return self._to("results", number=self._page.number + 1)

    @property
    def here(self) -> str:
        return self._to("item")

    @property
    def done(self) -> str:
        return self._to("done")

    @property
    def again(self) -> str:
        return f"/again{self.index}"

    @property
    def picture(self) -> str:
        tints = [colour for _, value in self._page.options if (colour := tint(value))]
        return drawing(self._page.asin, tints[-1][1:] if tints else "")

    def thumbnail(self, product: Product) -> str:
        return drawing(product.asin)

    def item(self, product: Product) -> str:
        return self._to("item", asin=product.asin, options=())

    def sub(self, name: str) -> str:
        return self._to("sub", sub=name)

    def choose(self, name: str, value: str) -> str:
        return self._to("item", options=tuple((dict(self._page.options) | {name.lower(): value}).items()))


@lru_cache(maxsize=1)
def _templates() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as missing:
        raise MissingPackage(needs(MISSING, "serve")) from missing
    return Environment(
        loader=PackageLoader("turncredit.envs.shop.site", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _render(name: str, **context: Any) -> str:
    return _templates().get_template(name).render(kind=name.removesuffix(".html"), **context)
