"""Shared parts of the tasks of Calendar: texts for events, the events that they may use, and steps of the solutions."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.hand import Finding, Hand, Script, is_no_field
from turncredit.envs.android.tasks.template import Draw, Params
from turncredit.phone.toolkit.tables import Row

PACKAGE: Final = "org.turncredit.calendar"
TITLES: Final = (
    "Piano recital",
    "Budget talk",
    "Pick up the bikes",
    "Garden meeting",
    "Pottery evening",
    "Tax adviser",
    "Lunch with the neighbours",
    "Board game night",
    "Photo walk",
    "Cooking class",
)
NOTES: Final = ("Bring the red folder", "Ask about the price", "Take the bus", "Wear warm clothes", "Parking is free")
PLACES: Final = ("Town hall", "Room 5", "Harbour café", "Museum entrance", "Community centre")
_HOURS: Final = re.compile(r"(All day|\d\d:\d\d to \d\d:\d\d)\b")


def say(day: date) -> str:
    """Return a day as people write it, such as 'Tuesday, 17 October 2023'."""
    return f"{day:%A}, {day.day} {day:%B %Y}"


def once(d: Draw) -> list[Row]:
    """Return the coming events that do not repeat and whose title no other event has."""
    rows = d.rows(PACKAGE, "events")
    titles = [row["title"] for row in rows]
    clock = f"{d.phone.now:%Y-%m-%d %H:%M}"
    return [row for row in rows if not row["repeat"] and row["start"] > clock and titles.count(row["title"]) == 1]


def go_to(hand: Hand, day: str) -> Script:
    """Show a day in the view of a month."""
    yield from hand.open("Calendar")
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap("Go to date")
    yield from hand.pick_date("Date", day)
    yield from hand.tap("Go")


def read_day(hand: Hand, day: str) -> Finding:
    """Return title and hours of the events of a day, as the month shows them."""
    yield from go_to(hand, day)

    def read(element: ScreenElement) -> tuple[str, str] | None:
        hours = len(element.texts) > 1 and _HOURS.match(element.texts[1])
        return (element.texts[0], element.texts[1]) if hours else None

    events = yield from hand.read_all(read)
    return events


def open_event(hand: Hand, title: str) -> Script:
    """Open an event by way of the search."""
    yield from hand.open("Calendar")
    yield from hand.tap("Search", scroll=False)
    yield from hand.fill("Search events", title)
    yield from hand.tap(title, where=is_no_field)


def fill_form(hand: Hand, p: Params) -> Script:
    """Enter a new event, and save it."""
    yield from hand.open("Calendar")
    yield from hand.tap("New event", scroll=False)
    yield from hand.fill("Title", p["title"])
    if p.get("all_day"):
        yield from hand.switch("All day")
    yield from hand.pick_date("Start date", p["start"][:10])
    if not p.get("all_day"):
        yield from hand.pick_time("Start time", p["start"][11:])
        yield from hand.pick_time("End time", p["end"][11:])
    if "choice" in p:
        yield from hand.choose("Repeat", p["choice"])
    if "location" in p:
        yield from hand.fill("Location", p["location"])
    if "notes" in p:
        yield from hand.fill("Notes", p["notes"])
    yield from hand.tap("Save", scroll=False)
