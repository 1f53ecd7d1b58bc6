"""The railway: trains from Northfield to the towns around, with times, platforms and fares."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.content.people import TOWNS
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Card, Choice, Item, Section, Spacer, Text, Widget
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["DESTINATIONS", "HOST", "SITE", "Train", "trains"]

HOST: Final = "railway.example"
DESTINATIONS: Final = TOWNS[1:]


class Train(NamedTuple):
    """A daily train from Northfield."""

    number: str
    to: str
    leaves: str
    arrives: str
    platform: int
    fare: str


@lru_cache(maxsize=64)
def trains(seed: int | str) -> tuple[Train, ...]:
    """Return the trains of a phone with this seed, by destination and time."""
    random = KeyedRandom(f"{seed}/web/railway")
    result = []
    for to in DESTINATIONS:
        ride, fare = random.between(17, 95), random.between(4, 29)
        minute = 60 * 6 + random.between(0, 50)
        while minute < 60 * 22:
            number = f"{random.pick(('R', 'E'))}{random.between(100, 999)}"
            platform, cents = random.between(1, 6), random.pick(("00", "50", "90"))
            result.append(Train(number, to, _clock(minute), _clock(minute + ride), platform, f"{fare}.{cents}"))
            minute += random.between(95, 190)
    return tuple(result)


def _clock(minute: int) -> str:
    return f"{minute // 60:02d}:{minute % 60:02d}"


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    destinations = {to.lower(): to for to in DESTINATIONS}
    if path == "":
        return _front(ctx)
    to = destinations.get(path.removeprefix("to/")) if path.startswith("to/") else None
    return _timetable(ctx, to) if to else None


def _head() -> Widget:
    return banner("Valley Railway", "From Northfield, every day", "#23606b", do(go, url=HOST))


def _front(ctx: Context) -> WebPage:
    body: list[Widget] = [Spacer(4), _head(), Section("Trains from Northfield to")]
    for to in DESTINATIONS:
        rides = [train for train in trains(ctx.phone.seed) if train.to == to]
        about = f"{len(rides)} trains a day, first at {rides[0].leaves}"
        body.append(Item(to, about, "directions", on_tap=do(go, url=f"{HOST}/to/{to.lower()}")))
    return WebPage("Valley Railway", body)


def choose(ctx: Context) -> None:
    """Show the timetable to the chosen town."""
    go(ctx, f"{HOST}/to/{str(ctx.value).lower()}")


def _timetable(ctx: Context, to: str) -> WebPage:
    body: list[Widget] = [
        Spacer(4),
        _head(),
        Spacer(16),
        Text(f"Northfield to {to}", style="title"),
        Spacer(4),
        Choice("", "Destination", DESTINATIONS, to, do(choose)),
        Spacer(8),
    ]
    for train in trains(ctx.phone.seed):
        if train.to == to:
            about = f"Train {train.number} · platform {train.platform} · ${train.fare}"
            body.append(Card([Item(f"{train.leaves} to {train.arrives}", about, bold=True)]))
    return WebPage(f"Northfield to {to} · Valley Railway", [*body, Spacer(24)])


def _index(seed: int | str) -> list[Indexed]:
    front = Indexed("", "Valley Railway", "Timetables, platforms and fares of trains from Northfield.")
    return [
        front,
        *[Indexed(f"to/{to.lower()}", f"Trains to {to}", f"Timetable Northfield to {to}.") for to in DESTINATIONS],
    ]


SITE: Final = Site(HOST, "Valley Railway", "Timetables", "directions", "#23606b", _page, _index, {})
