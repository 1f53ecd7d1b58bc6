"""Web pages and sites: a page is a title and widgets, and a site answers for one host name.

Rows that visitors write (orders, bookings, posts) are in the browser app's database; everything else follows from the
phone's seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import Do
from turncredit.phone.toolkit.tables import Schema
from turncredit.phone.toolkit.widgets import Column, Picture, Shape, Spacer, Text, Widget

__all__ = ["Indexed", "Site", "WebPage", "banner", "form_error", "paragraphs", "refuse"]


@dataclass(frozen=True, slots=True)
class WebPage:
    """A page as the browser shows it."""

    title: str
    body: Sequence[Widget]


class Indexed(NamedTuple):
    """A page in the index of the search engine."""

    path: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Site:
    """A web site.

    `page(ctx, path, query)` returns a page, or None where there is none. `path` has no slash at either end and is ""
    for the front page. `index(seed)` lists what the search engine finds.
    """

    host: str
    name: str
    about: str
    icon: str
    colour: str
    page: Callable[[Context, str, Mapping[str, str]], WebPage | None]
    index: Callable[[int | str], Sequence[Indexed]]
    schema: Schema
    fill: Callable[[Context], None] | None = None


def banner(name: str, about: str, colour: str, home: Do | None = None) -> Widget:
    """Return the head of a site; a tap of it opens the front page."""
    shapes = (
        Shape("box", ((0, 0), (360, 72)), colour, radius=14),
        Shape("disc", ((322, 14), (350, 42)), _lighter(colour)),
        Shape("disc", ((306, 36), (326, 56)), _lighter(colour)),
        Shape("text", ((180, 27),), "#ffffff", 19, name),
        Shape("text", ((180, 52),), "#f1f1f4", 11, about),
    )
    return Picture(shapes, 360, 72, f"{name}: {about}", on_tap=home)


def _lighter(colour: str) -> str:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{part + (255 - part) // 4:02x}" for part in parts)


def paragraphs(texts: Sequence[str]) -> Column:
    """Return running text."""
    parts: list[Widget] = []
    for text in texts:
        parts += [Text(text, selectable=True), Spacer(12)]
    return Column(parts)


def refuse(ctx: Context, why: str) -> None:
    """Show above the form's button why it was not sent."""
    ctx.set("error", why)


def form_error(ctx: Context) -> list[Widget]:
    """Return why the form was not sent, if it was tried."""
    why = str(ctx.get("error", ""))
    return [Text(why, style="caption", colour="error", id="form_error"), Spacer(8)] if why else []
