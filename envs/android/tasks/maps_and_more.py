"""Tasks over Maps and another app: a place is called, told, noted, or goes into the calendar or the contacts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Final, Unpack

from turncredit.envs.android.tasks.app_routes import (
    CALENDAR,
    CONTACTS,
    NOTES_FOLDER,
    add_event,
    add_note,
    last_message,
    message_from,
    reachable,
    said_day,
    send_message,
    sent,
)
from turncredit.envs.android.tasks.contacts import name_of
from turncredit.envs.android.tasks.effects import Effect, FileIs, InsertRow
from turncredit.envs.android.tasks.hand import Hand, is_item
from turncredit.envs.android.tasks.maps import PACKAGE, open_place, pick_place, place_detail, save_place
from turncredit.envs.android.tasks.maps_ways import minutes_of_way, show_way
from turncredit.envs.android.tasks.steps import Step, call, fill, steps, tap
from turncredit.envs.android.tasks.template import (
    Draw,
    DrawFunction,
    EffectsFunction,
    Params,
    TaskTemplate,
    TemplateOptions,
)
from turncredit.phone.apps.maps import LISTS
from turncredit.phone.apps.maps_routes import route

_PHONE: Final = "org.turncredit.dialer"
_OUTGOING: Final = 2
_MEETINGS: Final = ("Dinner", "Birthday", "Lunch with the team", "Meeting", "Farewell")


def _place(d: Draw, kinds: tuple[str, ...] = ()) -> Params | None:
    """Draw a place with a phone number, and somebody to write to."""
    to, venue = reachable(d, 1), pick_place(d, lambda row: row["phone"] and (not kinds or row["kind"] in kinds))
    return {**venue, "to": name_of(to[0]), "number": to[0]["phone"]} if venue and to else None


def _call_effects(p: Params) -> list[Effect]:
    values = {"number": p["phone"], "type": _OUTGOING}
    return [InsertRow(_PHONE, "calls", values, free=("date", "duration"))]


def _tell(label: str) -> Callable[[Hand, Params], Iterator[str]]:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        value = yield from place_detail(hand, p["place"], label)
        yield from send_message(hand, p["to"], value)
        yield from hand.done()

    return solve


def _event_draw(d: Draw) -> Params | None:
    p = _place(d, ("Restaurant", "Café", "Museum", "Cinema"))
    if p is None:
        return None
    day = d.phone.now.date() + timedelta(days=d.random.between(1, 20))
    time = f"{d.random.between(12, 20):02d}:{d.random.pick((0, 15, 30, 45)):02d}"
    return {**p, "title": d.random.pick(_MEETINGS), "day": day.isoformat(), "date": said_day(day), "time": time}


def _event_effects(p: Params) -> list[Effect]:
    values = {"title": p["title"], "start": f"{p['day']} {p['time']}", "location": p["address"]}
    return [InsertRow(CALENDAR, "events", values, free=("end", "reminder", "calendar"))]


def _event_solve(hand: Hand, p: Params) -> Iterator[str]:
    address = yield from place_detail(hand, p["place"], "Address")
    yield from add_event(hand, p["title"], p["day"], p["time"], address)
    yield from hand.done()


def _contact_effects(p: Params) -> list[Effect]:
    values = {"first": p["place"], "phone": p["phone"], "label": "Mobile"}
    return [InsertRow(CONTACTS, "contacts", values)]


def _contact_solve(hand: Hand, p: Params) -> Iterator[str]:
    number = yield from place_detail(hand, p["place"], "Phone")
    yield from hand.open("Contacts")
    yield from hand.tap("Create contact", scroll=False)
    yield from hand.fill("First name", p["place"])
    yield from hand.fill("Phone", number)
    yield from hand.tap("Save")
    yield from hand.done()


def _note_draw(d: Draw) -> Params | None:
    p = _place(d)
    return {**p, "title": f"{p['place']} {d.random.between(2, 99)}"} if p else None


def _note_solve(hand: Hand, p: Params) -> Iterator[str]:
    address = yield from place_detail(hand, p["place"], "Address")
    yield from add_note(hand, p["title"], address)
    yield from hand.done()


def _walk_draw(d: Draw) -> Params | None:
    to, places = reachable(d, 1), d.some(d.rows(PACKAGE, "places"), 2)
    if not to:
        return None
    start, end = places
    way = route(d.phone.seed, (start["x"], start["y"]), (end["x"], end["y"]), "Walking")
    names = {"from": start["name"], "place": end["name"], "to": name_of(to[0]), "number": to[0]["phone"]}
    return {**names, "minutes": str(way.minutes)} if way.minutes > 2 else None


def _walk_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from show_way(hand, p["from"], p["place"], "Walking")
    yield from send_message(hand, p["to"], minutes_of_way(hand))
    yield from hand.done()


def _tip_draw(d: Draw) -> Params | None:
    taken = {row["place"] for row in d.rows(PACKAGE, "saved")}
    people, venue = reachable(d, 1), pick_place(d, lambda row: row["_id"] not in taken)
    if not people or venue is None:
        return None
    message_from(d, people[0]["phone"], f"You have to see this place: {venue['place']}")
    return {**venue, "who": name_of(people[0]), "list": d.random.pick(LISTS)}


def _tip_solve(hand: Hand, p: Params) -> Iterator[str]:
    message = yield from last_message(hand, p["who"])
    yield from save_place(hand, message.partition(": ")[2], p["list"])
    yield from hand.done()


def _template(
    name: str,
    goal: str | tuple[str, ...],
    draw: DrawFunction,
    effects: EffectsFunction,
    solve: Step,
    other: str,
    **more: Unpack[TemplateOptions],
) -> TaskTemplate:
    options: TemplateOptions = {"complexity": 2.4, **more}
    return TaskTemplate(name, goal, draw, effects, solve, ("Maps", other), **options)


TEMPLATES: Final = (
    _template(
        "MapsCall",
        ("Call {place}; its number is in Maps. Hang up again.", "Find {place} in Maps, call it, and end the call."),
        _place,
        _call_effects,
        steps(call(open_place, "{place}"), tap("Call"), tap("Call", scroll=False), tap("End call", scroll=False)),
        "Phone",
        complexity=1.6,
    ),
    _template(
        "CrossTellPlaceAddress",
        (
            "Text {to} the address of {place} as Maps has it, and nothing else.",
            "Share the address of {place} with {to}.",
        ),
        _place,
        lambda p: [sent(p["number"], p["address"])],
        steps(
            call(open_place, "{place}"),
            tap("Share"),
            tap("Send address as message", scroll=False),
            fill("To", "{to}"),
            tap("{to}", where=is_item),
            tap("Send", scroll=False),
        ),
        "Messages",
    ),
    _template(
        "CrossTellPlaceNumber",
        "Send {to} the phone number of {place} from Maps, and nothing else.",
        _place,
        lambda p: [sent(p["number"], p["phone"])],
        _tell("Phone"),
        "Messages",
    ),
    _template(
        "CrossTellWalk",
        "Text {to} how many minutes it takes to walk from {from} to {place}: only the number.",
        _walk_draw,
        lambda p: [sent(p["number"], p["minutes"])],
        _walk_solve,
        "Messages",
        complexity=3.0,
    ),
    _template(
        "CrossEventAtPlace",
        'Add an event "{title}" to my calendar on {date} at {time}. Location: the address of {place} in Maps.',
        _event_draw,
        _event_effects,
        _event_solve,
        "Calendar",
        complexity=4.0,
    ),
    _template(
        "CrossSavePlaceNumber",
        'Save the phone number of {place} as a new contact with the first name "{place}".',
        _place,
        _contact_effects,
        _contact_solve,
        "Contacts",
    ),
    _template(
        "CrossNotePlace",
        'Write a note with the title "{title}" that holds the address of {place} from Maps and nothing else.',
        _note_draw,
        lambda p: [FileIs(f"{NOTES_FOLDER}/{p['title']}.md", p["address"])],
        _note_solve,
        "Notes",
    ),
    _template(
        "CrossSaveTip",
        "{who} has recommended a place in the last message. Save it to my list {list} in Maps.",
        _tip_draw,
        lambda p: [InsertRow(PACKAGE, "saved", {"place": p["id"], "list": p["list"]})],
        _tip_solve,
        "Messages",
    ),
)
