"""Converts pages to addresses and back. The addresses are WebShop's:

    /{session}
    /search_results/{session}/{word+word}/{page}
    /item_page/{session}/{asin}/{word+word}/{page}/{options}
    /item_sub_page/{session}/{asin}/{word+word}/{page}/{sub page}/{options}
    /done/{session}/{asin}/{options}

Pictures are at /picture/{asin}.svg, and in another colour at /picture/{asin}/{rrggbb}.svg.

Every segment is percent-encoded separately and read from the undecoded path, so a query, an option or a task id may
contain slashes and plus signs. Options are a JSON object; a Python dict, which WebShop writes on some pages, is also
accepted. Browsers resolve the segments "." and "..", so such keywords and product ids are followed by a plus sign.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

from turncredit.envs.errors import EnvError
from turncredit.envs.shop.session import SUBS, Page

__all__ = [
    "LONGEST_NAME",
    "LONGEST_PATH",
    "LONGEST_QUERY",
    "SiteError",
    "asin_of",
    "drawing",
    "href",
    "named",
    "parse",
    "words",
]

LONGEST_QUERY: Final = 2000
"""Largest number of characters of a query."""
LONGEST_NAME: Final = 200
"""Largest number of characters of a session's name."""
LONGEST_PATH: Final = 32_000
"""Largest number of characters of an address."""

_KEPT: Final = "!$&'()*,;=:@"  # need no encoding in a segment (RFC 3986, pchar), except for the plus sign
_DOTS: Final = (".+", "..+")
_KINDS: Final = {"search_results": "results", "item_page": "item", "item_sub_page": "sub", "done": "done"}


class SiteError(EnvError):
    """The site has no page for an address or a form."""

    def __init__(self, message: str, status: int = 404) -> None:
        """Create the error with a message and an HTTP status."""
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


def words(query: str) -> tuple[str, ...]:
    """Return the keywords of a query as in WebShop: lower case, split at each blank.

    Raises:
        SiteError: more than `LONGEST_QUERY` characters.
    """
    if len(query) > LONGEST_QUERY:
        raise SiteError(f"a search may have at most {LONGEST_QUERY:,} characters, got {len(query):,}", 413)
    return tuple(query.lower().split(" "))


def href(session: str, page: Page) -> str:
    """Return the address of a page, from the root of the site.

    Args:
        session: name of the session.
        page: the page; fields that its address does not contain are ignored.
    """
    options = json.dumps(dict(page.options), ensure_ascii=False)
    asin = (page.asin,)
    parts: list[object]
    if page.kind == "index":
        return f"/{_segment(session)}"
    if page.kind == "results":
        parts = ["search_results", session, page.keywords, page.number]
    elif page.kind == "item":
        parts = ["item_page", session, asin, page.keywords, page.number, options]
    elif page.kind == "sub":
        parts = ["item_sub_page", session, asin, page.keywords, page.number, page.sub, options]
    else:
        parts = ["done", session, asin, options]
    return "".join(f"/{_segment(part)}" for part in parts)


def drawing(asin: str, colour: str = "") -> str:
    """Return the address of a product's picture.

    Args:
        asin: id of the product.
        colour: six hexadecimal digits, or "" for the default.
    """
    return f"/picture/{_segment((asin,))}{f'/{colour}' if colour else ''}.svg"


def asin_of(raw: str) -> str:
    """Return the product id of a segment."""
    return raw[:-1] if raw in _DOTS else unquote(raw)


def parse(path: str) -> tuple[str, Page]:
    """Return the session's name and the page of an address.

    Args:
        path: the percent-encoded path without query string.

    Raises:
        SiteError: the site has no such page.
    """
    if len(path) > LONGEST_PATH:
        raise SiteError(f"an address may have at most {LONGEST_PATH:,} characters, got {len(path):,}", 414)
    raw = path.removeprefix("/").split("/")
    if len(raw) == 1:
        return named(unquote(raw[0])), Page()
    kind = _KINDS.get(raw[0], "")
    length = {"results": 4, "item": 6, "sub": 7, "done": 4}.get(kind)
    if length != len(raw):
        raise SiteError("there is no page at this address")
    if kind == "results":
        return named(unquote(raw[1])), Page(kind, _keywords(raw[2]), _number(raw[3]))
    if kind == "done":
        return named(unquote(raw[1])), Page(kind, asin=asin_of(raw[2]), options=_options(raw[3]))
    sub = _sub(raw[5]) if kind == "sub" else ""
    asin, keywords, number = asin_of(raw[2]), _keywords(raw[3]), _number(raw[4])
    return named(unquote(raw[1])), Page(kind, keywords, number, asin, _options(raw[-1]), sub)


def _segment(part: object) -> str:
    if isinstance(part, tuple):
        joined = "+".join(_segment(word) for word in part)
        return joined + "+" if joined + "+" in _DOTS else joined
    return quote(str(part), safe=_KEPT, errors="replace")


def named(name: str) -> str:
    """Return a valid name of a session.

    Raises:
        SiteError: the name is not valid.
    """
    if not name or len(name) > LONGEST_NAME or not name.isprintable() or name in (".", ".."):
        raise SiteError(f"the name of a session must have 1 to {LONGEST_NAME} printable characters, got {name[:40]!r}")
    return name


def _keywords(raw: str) -> tuple[str, ...]:
    if raw in _DOTS:
        return (raw[:-1],)
    keywords = tuple(unquote(word) for word in raw.split("+"))
    if sum(map(len, keywords)) + len(keywords) - 1 > LONGEST_QUERY:
        raise SiteError(f"a search may have at most {LONGEST_QUERY:,} characters", 414)
    return keywords


def _number(raw: str) -> int:
    if not (raw.isascii() and raw.isdecimal() and len(raw) <= 6 and int(raw) >= 1):
        raise SiteError(f"pages of results are numbered from 1, got {unquote(raw)[:40]!r}")
    return int(raw)


def _sub(raw: str) -> str:
    if raw not in SUBS:
        raise SiteError(f"a product has the pages {', '.join(SUBS)}, got {unquote(raw)[:40]!r}")
    return raw


def _options(raw: str) -> tuple[tuple[str, str], ...]:
    options = _mapping(unquote(raw))
    if options is None or not all(isinstance(text, str) for pair in options.items() for text in pair):
        raise SiteError("the options at the end of this address must be an object of names and values")
    return tuple(options.items())


def _mapping(text: str) -> Mapping[str, str] | None:
    for read in (json.loads, ast.literal_eval):
        try:
            value: object = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(value, Mapping):
            return value
    return None
