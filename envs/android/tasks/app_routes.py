"""Ways through the apps that scripts of several apps share: find something, read it, write it."""

from __future__ import annotations

from datetime import date
from typing import Final

from turncredit.envs.android.tasks.contacts import open_contact
from turncredit.envs.android.tasks.draw import Draw
from turncredit.envs.android.tasks.effects import InsertRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Lost, Script, is_item
from turncredit.phone.apps.contacts import LABELS
from turncredit.phone.toolkit.app import to_clock
from turncredit.phone.toolkit.tables import Row

__all__ = [
    "CALENDAR",
    "CONTACTS",
    "EXPENSES",
    "MESSAGES",
    "NOTES_FOLDER",
    "TASKS",
    "add_event",
    "add_expense",
    "add_note",
    "add_task",
    "contact_detail",
    "event_detail",
    "last_message",
    "message_from",
    "note_lines",
    "plain_event",
    "reachable",
    "send_message",
    "sent",
]

CALENDAR: Final = "org.turncredit.calendar"
CONTACTS: Final = "org.turncredit.contacts"
EXPENSES: Final = "org.turncredit.expenses"
MESSAGES: Final = "org.turncredit.messages"
TASKS: Final = "org.turncredit.tasks"
NOTES_FOLDER: Final = "/sdcard/Documents/Notes"
_INBOX, _SENT = 1, 2


# What is on the phone before the start


def reachable(d: Draw, count: int) -> list[Row]:
    """Draw contacts with a number, whose conversations are not archived."""
    away = {row["address"] for row in d.rows(MESSAGES, "archived")}
    rows = [row for row in d.rows(CONTACTS, "contacts") if row["phone"] and row["phone"] not in away]
    return d.some(rows, count)


def message_from(d: Draw, number: str, body: str) -> None:
    """Let a message come in, the latest of all."""
    d.insert(MESSAGES, "sms", address=number, body=body, date=to_clock(d.phone.now) * 1000, type=_INBOX)


def plain_event(d: Draw, **needs: bool) -> Row | None:
    """Draw an event with a time that does not repeat and whose title no other has; None if there is none.

    Args:
        d: the draw.
        needs: columns that must not be empty.
    """
    rows = d.rows(CALENDAR, "events", all_day=0, repeat="")
    titles = [row["title"] for row in d.rows(CALENDAR, "events")]
    today = d.phone.now.date().isoformat()
    return d.pick([r for r in rows if titles.count(r["title"]) == 1 and r["start"] > today and all(map(r.get, needs))])


def sent(number: str, body: str) -> InsertRow:
    """Return the effect of a message that is sent."""
    return InsertRow(MESSAGES, "sms", {"address": number, "body": body, "type": _SENT}, free=("date",))


# Reading


def contact_detail(hand: Hand, name: str, label: str) -> Finding:
    """Return 'Phone', 'Email' or 'Address' of a contact; "" if the page shows none."""
    yield from open_contact(hand, name)
    labels = LABELS if label == "Phone" else (label,)
    rows = [element for element in hand.screen if len(element.texts) > 1 and element.texts[1] in labels]
    return rows[0].texts[0] if rows else ""


def event_detail(hand: Hand, title: str, label: str) -> Finding:
    """Return 'When' or 'Where' of an event."""
    yield from hand.open("Calendar")
    yield from hand.tap("Search", scroll=False)
    yield from hand.fill("Search events", title)
    yield from hand.tap(title, where=is_item)
    return hand.before(label)


def last_message(hand: Hand, name: str) -> Finding:
    """Return the last message of the conversation with somebody."""
    yield from hand.open("Messages")
    yield from hand.tap(name, where=is_item)
    bubbles = [element for element in hand.screen if element.node.long_clickable and element.kind == "item"]
    if not bubbles:
        raise Lost(f"the conversation with {name} shows no message")
    return bubbles[-1].texts[0]


def note_lines(hand: Hand, title: str) -> Finding:
    """Return the lines of a note that fits on the screen."""
    yield from hand.open("Notes")
    yield from hand.fill("Search notes", title)
    yield from hand.tap(title, where=is_item)
    return [e.texts[0].lstrip("\u2022 ") for e in hand.screen if e.node.long_clickable]


# Writing


def send_message(hand: Hand, name: str, text: str) -> Script:
    """Send a message to a contact."""
    yield from hand.open("Messages")
    yield from hand.tap("Start chat", scroll=False)
    yield from hand.fill("To", name)
    yield from hand.tap(name, where=is_item)
    yield from hand.fill("Text message", text)
    yield from hand.tap("Send", scroll=False)


def add_note(hand: Hand, title: str, text: str) -> Script:
    """Write a note."""
    yield from hand.open("Notes")
    yield from hand.tap("New note", scroll=False)
    yield from hand.fill("Title", title)
    yield from hand.fill("Text", text)
    yield from hand.tap("Save")


def add_task(hand: Hand, title: str, due: str = "") -> Script:
    """Add an entry to Tasks."""
    yield from hand.open("Tasks")
    yield from hand.tap("New task", scroll=False)
    yield from hand.fill("Title", title)
    if due:
        yield from hand.pick_date("Due date", due)
    yield from hand.tap("Save")


def add_event(hand: Hand, title: str, day: str, time: str, location: str = "") -> Script:
    """Add an event to Calendar; its length stays as the form has it."""
    yield from hand.open("Calendar")
    yield from hand.tap("New event", scroll=False)
    yield from hand.fill("Title", title)
    yield from hand.pick_date("Start date", day)
    yield from hand.pick_time("Start time", time)
    if location:
        yield from hand.fill("Location", location)
    yield from hand.tap("Save")


def add_expense(hand: Hand, name: str, amount: str) -> Script:
    """Add an expense of today."""
    yield from hand.open("Expenses")
    yield from hand.tap("Add expense", scroll=False)
    yield from hand.fill("Name", name)
    yield from hand.fill("Amount", amount)
    yield from hand.tap("Save")


def said_day(day: date) -> str:
    """Return a day as people write it."""
    return f"{day.day} {day:%B %Y}"
