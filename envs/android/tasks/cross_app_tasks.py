"""Tasks over several apps: what one app knows goes into another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Final

from turncredit.envs.android.tasks.answers import read_date
from turncredit.envs.android.tasks.app_routes import (
    CALENDAR,
    CONTACTS,
    EXPENSES,
    NOTES_FOLDER,
    TASKS,
    add_event,
    add_expense,
    add_note,
    add_task,
    contact_detail,
    event_detail,
    last_message,
    message_from,
    note_lines,
    plain_event,
    reachable,
    said_day,
    send_message,
    sent,
)
from turncredit.envs.android.tasks.contacts import name_of, stranger
from turncredit.envs.android.tasks.effects import Effect, FileIs, InsertRow
from turncredit.envs.android.tasks.hand import Hand, is_item
from turncredit.envs.android.tasks.steps import Step
from turncredit.envs.android.tasks.template import Draw, DrawFunction, Params, TaskTemplate
from turncredit.phone.toolkit.tables import Value

_TITLES: Final = ("For later", "From the phone", "Do not forget", "Copied down", "To keep", "Loose ends")
_WISHES: Final = ("a dinner", "a walk by the canal", "a game of chess", "a visit to the museum", "a coffee")


def _future(d: Draw) -> tuple[date, str]:
    """Draw a day of the next weeks, and a time."""
    day = d.phone.now.date() + timedelta(days=d.random.between(1, 20))
    return day, f"{d.random.between(9, 20):02d}:{d.random.pick((0, 15, 30, 45)):02d}"


def _new_event(title: str, start: str, **more: Value) -> InsertRow:
    free = ("end", "reminder", "calendar")
    return InsertRow(CALENDAR, "events", {"title": title, "start": start, **more}, free=free)


def _new_task(title: str, due: str = "") -> InsertRow:
    return InsertRow(TASKS, "tasks", {"title": title, "due": due}, free=("list", "priority"))


def _new_note(title: str, text: str) -> FileIs:
    return FileIs(f"{NOTES_FOLDER}/{title}.md", text)


# From Contacts


def _detail_draw(column: str) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        to = reachable(d, 1)
        rows = [row for row in d.rows(CONTACTS, "contacts") if row[column] and row not in to]
        row = d.pick(rows)
        if not to or row is None:
            return None
        title = d.random.pick(_TITLES)
        base = {"to": name_of(to[0]), "number": to[0]["phone"], "who": name_of(row), "value": row[column]}
        day, time = _future(d)
        return {**base, "title": title, "day": day.isoformat(), "date": said_day(day), "time": time}

    return draw


def _message(p: Params) -> list[Effect]:
    return [sent(p["number"], p["value"])]


def _tell_detail(label: str) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        value = yield from contact_detail(hand, p["who"], label)
        yield from send_message(hand, p["to"], value)
        yield from hand.done()

    return solve


def _note_detail(hand: Hand, p: Params) -> Iterator[str]:
    value = yield from contact_detail(hand, p["who"], "Email")
    yield from add_note(hand, p["title"], value)
    yield from hand.done()


def _visit(hand: Hand, p: Params) -> Iterator[str]:
    address = yield from contact_detail(hand, p["who"], "Address")
    yield from add_event(hand, f"Visit {p['who']}", p["day"], p["time"], address)
    yield from hand.done()


# From Calendar


def _event_draw(**needs: bool) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        row, to = plain_event(d, **needs), reachable(d, 1)
        if row is None or not to:
            return None
        base = {"to": name_of(to[0]), "number": to[0]["phone"], "event": row["title"]}
        return {**base, "value": row["location"], "day": row["start"][:10], "time": row["start"][11:]}

    return draw


def _tell_where(hand: Hand, p: Params) -> Iterator[str]:
    location = yield from event_detail(hand, p["event"], "Where")
    yield from send_message(hand, p["to"], location)
    yield from hand.done()


def _start_of(when: str) -> tuple[str, str]:
    """Return day and time in 'Mon, 16 Oct 2023, 18:00 to 18:45'."""
    head, _, _ = when.partition(" to ")
    day, _, time = head.rpartition(", ")
    start = read_date(day)
    return start.isoformat() if start else "", time


def _tell_when(hand: Hand, p: Params) -> Iterator[str]:
    when = yield from event_detail(hand, p["event"], "When")
    yield from send_message(hand, p["to"], _start_of(when)[1])
    yield from hand.done()


def _alarm_for_event(hand: Hand, p: Params) -> Iterator[str]:
    when = yield from event_detail(hand, p["event"], "When")
    yield from _set_alarm(hand, _start_of(when)[1])
    yield from hand.done()


def _set_alarm(hand: Hand, time: str) -> Iterator[str]:
    yield from hand.open("Clock")
    yield from hand.tap("Alarm", scroll=False, where=is_item)
    yield from hand.tap("Add alarm", scroll=False)
    yield from hand.pick_time("Time", time)
    yield from hand.tap("Save")


def _new_alarm(time: str) -> InsertRow:
    return InsertRow("com.android.deskclock", "alarms", {"time": time, "enabled": 1})


def _task_for_event(hand: Hand, p: Params) -> Iterator[str]:
    when = yield from event_detail(hand, p["event"], "When")
    yield from add_task(hand, f"Prepare {p['event']}", _start_of(when)[0])
    yield from hand.done()


# From Messages


def _invitation_draw(d: Draw) -> Params | None:
    people = reachable(d, 1)
    if not people:
        return None
    (day, time), wish = _future(d), d.random.pick(_WISHES)
    who = people[0]
    message_from(d, who["phone"], f"How about {wish} on {day.day} {day:%B} at {time}?")
    title = f"{wish.split(' ', 1)[1].capitalize()} with {who['first']}"
    return {"who": name_of(who), "title": title, "day": day.isoformat(), "time": time}


def _accept(hand: Hand, p: Params) -> Iterator[str]:
    message = yield from last_message(hand, p["who"])
    day, _, time = message.rpartition(" on ")[2].rstrip("?").partition(" at ")
    start = read_date(f"{day} {p['day'][:4]}")
    yield from add_event(hand, p["title"], start.isoformat() if start else "", time)
    yield from hand.done()


def _wake_for(hand: Hand, p: Params) -> Iterator[str]:
    message = yield from last_message(hand, p["who"])
    yield from _set_alarm(hand, message.rpartition(" at ")[2].rstrip("?"))
    yield from hand.done()


def _stranger_draw(d: Draw) -> Params | None:
    new = stranger(d)
    message_from(d, new.phone, f"Hello, {new.first} {new.last} here. This is my new number, please save it.")
    return {"first": new.first, "last": new.last, "phone": new.phone}


def _save_sender(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    rows = (e for e in hand.screen if e.mentions(f"{p['first']} {p['last']} here"))
    row = next(rows, None) or (yield from hand.scroll_until(lambda: next(iter(hand.mentioning(p["last"])), None)))
    number = row.texts[0] if row else ""
    yield from hand.open("Contacts")
    yield from hand.tap("Create contact", scroll=False)
    for label, value in (("First name", p["first"]), ("Last name", p["last"]), ("Phone", number)):
        yield from hand.fill(label, value)
    yield from hand.tap("Save")
    yield from hand.done()


def _errand_draw(d: Draw) -> Params | None:
    people = reachable(d, 1)
    errand = d.random.pick(
        ("Buy stamps", "Return the ladder", "Water the plants", "Collect the parcel", "Fix the bell")
    )
    if not people:
        return None
    message_from(d, people[0]["phone"], errand)
    return {"who": name_of(people[0]), "errand": errand, "title": d.random.pick(_TITLES)}


def _task_from_message(hand: Hand, p: Params) -> Iterator[str]:
    message = yield from last_message(hand, p["who"])
    yield from add_task(hand, message)
    yield from hand.done()


def _note_from_message(hand: Hand, p: Params) -> Iterator[str]:
    message = yield from last_message(hand, p["who"])
    yield from add_note(hand, p["title"], message)
    yield from hand.done()


def _forward_draw(d: Draw) -> Params | None:
    people = reachable(d, 2)
    code = f"The code of the door is {d.random.between(1000, 9999)}."
    if len(people) < 2:
        return None
    message_from(d, people[0]["phone"], code)
    return {"who": name_of(people[0]), "to": name_of(people[1]), "number": people[1]["phone"], "value": code}


def _forward(hand: Hand, p: Params) -> Iterator[str]:
    message = yield from last_message(hand, p["who"])
    yield from send_message(hand, p["to"], message)
    yield from hand.done()


# From Notes


def _list_note_draw(d: Draw) -> Params | None:
    title = f"{d.random.pick(('Errands', 'Chores', 'Plans'))} {d.random.between(2, 99)}"
    lines = d.some(("Oil the bike", "Call the plumber", "Order seeds", "Sort the shelf", "Clean the gutter"), 3)
    d.write_file(f"{NOTES_FOLDER}/{title}.md", "\n".join(lines))
    return {"title": title, "lines": lines}


def _tasks_from_note(hand: Hand, p: Params) -> Iterator[str]:
    lines = yield from note_lines(hand, p["title"])
    for i, line in enumerate(lines):
        if not hand.met(i):
            yield from add_task(hand, line)
    yield from hand.done()


def _bill_draw(d: Draw) -> Params | None:
    title = f"Receipt {d.random.between(100, 999)}"
    goods = d.some(("Paint", "Brushes", "Screws", "Lamp", "Rope", "Glue"), 2)
    cents = [d.random.between(150, 4900) for _ in goods]
    lines = [f"{name} {amount // 100}.{amount % 100:02d}" for name, amount in zip(goods, cents, strict=True)]
    d.write_file(f"{NOTES_FOLDER}/{title}.md", "\n".join(lines))
    return {"title": title, "goods": goods, "cents": cents, "today": d.phone.now.date().isoformat()}


def _bill_effects(p: Params) -> list[Effect]:
    bought = zip(p["goods"], p["cents"], strict=True)
    rows = [{"name": name, "amount": amount, "date": p["today"]} for name, amount in bought]
    return [InsertRow(EXPENSES, "expenses", row, free=("category",)) for row in rows]


def _expenses_from_note(hand: Hand, p: Params) -> Iterator[str]:
    lines = yield from note_lines(hand, p["title"])
    for i, line in enumerate(lines):
        if not hand.met(i):
            name, _, amount = line.rpartition(" ")
            yield from add_expense(hand, name, amount)
    yield from hand.done()


def _short_note_draw(d: Draw) -> Params | None:
    people = reachable(d, 1)
    title, line = f"Locker {d.random.between(10, 99)}", f"The key is under pot {d.random.between(2, 40)}"
    if not people:
        return None
    d.write_file(f"{NOTES_FOLDER}/{title}.md", line)
    return {"title": title, "value": line, "to": name_of(people[0]), "number": people[0]["phone"]}


def _tell_note(hand: Hand, p: Params) -> Iterator[str]:
    lines = yield from note_lines(hand, p["title"])
    yield from send_message(hand, p["to"], lines[0])
    yield from hand.done()


def _time_note_draw(d: Draw) -> Params | None:
    title = f"Ferry {d.random.between(10, 99)}"
    times = [f"{hour:02d}:{d.random.pick((5, 10, 20, 35, 50)):02d}" for hour in d.some(range(11, 23), 2)]
    d.write_file(f"{NOTES_FOLDER}/{title}.md", "\n".join(f"Leaves at {time}" for time in times))
    return {"title": title, "times": times}


def _alarms_from_note(hand: Hand, p: Params) -> Iterator[str]:
    lines = yield from note_lines(hand, p["title"])
    for i, line in enumerate(lines):
        if not hand.met(i):
            yield from _set_alarm(hand, line.rpartition(" ")[2])
    yield from hand.done()


_MSG = ("Contacts", "Messages")
TEMPLATES: Final = (
    TaskTemplate(
        "CrossTellAddress",
        ("Text {to} the address of {who}.", "Send {to} a message with just the address of {who} from Contacts."),
        _detail_draw("address"),
        _message,
        _tell_detail("Address"),
        _MSG,
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossTellNumber",
        "Send {to} a message with nothing but the phone number of {who}.",
        _detail_draw("phone"),
        _message,
        _tell_detail("Phone"),
        _MSG,
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossNoteEmail",
        'Write a note with the title "{title}" that holds the email address of {who} and nothing else.',
        _detail_draw("email"),
        lambda p: [_new_note(p["title"], p["value"])],
        _note_detail,
        ("Contacts", "Notes"),
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossPlanVisit",
        'Add an event "Visit {who}" to my calendar on {date} at {time}. As the location, take the address of {who}.',
        _detail_draw("address"),
        lambda p: [_new_event(f"Visit {p['who']}", f"{p['day']} {p['time']}", location=p["value"])],
        _visit,
        ("Contacts", "Calendar"),
        complexity=4.0,
        split="held_out",
    ),
    TaskTemplate(
        "CrossTellPlace",
        'Text {to} where my event "{event}" takes place: only the location as it stands in Calendar.',
        _event_draw(location=True),
        _message,
        _tell_where,
        ("Calendar", "Messages"),
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossTellTime",
        'Send {to} the time at which my event "{event}" starts, as hh:mm and nothing else.',
        _event_draw(),
        lambda p: [sent(p["number"], p["time"])],
        _tell_when,
        ("Calendar", "Messages"),
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossAlarmForEvent",
        'Set an alarm for the time at which my event "{event}" starts.',
        _event_draw(),
        lambda p: [_new_alarm(p["time"])],
        _alarm_for_event,
        ("Calendar", "Clock"),
        complexity=2.8,
        split="held_out",
    ),
    TaskTemplate(
        "CrossTaskForEvent",
        'Add a task "Prepare {event}" that is due on the day of my event "{event}".',
        _event_draw(),
        lambda p: [_new_task(f"Prepare {p['event']}", p["day"])],
        _task_for_event,
        ("Calendar", "Tasks"),
        complexity=3.0,
    ),
    TaskTemplate(
        "CrossAcceptInvitation",
        '{who} has suggested a day and a time in the last message. Put it into my calendar as "{title}".',
        _invitation_draw,
        lambda p: [_new_event(p["title"], f"{p['day']} {p['time']}")],
        _accept,
        ("Messages", "Calendar"),
        complexity=3.4,
    ),
    TaskTemplate(
        "CrossAlarmFromMessage",
        "Set an alarm for the time that {who} suggests in the last message.",
        _invitation_draw,
        lambda p: [_new_alarm(p["time"])],
        _wake_for,
        ("Messages", "Clock"),
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossSaveSender",
        "{first} {last} has written from a number that is not in my contacts yet. Save it under this name.",
        _stranger_draw,
        lambda p: [InsertRow(CONTACTS, "contacts", {**p, "label": "Mobile"})],
        _save_sender,
        _MSG,
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossTaskFromMessage",
        "{who} asks me for something in the last message. Add it to Tasks, in the same words.",
        _errand_draw,
        lambda p: [_new_task(p["errand"])],
        _task_from_message,
        ("Messages", "Tasks"),
        complexity=2.0,
        split="held_out",
    ),
    TaskTemplate(
        "CrossNoteFromMessage",
        'Write the last message of {who} down in a new note called "{title}".',
        _errand_draw,
        lambda p: [_new_note(p["title"], p["errand"])],
        _note_from_message,
        ("Messages", "Notes"),
        complexity=2.0,
    ),
    TaskTemplate(
        "CrossForward",
        "Send the last message of {who} to {to}, word for word.",
        _forward_draw,
        lambda p: [replace(sent(p["number"], p["value"]), exact=("body",))],
        _forward,
        _MSG,
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossTasksFromNote",
        'Add every line of the note "{title}" to Tasks, each as a task of its own.',
        _list_note_draw,
        lambda p: [_new_task(line) for line in p["lines"]],
        _tasks_from_note,
        ("Notes", "Tasks"),
        complexity=4.0,
    ),
    TaskTemplate(
        "CrossExpensesFromNote",
        'Enter what stands in the note "{title}" into Expenses, as bought today.',
        _bill_draw,
        _bill_effects,
        _expenses_from_note,
        ("Notes", "Expenses"),
        complexity=3.6,
    ),
    TaskTemplate(
        "CrossTellNote",
        'Send {to} the text of my note "{title}".',
        _short_note_draw,
        _message,
        _tell_note,
        ("Notes", "Messages"),
        complexity=2.4,
    ),
    TaskTemplate(
        "CrossAlarmsFromNote",
        'Set an alarm for each time in the note "{title}".',
        _time_note_draw,
        lambda p: [_new_alarm(time) for time in p["times"]],
        _alarms_from_note,
        ("Notes", "Clock"),
        complexity=4.4,
        split="held_out",
    ),
)
