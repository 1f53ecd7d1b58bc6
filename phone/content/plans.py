"""Plans with the people of a phone: appointments that stand in the calendar and are spoken of in messages.

Apps read them while they are filled, so that messages, mails and calendar tell the same story.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final, NamedTuple

from turncredit.phone.content.people import STREETS, TOWNS, Person, person
from turncredit.phone.toolkit.app import Context
from turncredit.phone.toolkit.tables import Table
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["CONTACTS", "Plan", "digits", "name_of_number", "owner", "people", "plans", "say_day"]

CONTACTS: Final = "org.turncredit.contacts"


class Plan(NamedTuple):
    """An appointment with somebody, and how it was agreed on."""

    title: str
    start: datetime
    minutes: int
    location: str
    who: Person
    channel: str  # sms or mail
    ask: str
    answer: str


class _Kind(NamedTuple):
    title: str
    hours: tuple[int, ...]
    minutes: int
    places: tuple[str, ...]  # "": at the address of that person
    channel: str
    ask: str
    answer: str


_KINDS: Final = (
    _Kind(
        "Coffee with {first}",
        (10, 11, 15, 16),
        60,
        ("Lantern Café", "Blue Door Café", "Café Tilia"),
        "sms",
        "It has been ages! Coffee at {place} on {day} at {time}?",
        "Yes please, see you there.",
    ),
    _Kind(
        "Dinner with {first}",
        (18, 19, 20),
        120,
        ("Trattoria Salvia", "The Green Fork", "Noodle Corner"),
        "sms",
        "I booked us a table at {place}, {day} at {time}. Does that work?",
        "Perfect, I am already hungry.",
    ),
    _Kind(
        "Cinema with {first}",
        (17, 20, 21),
        150,
        ("Orion Cinema", "Cinema Lux"),
        "sms",
        "Got two tickets for {place} on {day} at {time}. You are coming, right?",
        "Of course! I bring the popcorn.",
    ),
    _Kind(
        "Tennis with {first}",
        (8, 9, 17, 18),
        90,
        ("Park Avenue Courts", "North Quay Sports Hall"),
        "sms",
        "Court 3 at {place} is ours on {day} at {time}.",
        "Great, I need the exercise.",
    ),
    _Kind(
        "Help {first} move",
        (9, 10),
        180,
        ("",),
        "sms",
        "Could you help me carry boxes on {day} at {time}? New place is {place}.",
        "Sure, count me in.",
    ),
    _Kind(
        "Guitar lesson",
        (16, 17, 18),
        45,
        ("",),
        "sms",
        "Your next guitar lesson is on {day} at {time}, as always at {place}.",
        "Thanks, I will practise until then!",
    ),
    _Kind(
        "Budget review",
        (9, 10, 14),
        60,
        ("Room 2.14", "Room 4.02", "Meeting room Oak"),
        "mail",
        "Could we go through the budget on {day} at {time}? I reserved {place}.",
        "That suits me. I will bring the latest figures.",
    ),
    _Kind(
        "Interview with {first}",
        (11, 13, 15),
        45,
        ("Room 1.08", "Meeting room Birch"),
        "mail",
        "Thank you for inviting me. I confirm our interview on {day} at {time} in {place}.",
        "We look forward to meeting you.",
    ),
    _Kind(
        "Workshop planning",
        (10, 13, 16),
        90,
        ("Library, first floor", "Town hall, room 12"),
        "mail",
        "Let us plan the workshop on {day} at {time}. We can use {place}.",
        "Good idea, I have noted it.",
    ),
    _Kind(
        "Flat viewing",
        (12, 17, 18),
        30,
        ("",),
        "mail",
        "You can see the flat on {day} at {time}. The address is {place}.",
        "Thank you, I will be on time.",
    ),
)


def people(ctx: Context) -> list[Person]:
    """Return the people of Contacts in the order of their rows; where that app is missing, some that are drawn."""
    if CONTACTS not in ctx.phone.apps:
        random = KeyedRandom(f"{ctx.phone.seed}/people")
        return [person(random) for _ in range(20)]
    return list(_people_of(ctx.of(CONTACTS).tables["contacts"]))


@lru_cache(maxsize=8)  # the apps of a phone ask one after the other
def _people_of(contacts: Table) -> tuple[Person, ...]:
    return tuple(Person(*(str(row[column]) for column in Person._fields)) for row in contacts.rows.values())


def owner(ctx: Context) -> Person:
    """Return the person whose phone it is."""
    return person(KeyedRandom(f"{ctx.phone.seed}/owner"))


@lru_cache(maxsize=4096)
def digits(number: str) -> str:
    """Return the digits of a phone number: two with the same ones are the same number."""
    return "".join(filter(str.isdigit, number))


def name_of_number(ctx: Context, number: str) -> str:
    """Return the name of the contact with a phone number, "" if there is none."""
    key = digits(number)
    if CONTACTS in ctx.phone.apps and key:
        return _names_by_digits(ctx.of(CONTACTS).tables["contacts"]).get(key, "")
    return ""


@lru_cache(maxsize=64)
def _names_by_digits(contacts: Table) -> dict[str, str]:
    names: dict[str, str] = {}
    for row in contacts.rows.values():
        names.setdefault(digits(str(row["phone"])), f"{row['first']} {row['last']}".strip())
    return names


def say_day(moment: datetime) -> str:
    """Return a day as people write it, such as 'Tuesday, 17 October'."""
    return f"{moment:%A}, {moment.day} {moment:%B}"


def plans(ctx: Context) -> list[Plan]:
    """Return the appointments of the next three weeks in the order of their time, one a day at most."""
    return list(_drawn(ctx.phone.seed, ctx.now, tuple(people(ctx))))


@lru_cache(maxsize=8)  # calendar, messages and mail of a phone ask one after the other
def _drawn(seed: int | str, moment: datetime, who_is_known: tuple[Person, ...]) -> list[Plan]:
    random = KeyedRandom(f"{seed}/plans")
    partners = random.shuffled(who_is_known)
    days = random.shuffled(list(range(1, 22)))
    result = []
    for kind, who, ahead in zip(random.shuffled(list(_KINDS)), partners, days, strict=False):
        day = moment.replace(hour=random.pick(kind.hours), minute=random.pick((0, 0, 30)), second=0)
        start = day + timedelta(days=ahead)
        at_home = who.address or f"{random.between(1, 90)} {random.pick(STREETS)}, {random.pick(TOWNS)}"
        location = random.pick(kind.places) or at_home
        ask = kind.ask.format(place=location, day=say_day(start), time=f"{start:%H:%M}")
        title = kind.title.format(first=who.first)
        result.append(Plan(title, start, kind.minutes, location, who, kind.channel, ask, kind.answer))
    return sorted(result, key=lambda plan: plan.start)
