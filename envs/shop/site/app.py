"""The site as a FastAPI application.

An address determines the whole page: GET moves the session there and shows it, HEAD does the same without the body, and
POST redirects to an address (a search, selected options, a button). As in WebShop, opening the address of the end page
buys. After a purchase a session shows only its end page, and its reward does not change any more.

Files and pictures are looked up by name in tables, never by path. No page needs JavaScript; the content security policy
allows only the site's own script.
"""

from __future__ import annotations

import random
import re
import string
from collections.abc import Awaitable, Callable
from dataclasses import replace
from importlib import resources
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.envs.shop.session import Page, Shop, ShopSession
from turncredit.envs.shop.site.addresses import SiteError, asin_of, href, parse, words
from turncredit.envs.shop.site.pictures import picture
from turncredit.envs.shop.site.render import MISSING, error, html
from turncredit.envs.shop.site.session_store import KEPT, Goals, SessionStore
from turncredit.envs.shop.site.visits import VisitLog, actions_between
from turncredit.installation import MissingPackage, needs

if TYPE_CHECKING:
    from fastapi import FastAPI, Request, Response
    from starlette.types import Receive, Scope, Send

__all__ = ["OnPurchase", "create_app", "visit"]

OnPurchase = Callable[[str, list[str] | None], None]

FORM: Final = "application/x-www-form-urlencoded"
_LARGEST_FORM: Final = 64_000  # bytes, more than the longest query when percent-encoded
_COLOUR: Final = re.compile("[0-9a-f]{6}")
_ROBOTS: Final = b"User-agent: *\nDisallow: /\n"
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_ALONE: Final = {"": "fresh", "favicon.ico": "static", "robots.txt": "robots"}  # path -> method of `_SiteApp`
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def create_app(shop: Shop, goals: Goals, *, capacity: int = KEPT, on_purchase: OnPurchase | None = None) -> FastAPI:
    """Return the application; its `state.sessions` is the `SessionStore` that it serves.

    Args:
        shop: products, prices, search and reward.
        goals: source of the visitors' goals.
        capacity: how many sessions of visitors are kept.
        on_purchase: called when a visitor buys, with the id of the task and the actions of the text environment that
            lead from its first page to the purchase; None in place of the actions where there are none, because the
            visitor jumped to an address that no actions lead to.

    Raises:
        UnknownOption: the goals are about several shops.
        ImportError: the extra `serve` is not installed.
    """
    count = getattr(goals, "count", 1)
    if isinstance(count, int) and count > 1:
        raise UnknownOption(f"a site has one shop, but these goals belong to {count:,}; use the goals of one catalogue")
    try:
        from fastapi import FastAPI, Request, Response
    except ImportError as missing:
        raise MissingPackage(needs(MISSING, "serve")) from missing
    app = FastAPI(title="turncredit shop", docs_url=None, redoc_url=None, openapi_url=None)
    site = _SiteApp(shop, SessionStore(shop, goals, capacity=capacity), on_purchase, Request, Response)

    async def failed(_: Request, wrong: Exception) -> Response:
        return site.refuse(500, "the shop has failed; the request was valid")

    app.state.sessions = site.sessions
    app.state.content_types, app.state.max_body = (FORM,), _LARGEST_FORM
    app.add_exception_handler(Exception, failed)
    app.router.default = site
    return app


def visit(session: ShopSession, page: Page) -> None:
    """Move a session to the page of an address, which buys on the end page. A finished session stays at its end.

    Raises:
        SiteError: there is no such product, or it does not offer a selected option.
    """
    if session.done:
        return
    if page.asin:
        product = session.shop.catalogue.get(page.asin)
        if product is None:
            raise SiteError(f"the shop has no product {page.asin[:40]!r}")
        offered = {name.lower(): values for name, values in product.options.items()}
        for name, value in page.options:
            if value not in offered.get(name, ()):
                raise SiteError(f"product {product.asin} has no option {name[:40]!r} with a value {value[:40]!r}")
    if page.sub == "Attributes" and not session.shop.attributes:
        raise SiteError("this shop does not show the attributes of its products")
    if page.kind == "done":
        session.go(replace(page, kind="item"))
        session.act("click[buy now]")
    else:
        session.go(page)


class _SiteApp:
    """Answers requests. FastAPI's classes are parameters because fastapi is imported in one function only."""

    def __init__(
        self,
        shop: Shop,
        sessions: SessionStore,
        on_purchase: OnPurchase | None,
        request: type[Request],
        response: type[Response],
    ) -> None:
        self.shop = shop
        self.sessions = sessions
        self._on_purchase = on_purchase
        self._log = VisitLog()
        self._request = request
        self._response = response
        folder = resources.files("turncredit.envs.shop.site") / "static"
        self._files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request (ASGI) by its undecoded path, which FastAPI's routes do not see."""
        if scope["type"] != "http":
            raise RuntimeError(f"expected an HTTP request, got {scope['type']!r}")
        request = self._request(scope, receive)
        try:
            answer = await self._choose(request)(request)
        except SiteError as wrong:
            answer = self.refuse(wrong.status, str(wrong))
        except EnvError as wrong:
            answer = self.refuse(404, str(wrong))
        if request.method == "HEAD":
            answer.body = b""  # with the headers of GET, including the length
        await answer(scope, receive, send)

    def _choose(self, request: Request) -> Callable[[Request], Awaitable[Response]]:
        first, slash, _ = _path(request).removeprefix("/").partition("/")
        posts = request.method == "POST"
        answer: Callable[[Request], Awaitable[Response]]
        if first in _ALONE and not slash:
            answer, allowed = getattr(self, _ALONE[first]), not posts
        elif slash and first in ("static", "picture"):
            answer, allowed = getattr(self, first), not posts
        elif slash and first == "again":
            answer, allowed = self.again, posts
        else:
            answer, allowed = self.page, True
        if not allowed or request.method not in ("GET", "HEAD", "POST"):
            raise SiteError(f"this address does not support {request.method}", 405)
        return answer

    async def static(self, request: Request) -> Response:
        name = _last(request) or "icon.svg"
        content = self._files.get(name)
        if content is None:
            raise SiteError("there is no file at this address")
        return self._answer(content, _TYPES[name.rpartition(".")[2]], cache="max-age=300")

    async def robots(self, request: Request) -> Response:
        return self._answer(_ROBOTS, "text/plain", cache="max-age=3600")

    async def picture(self, request: Request) -> Response:
        asin, _, colour = _last(request).removesuffix(".svg").partition("/")
        product = self.shop.catalogue.get(asin_of(asin))
        if product is None or (colour and not _COLOUR.fullmatch(colour)):
            raise SiteError("there is no picture at this address")
        drawn = picture(product, f"#{colour}" if colour else "")
        return self._answer(drawn.encode(), "image/svg+xml", cache="max-age=3600")

    async def fresh(self, request: Request) -> Response:
        return self._lead("/" + "".join(random.SystemRandom().choices(string.ascii_lowercase, k=10)))

    async def again(self, request: Request) -> Response:
        name, page = parse("/" + _last(request))
        self.sessions.restart(name)
        return self._lead(href(name, page))

    async def page(self, request: Request) -> Response:
        name, page = parse(_path(request))
        session = self.sessions.get(name)
        if request.method == "POST":
            return self._lead(_destination(name, page, await _form(request)))
        self._visit(name, session, page)
        if session.page.kind == "done" and page != session.page:
            here = href(name, session.page)
            if here != href(name, page):
                return self._lead(here)
        return self._answer(html(session, explained=True).encode("utf-8", "replace"), "text/html")

    def _visit(self, name: str, session: ShopSession, page: Page) -> None:
        """Move a session to a page, and report a purchase with the actions that led to it."""
        if self._on_purchase is None or session.done:
            visit(session, page)
            return
        steps = actions_between(session, page)
        visit(session, page)
        self._log.add(session, steps)
        if session.done:
            self._on_purchase(self.sessions.task_of(name), self._log.take(session))

    def refuse(self, status: int, sentence: str) -> Response:
        """Return an error page."""
        return self._answer(error(status, sentence).encode("utf-8", "replace"), "text/html", status=status)

    def _answer(self, content: bytes, kind: str, *, status: int = 200, cache: str = "no-cache") -> Response:
        headers = _HEADERS | {"Cache-Control": cache, "Content-Type": f"{kind}; charset=utf-8"}
        return self._response(content, status, headers)

    def _lead(self, address: str) -> Response:
        return self._response(b"", 303, _HEADERS | {"Location": address, "Cache-Control": "no-cache"})


def _path(request: Request) -> str:
    """Return the undecoded path, in which an encoded slash does not separate segments."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    return raw.partition(b"?")[0].decode("utf-8", "replace")


def _last(request: Request) -> str:
    """Return the path after its first segment."""
    return _path(request).removeprefix("/").partition("/")[2]


async def _form(request: Request) -> dict[str, str]:
    body = await request.body()
    try:
        return dict(parse_qsl(body.decode("ascii", "replace"), max_num_fields=100))
    except ValueError as wrong:
        raise SiteError("a form may have at most 100 fields", 413) from wrong


def _destination(name: str, page: Page, form: dict[str, str]) -> str:
    """Return the address that a form leads to: search results, a product with selected options, or the form's page."""
    if page.kind == "index" and form.get("search_query"):
        return href(name, Page("results", words(form["search_query"]), 1))
    if page.kind == "item":
        chosen = dict(page.options) | {option.lower(): value for option, value in form.items()}
        return href(name, replace(page, options=tuple(chosen.items())))
    return href(name, page)
