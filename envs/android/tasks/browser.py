"""Tasks of Browser: look something up on the web, bookmarks, and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Unpack

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Lost, Script, is_item
from turncredit.envs.android.tasks.steps import Step, call, choose, steps, tap
from turncredit.envs.android.tasks.template import (
    Draw,
    DrawFunction,
    EffectsFunction,
    Params,
    TaskTemplate,
    TemplateOptions,
)
from turncredit.phone.apps.browser import FOLDERS, SWITCHES
from turncredit.phone.content.people import TOWNS
from turncredit.phone.toolkit.tables import Row
from turncredit.phone.web import encyclopedia, news, railway, town_hall, weather
from turncredit.phone.web.sites import SITES

__all__ = ["PACKAGE", "TEMPLATES", "fact_draw", "find_fact", "find_office", "office_draw", "open_site", "weather_draw"]

PACKAGE: Final = "org.turncredit.browser"
_APPS: Final = ("Browser",)
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_DESKS: Final = {"room": "Room", "fee": "Fee", "phone": "Phone"}


# Ways


def open_site(hand: Hand, name: str) -> Script:
    """Open the front page of a site from the page of a new tab."""
    yield from hand.open("Browser")
    if hand.field("Search or type address").value:
        yield from hand.tap("More options", scroll=False)
        yield from hand.tap("New tab", scroll=False)
    yield from hand.tap(name, where=is_item)


def _visit(hand: Hand, address: str) -> Script:
    yield from hand.open("Browser")
    yield from hand.fill("Search or type address", address)
    yield "enter"


def _open_bookmarks(hand: Hand) -> Script:
    yield from hand.open("Browser")
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap("Bookmarks", scroll=False)


def said(hand: Hand, pattern: str) -> Finding:
    """Return the first match of a pattern in a text of the page; scrolls until there is one.

    Raises:
        Lost: there is none.
    """

    def found() -> re.Match[str] | None:
        return next((match for text in hand.texts() if (match := re.search(pattern, text))), None)

    match = found() or (yield from hand.scroll_until(found))
    if match is None:
        raise Lost(f"the page says nothing like {pattern!r}")
    return match


# The encyclopedia


def fact_draw(d: Draw) -> Params | None:
    """Draw a fact of an article: its name, label and value."""
    subject = d.random.pick(encyclopedia.subjects(d.phone.seed))
    label = d.random.pick(tuple(subject.facts))
    return {"subject": subject.name, "label": label.lower(), "value": subject.facts[label], "path": subject.path}


def find_fact(hand: Hand, subject: str, label: str) -> Finding:
    """Return a value of the table of an article."""
    yield from open_site(hand, "Openpages")
    yield from hand.fill("Search Openpages", subject)
    yield from hand.tap("Search articles")
    yield from hand.tap(subject, where=is_item)
    yield from hand.look_for(label)
    return hand.after(label)


def _fact_effects(p: Params) -> list[Effect]:
    number = re.match(r"\d+", p["value"])
    return [Answer("number", int(number[0])) if number else Answer("text", p["value"])]


def _fact_solve(hand: Hand, p: Params) -> Iterator[str]:
    value = yield from find_fact(hand, p["subject"], p["label"])
    yield from hand.answer(value)


# The newspaper


def _news_draw(d: Draw) -> Params | None:
    article = d.random.pick(news.articles(d.phone.seed))
    if not article.facts:
        return None
    question, kind, answer = d.random.pick(article.facts)
    return {"question": question, "kind": kind, "answer": answer, "title": article.title}


def _news_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_site(hand, "The Northfield Times")
    yield from hand.tap(p["title"], where=is_item)
    match = yield from said(hand, re.escape(p["answer"]))
    yield from hand.answer(match[0])


# Trains, weather, offices


def _train_draw(d: Draw) -> Params | None:
    to = d.random.pick(railway.DESTINATIONS)
    rides = [train for train in railway.trains(d.phone.seed) if train.to == to]
    n = d.random.between(1, len(rides) - 1)
    hour = int(rides[n].leaves[:2])
    after = f"{hour:02d}:00"
    first = next(train for train in rides if train.leaves >= after)
    return {"town": to, "after": after, "leaves": first.leaves, "number": rides[n].number, "fare": rides[n].fare}


def trains_of(hand: Hand, town: str) -> Finding:
    """Return departure, number and fare of all trains to a town, in order."""
    yield from open_site(hand, "Valley Railway")
    yield from hand.tap(town, where=is_item)
    texts = yield from hand.read_all(lambda element: element.texts[0] if element.kind == "text" else None)
    leaves = [text.partition(" to ")[0] for text in texts if re.fullmatch(r"\d\d:\d\d to \d\d:\d\d", text)]
    details = [match for text in texts if (match := re.match(r"Train (\w+) .*\$([\d.]+)$", text))]
    if not leaves or len(leaves) != len(details):
        raise Lost("the timetable is not on the screen")
    return [(time, match[1], match[2]) for time, match in zip(leaves, details, strict=True)]


def _train_solve(hand: Hand, p: Params) -> Iterator[str]:
    rides = yield from trains_of(hand, p["town"])
    yield from hand.answer(next(time for time, _, _ in rides if time >= p["after"]))


def _fare_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_site(hand, "Valley Railway")
    yield from hand.tap(p["town"], where=is_item)
    match = yield from said(hand, rf"^Train {p['number']} .*\$([\d.]+)$")
    yield from hand.answer(match[1])


def weather_draw(d: Draw) -> Params | None:
    """Draw a day of the forecast of a town."""
    town = d.random.pick(TOWNS)
    day = weather.forecast(d.phone.seed, town, d.phone.now.date())[d.random.between(1, 6)]
    name = _WEEKDAYS[day.day.weekday()]
    return {"town": town, "weekday": name, "day": day.day.day, "rain": day.rain, "high": day.high}


def find_weather(hand: Hand, town: str, weekday: str, day: int) -> Finding:
    """Return (rain in per cent, highest temperature) of a day in a town."""
    yield from open_site(hand, "Sky Office")
    yield from hand.choose("Town", town)
    yield from hand.look_for(f"{weekday} {day}", where=lambda e: _weather_after(hand, e) is not None)
    row = yield from hand.look_for(f"{weekday} {day}")
    return _weather_after(hand, row)


def _weather_after(hand: Hand, row: ScreenElement) -> tuple[str, str] | None:
    texts = " ".join(text for element in hand.screen[row.index : row.index + 4] for text in element.texts)
    match = re.search(r"rain (\d+) %.*?(-?\d+)\u00b0 / ", texts)
    return (match[1], match[2]) if match else None


def _rain_solve(hand: Hand, p: Params) -> Iterator[str]:
    weather = yield from find_weather(hand, p["town"], p["weekday"], p["day"])
    yield from hand.answer(weather[0])


def office_draw(d: Draw) -> Params | None:
    """Draw an office of the town hall and what to ask about it."""
    office = d.random.pick(town_hall.offices(d.phone.seed))
    fact = d.random.pick(("room", "fee"))
    asked = {"room": "the number of the room", "fee": "the fee in dollars"}[fact]
    value = office.room if fact == "room" else str(office.fee)
    return {"office": office.name, "what": fact, "asked": asked, "value": value, "phone": office.phone}


def find_office(hand: Hand, office: str, fact: str) -> Finding:
    """Return a fact of an office: room, fee or phone."""
    yield from open_site(hand, "Northfield Town Hall")
    yield from hand.tap(office, where=is_item)
    yield from hand.look_for(_DESKS[fact])
    return hand.after(_DESKS[fact])


def _office_solve(hand: Hand, p: Params) -> Iterator[str]:
    value = yield from find_office(hand, p["office"], p["what"])
    yield from hand.answer(value.lstrip("$"))


# Bookmarks and settings


def _page_draw(d: Draw) -> Params | None:
    p = fact_draw(d)
    url = f"{encyclopedia.HOST}/{p['path']}" if p else ""
    if not p or d.rows(PACKAGE, "bookmarks", url=url):
        return None
    return {"url": url, "folder": d.random.pick(FOLDERS[1:])}


def _add_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _visit(hand, p["url"])
    yield from hand.tap("More options", scroll=False)
    if hand.see("Add bookmark"):
        yield from hand.tap("Add bookmark", scroll=False)
        yield from hand.tap("Edit", scroll=False)
    else:  # it was added before an interruption, in the first folder
        yield from hand.tap("Bookmarks", scroll=False)
        row = yield from hand.look_for(p["url"])
        yield from hand.tap(f"Edit {row.texts[0]}")
    yield from hand.choose("Folder", p["folder"])
    yield from hand.tap("Save", scroll=False)
    yield from hand.done()


def _bookmark_draw(d: Draw) -> Params | None:
    rows = d.rows(PACKAGE, "bookmarks")
    titles = [row["title"] for row in rows]
    row = d.pick([row for row in rows if titles.count(row["title"]) == 1])
    if row is None:
        return None
    other = d.random.pick([folder for folder in FOLDERS if folder != row["folder"]])
    return {"id": row["_id"], "title": row["title"], "folder": other}


def _edit(hand: Hand, title: str) -> Script:
    yield from _open_bookmarks(hand)
    yield from hand.tap(f"Edit {title}")


def _open_settings(hand: Hand) -> Script:
    yield from hand.open("Browser")
    yield from hand.tap("More options", scroll=False)
    yield from hand.tap("Settings", scroll=False)


def _preference(d: Draw, name: str) -> Row:
    return d.rows(PACKAGE, "preferences", name=name)[0]


def _switch_draw(d: Draw) -> Params | None:
    name = d.random.pick(tuple(SWITCHES))
    row = _preference(d, name)
    on = row["value"] != "1"
    return {"id": row["_id"], "name": name, "value": "1" if on else "0", "on": on, "state": "on" if on else "off"}


def _home_draw(d: Draw) -> Params | None:
    site = d.random.pick(tuple(SITES.values()))
    return {"id": _preference(d, "Home page")["_id"], "site": site.name, "host": site.host}


def _template(
    name: str,
    goal: str | tuple[str, ...],
    draw: DrawFunction,
    effects: EffectsFunction,
    solve: Step,
    **more: Unpack[TemplateOptions],
) -> TaskTemplate:
    options: TemplateOptions = {"complexity": 1.6, **more}
    return TaskTemplate(name, goal, draw, effects, solve, _APPS, **options)


TEMPLATES: Final = (
    _template(
        "BrowserAskFact",
        (
            "Look up {subject} in Openpages. What does the table say about: {label}?",
            'What stands next to "{label}" in the article of Openpages about {subject}?',
        ),
        fact_draw,
        _fact_effects,
        _fact_solve,
    ),
    _template(
        "BrowserAskNews",
        'The Northfield Times has an article "{title}". {question}',
        _news_draw,
        lambda p: [Answer(p["kind"], p["answer"])],
        _news_solve,
    ),
    _template(
        "BrowserAskTrain",
        "When does the first train from Northfield to {town} leave at or after {after}? See Valley Railway.",
        _train_draw,
        lambda p: [Answer("time", p["leaves"])],
        _train_solve,
        complexity=2.0,
    ),
    _template(
        "BrowserAskFare",
        "What does a ride from Northfield to {town} with the train {number} cost? Answer with a number, in dollars.",
        _train_draw,
        lambda p: [Answer("number", float(p["fare"]))],
        _fare_solve,
        split="held_out",
    ),
    _template(
        "BrowserAskRain",
        "How likely is rain in {town} on {weekday}, in per cent? Look at the site Sky Office.",
        weather_draw,
        lambda p: [Answer("number", p["rain"])],
        _rain_solve,
    ),
    _template(
        "BrowserAskOffice",
        'What is {asked} of the office "{office}" in Northfield Town Hall? Answer with a number; see its site.',
        office_draw,
        lambda p: [Answer("number", int(p["value"]))],
        _office_solve,
    ),
    _template(
        "BrowserAddBookmark",
        "Add the page {url} to the bookmarks of Browser, in the folder {folder}.",
        _page_draw,
        lambda p: [InsertRow(PACKAGE, "bookmarks", {"url": p["url"], "folder": p["folder"]}, free=("title",))],
        _add_solve,
        complexity=2.0,
    ),
    _template(
        "BrowserDeleteBookmark",
        'Delete the bookmark "{title}" in Browser.',
        _bookmark_draw,
        lambda p: [DeleteRow(PACKAGE, "bookmarks", p["id"])],
        steps(call(_edit, "{title}"), tap("Delete bookmark", scroll=False)),
        complexity=1.4,
    ),
    _template(
        "BrowserMoveBookmark",
        'Move the bookmark "{title}" of Browser to the folder {folder}.',
        _bookmark_draw,
        lambda p: [UpdateRow(PACKAGE, "bookmarks", p["id"], {"folder": p["folder"]})],
        steps(call(_edit, "{title}"), choose("Folder", "{folder}"), tap("Save", scroll=False)),
        split="held_out",
    ),
    _template(
        "BrowserSwitch",
        'Turn "{name}" {state} in the settings of Browser.',
        _switch_draw,
        lambda p: [UpdateRow(PACKAGE, "preferences", p["id"], {"value": p["value"]})],
        steps(call(_open_settings), lambda hand, p: hand.switch(p["name"], p["on"])),
        complexity=1.2,
    ),
    _template(
        "BrowserSetHome",
        "Make {site} ({host}) the home page of Browser.",
        _home_draw,
        lambda p: [UpdateRow(PACKAGE, "preferences", p["id"], {"value": p["host"]})],
        steps(call(_open_settings), choose("Home page", "{site}")),
        complexity=1.4,
    ),
)
