"""Addresses, and how a tab moves from page to page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote

from turncredit.phone.toolkit.app import Context, to_clock
from turncredit.phone.toolkit.state import AppPage
from turncredit.phone.toolkit.tables import Row

__all__ = ["NEW_TAB", "SEARCH", "current_tab", "go", "go_back", "go_forward", "reload", "search_url", "split_url"]

NEW_TAB: Final = ""
"""Address of the page of a new tab."""
SEARCH: Final = "findit.example"
_LONGEST: Final = 500


def search_url(words: str) -> str:
    """Return the address of the results for words."""
    return f"{SEARCH}/search?q={quote(words)}"


def split_url(url: str) -> tuple[str, str, Mapping[str, str]]:
    """Return host, path without slashes at its ends, and query of an address.

    >>> split_url("https://www.findit.example/search?q=two%20words")
    ('findit.example', 'search', {'q': 'two words'})
    """
    address = url.split("://", 1)[-1].removeprefix("www.")
    address, _, query = address.split("#")[0].partition("?")
    host, _, path = address.partition("/")
    return host.lower(), path.strip("/"), dict(parse_qsl(query))


def current_tab(ctx: Context) -> Row:
    """Return the tab in front."""
    session = ctx.db.rows("session")
    tab = ctx.db.get("tabs", session[0]["tab"]) if session else None
    return tab or {"_id": 0, "url": NEW_TAB, "back": "", "forward": ""}


def go(ctx: Context, url: str) -> None:
    """Open an address in the tab in front."""
    tab = current_tab(ctx)
    if tab["url"] != url:
        ctx.db.update("tabs", tab["_id"], url=url[:_LONGEST], back=f"{tab['back']}{tab['url']}\n", forward="")
    visit(ctx, url)


def visit(ctx: Context, url: str) -> None:
    """Note an address in the history and show the page from its beginning."""
    if url:
        ctx.db.insert("history", url=url[:_LONGEST], visited=to_clock(ctx.now))
    reload(ctx)


def reload(ctx: Context) -> None:
    """Show the page as it is when it is opened: forms empty, at the top."""
    page = ctx.phone.page
    ctx.phone.change_page(AppPage(page.package, page.screen, page.params))


def go_back(ctx: Context) -> None:
    """Return to the page before; where there is none, leave the browser."""
    tab = current_tab(ctx)
    if not tab["back"]:
        ctx.back()
        return
    *earlier, last = tab["back"].split("\n")[:-1]
    back = "".join(f"{url}\n" for url in earlier)
    ctx.db.update("tabs", tab["_id"], url=last, back=back, forward=f"{tab['forward']}{tab['url']}\n")
    reload(ctx)


def go_forward(ctx: Context) -> None:
    """Return to the page that was left by `go_back`."""
    tab = current_tab(ctx)
    if tab["forward"]:
        *later, following = tab["forward"].split("\n")[:-1]
        forward = "".join(f"{url}\n" for url in later)
        ctx.db.update("tabs", tab["_id"], url=following, back=f"{tab['back']}{tab['url']}\n", forward=forward)
        reload(ctx)
