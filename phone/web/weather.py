"""The weather of the next seven days in each town."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.content.people import TOWNS
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.handlers import do
from turncredit.phone.toolkit.widgets import Card, Choice, Icon, Item, Row, Section, Spacer, Text, Widget
from turncredit.phone.web.navigation import go
from turncredit.phone.web.page import Indexed, Site, WebPage, banner
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["HOST", "SITE", "Day", "forecast"]

HOST: Final = "weather.example"
_SKIES: Final = ("Sunny", "Cloudy", "Rain", "Wind", "Fog", "Thunderstorm")


class Day(NamedTuple):
    """The weather of a day; temperatures in degrees Celsius, rain in per cent."""

    day: date
    sky: str
    high: int
    low: int
    rain: int


@lru_cache(maxsize=256)
def forecast(seed: int | str, town: str, today: date) -> tuple[Day, ...]:
    """Return the weather of a town for seven days from today; a day's weather is the same on every day before it."""
    days = []
    for ahead in range(7):
        day = today + timedelta(days=ahead)
        random = KeyedRandom(f"{seed}/web/weather/{town}/{day}")
        warm = 20 - abs(day.timetuple().tm_yday - 200) // 10
        high = warm + random.between(-4, 7)
        days.append(Day(day, random.pick(_SKIES), high, high - random.between(4, 11), 5 * random.between(0, 19)))
    return tuple(days)


def _page(ctx: Context, path: str, query: Mapping[str, str]) -> WebPage | None:
    towns = {town.lower(): town for town in TOWNS}
    town = towns.get(path or TOWNS[0].lower())
    return _forecast(ctx, town) if town else None


def choose(ctx: Context) -> None:
    """Show the weather of the chosen town."""
    go(ctx, f"{HOST}/{str(ctx.value).lower()}")


def _forecast(ctx: Context, town: str) -> WebPage:
    days = forecast(ctx.phone.seed, town, ctx.today)
    today = days[0]
    head = Card(
        [
            Row(
                [
                    Icon("sun" if today.sky == "Sunny" else "info", colour="primary", size=40),
                    Text(today.sky, style="headline"),
                ]
            ),
            Spacer(8),
            Text(f"{town}, today: {today.high}° / {today.low}°, rain {today.rain} %"),
        ]
    )
    body: list[Widget] = [
        Spacer(4),
        banner("Sky Office", "Weather for the valley", "#35618c", do(go, url=HOST)),
        Spacer(12),
        Choice("", "Town", TOWNS, town, do(choose)),
        Spacer(8),
        head,
        Section("The next days"),
    ]
    for day in days[1:]:
        name = f"{_DAYS[day.day.weekday()]} {day.day.day}"
        body.append(Item(name, f"{day.sky}, rain {day.rain} %", "calendar", trailing=f"{day.high}° / {day.low}°"))
    return WebPage(f"Weather in {town} · Sky Office", body)


_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def _index(seed: int | str) -> list[Indexed]:
    return [Indexed(town.lower(), f"Weather in {town}", f"Weather of the next seven days in {town}.") for town in TOWNS]


SITE: Final = Site(HOST, "Sky Office", "Weather", "sun", "#35618c", _page, _index, {})
