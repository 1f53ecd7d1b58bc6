"""All sites by host name, and the search engine that finds their pages."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Button, Card, Divider, Empty, Section, Spacer, Text, TextField, Widget
from turncredit.phone.web import bistro, encyclopedia, forum, news, railway, shop, town_hall, weather
from turncredit.phone.web.navigation import SEARCH, go, search_url, split_url
from turncredit.phone.web.page import Site, WebPage

__all__ = ["SITES", "Found", "find", "open_page"]

SITES: Final[Mapping[str, Site]] = {
    site.host: site
    for site in (
        news.SITE,
        encyclopedia.SITE,
        shop.SITE,
        forum.SITE,
        bistro.SITE,
        railway.SITE,
        weather.SITE,
        town_hall.SITE,
    )
}
"""A new site is one module and one line here."""


class Found(NamedTuple):
    """A result of the search engine."""

    url: str
    title: str
    text: str


@lru_cache(maxsize=512)
def find(seed: int | str, words: str) -> tuple[Found, ...]:
    """Return the pages that contain a word, those with most of the words, and in their title, first."""
    terms = [word for word in words.casefold().split() if len(word) > 1]
    scored: list[tuple[int, int, Found]] = []
    for site in SITES.values():
        for path, title, text in site.index(seed):
            head, content = f"{title} {site.name} {site.about}".casefold(), text.casefold()
            score = sum(3 * (word in head) + (word in content) for word in terms)
            if score:
                scored.append((-score, len(scored), Found(f"{site.host}/{path}".rstrip("/"), title, text)))
    return tuple(result for _, _, result in sorted(scored)[:12])


def open_page(ctx: Context, url: str) -> WebPage:
    """Return the page at an address; where there is none, a page that says so."""
    host, path, query = split_url(url)
    if host == SEARCH:
        return _results(ctx, query.get("q", ""))
    site = SITES.get(host)
    page = site.page(ctx, path, query) if site else None
    return page or _missing(host, site_exists=site is not None)


def _missing(host: str, site_exists: bool) -> WebPage:
    if site_exists:
        back = [Button(f"Go to {host}", do(go, url=host), "tonal")]
        return WebPage("Page not found", [Empty("warning", "This page does not exist (404)"), *back])
    words = [Text("Check the address, or search for words.", style="caption", align="center")]
    return WebPage("Site not found", [Empty("warning", f"{host} could not be found"), *words])


def search(ctx: Context) -> None:
    """Search the words of the field."""
    words = str(ctx.form.get("words", "")).strip()
    if words:
        go(ctx, search_url(words))


def _results(ctx: Context, words: str) -> WebPage:
    body: list[Widget] = [
        Spacer(16),
        Text("Findit", style="headline", colour="primary", align="center"),
        Spacer(8),
        TextField("words", "Search the web", words, icon="search", on_submit=do(search)),
        Divider(),
    ]
    results = find(ctx.phone.seed, words)
    body.append(Section(f"{len(results)} results" if words else "What are you looking for?"))
    for result in results:
        lines: list[Widget] = [
            Text(result.url, style="small", lines=1),
            Text(result.title, style="subtitle", colour="primary"),
        ]
        lines.append(Text(result.text, style="caption", lines=2))
        body.append(Card(lines, do(go, url=result.url), description=result.title))
    return WebPage(f"{words} · Findit" if words else "Findit", [*body, Spacer(24)])
