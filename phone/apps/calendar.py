"""Calendar: the month, week, day and agenda, going to a date, and search."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Final

from turncredit.phone.apps.calendar_events import (
    ICONS,
    commands,
    confirm,
    discard,
    event,
    event_row,
    form,
    open_occurrence,
    prepare,
)
from turncredit.phone.apps.calendar_provider import EVENTS, to_columns
from turncredit.phone.content.event_times import (
    Occurrence,
    by_day,
    has_times,
    next_occurrence,
    read_times,
)
from turncredit.phone.content.plans import people, plans
from turncredit.phone.content.timetable import day_picture, week_picture
from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import App, Context, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import do, keeps, opens
from turncredit.phone.toolkit.tables import Columns, Table
from turncredit.phone.toolkit.widgets import (
    DateField,
    Dialog,
    Empty,
    Fab,
    Grid,
    IconButton,
    Item,
    Menu,
    Row,
    Screen,
    Section,
    Spacer,
    Tab,
    Text,
    TextField,
    Tile,
    Widget,
    cancel_or,
)

_VIEWS: Final = (("Month", "calendar"), ("Week", "grid"), ("Day", "clock"), ("Agenda", "list"))
_END: Final = 1000 * to_clock(datetime(2100, 1, 1))
_ONCE: Final = (
    ("Haircut", 45, "Salon Vivaldi", "Personal", "Ask for the short cut"),
    ("Dentist", 40, "Delta Dental, 14 Mill Lane", "Personal", "Bring the insurance card"),
    ("Car service", 60, "Kestrel Garage", "Personal", "Winter tyres are in the cellar"),
    ("Parents' evening", 90, "Riverside School, room 7", "Family", "Ask about the class trip"),
    ("Eye test", 30, "Juniper Clinic", "Personal", ""),
    ("Quarterly report", 60, "Meeting room Oak", "Work", "Slides are in the shared folder"),
    ("Customer call", 30, "", "Work", "Talk about the delivery dates"),
    ("Vet appointment", 30, "Animal Clinic, Hill Street", "Family", "Vaccination booklet"),
    ("Swimming with the kids", 120, "Lake View Pool", "Family", "Pack the blue towels"),
    ("Choir rehearsal", 90, "Chapel Street Hall", "Personal", ""),
    ("Security training", 90, "Room 3.01", "Work", "Charge the laptop"),
    ("Book club", 90, "Evergreen Books", "Personal", "Read up to chapter nine"),
)


def fill(ctx: Context) -> None:
    """Write appointments with people of Contacts, and events of everyday life before and after today."""
    random, today = ctx.random, ctx.today
    rows = [
        event_row(plan.title, plan.start, plan.minutes, plan.location, "Work" if plan.channel == "mail" else "Personal")
        | {"notes": f"Phone {plan.who.phone}" if random.chance(0.4) else "", "reminder": random.pick((10, 30, 60))}
        for plan in plans(ctx)
    ]
    monday = today - timedelta(days=today.weekday() + 28)
    for title, weekday, hour, minutes, location, calendar, rule in (
        ("Team meeting", 0, time(9, 30), 45, "Meeting room Oak", "Work", "every week"),
        ("Yoga class", 3, time(18, 30), 60, "North Quay Sports Hall", "Personal", "every week"),
        ("Take out the recycling", 1, time(7, 0), 15, "", "Family", "every week"),
        ("Stand-up", 0, time(8, 45), 15, "", "Work", "every weekday"),
    ):
        start = datetime.combine(monday + timedelta(days=weekday), hour)
        rows.append(event_row(title, start, minutes, location, calendar) | {"repeat": rule, "reminder": 10})
    rent = _all_day("Pay the rent", today.replace(day=1) - timedelta(days=1), "every month")
    rows.append(rent | {"start": rent["start"][:8] + "01 00:00", "end": rent["end"][:8] + "01 23:59"})
    for someone in random.shuffled(people(ctx))[:3]:
        day = today + timedelta(days=random.between(-20, 40))
        name = f"{someone.first} {someone.last}".strip()
        rows.append(_all_day(f"Birthday of {name}", day, "every year") | {"calendar": "Family"})
    days = random.shuffled([ahead for ahead in range(-12, 26) if ahead])
    for (title, minutes, location, calendar, notes), ahead in zip(_ONCE, days, strict=False):
        hour = time(random.between(8, 19), random.pick((0, 15, 30, 45)))
        start = datetime.combine(today + timedelta(days=ahead), hour)
        rows.append(event_row(title, start, minutes, location, calendar) | {"notes": notes, "reminder": 30})
    ctx.db.fill("events", random.shuffled(rows))


def _all_day(title: str, day: date, rule: str) -> Columns:
    times = {"start": f"{day} 00:00", "end": f"{day} 23:59", "all_day": 1}
    return {"title": title, **times, "repeat": rule, "calendar": "Personal", "reminder": -1}


# Views


def calendar(ctx: Context) -> Screen:
    """One of the four views at the chosen day."""
    view = str(ctx.get("view", "Month"))
    day = _chosen(ctx)
    sunday = _monday(day) + timedelta(days=6)
    parts = {"Month": _month, "Week": _week, "Day": _day, "Agenda": _agenda}
    titles = {
        "Month": f"{day:%B %Y}",
        "Week": f"{_monday(day).day} {_monday(day):%b} to {sunday.day} {sunday:%b}",
        "Day": f"{day:%a}, {day.day} {day:%b %Y}",
        "Agenda": f"From {day.day} {day:%B}",
    }
    arrows = Row(
        [
            IconButton("left", f"Previous {_STEPS[view]}", do(turn, by=-1)),
            Text(titles[view], style="subtitle", align="center", id="period"),
            IconButton("right", f"Next {_STEPS[view]}", do(turn, by=1)),
        ],
        gap=0,
        padding=4,
    )
    return Screen(
        "Calendar",
        [*parts[view](ctx, day), Spacer(84)],
        actions=[
            IconButton("search", "Search", opens(search)),
            IconButton("calendar", "Today", do(go_today)),
            IconButton("more", "More options", do(show_more)),
        ],
        top=[arrows],
        bar=[Tab(name, keeps("view", name), name == view, icon) for name, icon in _VIEWS],
        fab=Fab("add", "New event", do(new_event)),
    )


_STEPS: Final = {"Month": "month", "Week": "week", "Day": "day", "Agenda": "month"}


def _chosen(ctx: Context) -> date:
    return date.fromisoformat(str(ctx.get("day", ctx.today.isoformat())))


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _events(ctx: Context, first: date, last: date) -> dict[date, list[Occurrence]]:
    return _events_of(ctx.db.tables["events"], first, last)


@lru_cache(maxsize=64)
def _events_of(events: Table, first: date, last: date) -> dict[date, list[Occurrence]]:
    return by_day(events.rows.values(), first, last)


def _month(ctx: Context, day: date) -> list[Widget]:
    last = monthrange(day.year, day.month)[1]
    events = _events(ctx, day.replace(day=1), day.replace(day=last))
    cells: list[Widget] = [Tile(name, kind="day", colour="muted") for name in "MTWTFSS"]
    cells += [Tile("", kind="day")] * day.replace(day=1).weekday()
    month, today = f"{day:%B %Y}", ctx.today
    for number in range(1, last + 1):
        cell_day = day.replace(day=number)
        count = len(events.get(cell_day, ()))
        label = f"{number} {month}" + (f", {count} event{'s' * (count > 1)}" if count else "")
        tap, marked = keeps("day", cell_day.isoformat()), cell_day == today
        cells.append(Tile(str(number), tap, "", "", "day", cell_day == day, marked, label, dots=count))
    return [Grid(cells, columns=7, gap=4, padding=8), Spacer(8), Section(_say(day)), *_items(events.get(day, []))]


def _items(occurrences: list[Occurrence]) -> list[Widget]:
    return [_item(occurrence) for occurrence in occurrences] or [Item("No events", icon="calendar")]


def _item(occurrence: Occurrence) -> Item:
    row = occurrence.row
    hours = "All day" if row["all_day"] else f"{occurrence.start:%H:%M} to {occurrence.end:%H:%M}"
    about = " \u00b7 ".join(part for part in (hours, str(row["location"])) if part)
    return Item(
        str(row["title"]), about, ICONS.get(str(row["calendar"]), "calendar"), on_tap=open_occurrence(occurrence)
    )


def _say(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B}"


def _week(ctx: Context, day: date) -> list[Widget]:
    first = _monday(day)
    events = _events(ctx, first, first + timedelta(days=6))
    days = [(first + timedelta(days=n), events.get(first + timedelta(days=n), [])) for n in range(7)]
    return [week_picture(days, ctx.now, open_occurrence, lambda touched: do(show_day, day=touched.isoformat()))]


def _day(ctx: Context, day: date) -> list[Widget]:
    occurrences = _events(ctx, day, day).get(day, [])
    whole = [_item(occurrence) for occurrence in occurrences if occurrence.row["all_day"]]
    return [
        *whole,
        day_picture(
            day, [occurrence for occurrence in occurrences if not occurrence.row["all_day"]], ctx.now, open_occurrence
        ),
    ]


def _agenda(ctx: Context, day: date) -> list[Widget]:
    body: list[Widget] = []
    events = _events(ctx, day, day + timedelta(days=30))
    for event_day, occurrences in sorted(events.items()):
        near = {0: "Today, ", 1: "Tomorrow, "}.get((event_day - ctx.today).days, "")
        body += [Section(f"{near}{_say(event_day)}"), *_items(occurrences)]
    return body or [Empty("calendar", "No events in these 31 days")]


def show_day(ctx: Context, day: str) -> None:
    """Show one day alone."""
    ctx.set("day", day)
    ctx.set("view", "Day")


def go_today(ctx: Context) -> None:
    """Choose today."""
    ctx.set("day", ctx.today.isoformat())


def turn(ctx: Context, by: int) -> None:
    """Go on or back by a month, a week or a day."""
    view, day = str(ctx.get("view", "Month")), _chosen(ctx)
    if view in ("Week", "Day"):
        day += timedelta(days=by * (7 if view == "Week" else 1))
    else:
        months = day.year * 12 + day.month - 1 + by
        year, month = divmod(months, 12)
        day = date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
    if 1901 <= day.year <= 2099:
        ctx.set("day", day.isoformat())


def show_more(ctx: Context) -> None:
    """Offer to go to a date."""
    ctx.open(more, day=_chosen(ctx).isoformat())


def more(ctx: Context, day: str) -> Menu:
    """What is rarely needed."""
    return Menu([("Go to date", opens(go_to, day=day)), ("Today", do(go_today))])


def go_to(ctx: Context, day: str) -> Dialog:
    """A field for a date."""
    buttons = cancel_or("Go", do(take_date), kind="text")
    return Dialog("Go to date", [DateField("day", "Date", day)], buttons)


def take_date(ctx: Context) -> None:
    """Choose the date that was entered."""
    ctx.set("day", str(ctx.form["day"]))


def new_event(ctx: Context) -> None:
    """Open an empty form for the chosen day."""
    ctx.open(form, day=_chosen(ctx).isoformat())


# What other apps ask for


def insert(
    ctx: Context,
    title: str = "",
    begin_time: int = 0,
    end_time: int = 0,
    all_day: bool = False,
    event_location: str = "",
    description: str = "",
    rrule: str = "",
) -> None:
    """Open the form of a new event, filled in."""
    values = {"title": title, "eventLocation": event_location, "description": description, "rrule": rrule}
    times = {"dtstart": begin_time, "dtend": end_time or begin_time + 3_600_000} if begin_time else {}
    ctx.open(form, given=to_columns({**values, **times, "allDay": all_day}))


def view(ctx: Context, data: str = "", id: int = 0) -> None:
    """Show an event, or the day of a time in milliseconds; without either, or after 2099, the views."""
    if id and "/time/" not in data:
        ctx.open(event, id=id)
        return
    ctx.open_once(calendar)
    if "/time/" in data and id < _END:
        ctx.set("day", to_datetime(id // 1000).date().isoformat())


# Search


def search(ctx: Context) -> Screen:
    """Events whose title, place or notes contain a text, by their next time."""
    query = str(ctx.get("query", "")).casefold().strip()
    field = TextField("query", "Search events", icon="search")
    if not query:
        return Screen("Search", [Empty("search", "Search by title, place or notes")], top=[field])
    occurrences = []
    for row in filter(has_times, ctx.db.rows("events")):
        if query in f"{row['title']}\n{row['location']}\n{row['notes']}".casefold():
            occurrences.append(next_occurrence(row, ctx.today) or Occurrence(row, *read_times(row)))
    occurrences.sort(key=lambda occurrence: (occurrence.start, occurrence.row["_id"]))
    rows: list[Widget] = []
    for occurrence in occurrences:
        about = f"{format_date(occurrence.start.date().isoformat())}" + (
            "" if occurrence.row["all_day"] else f", {occurrence.start:%H:%M}"
        )
        icon = ICONS.get(str(occurrence.row["calendar"]), "calendar")
        rows.append(Item(str(occurrence.row["title"]), about, icon, on_tap=open_occurrence(occurrence)))
    return Screen("Search", rows or [Empty("search", "No events found")], top=[field])


APP = App(
    package="org.turncredit.calendar",
    name="Calendar",
    icon="calendar",
    colour="#1967d2",
    schema={
        "events": {
            "title": str,
            "start": str,
            "end": str,
            "all_day": bool,
            "repeat": str,
            "location": str,
            "notes": str,
            "reminder": int,
            "calendar": str,
            "skipped": str,
        }
    },
    database="/data/data/org.turncredit.calendar/databases/events.db",
    providers={"content://com.android.calendar/events": EVENTS},
    fill=fill,
    prepare=prepare,
    screens=(calendar, search, event, form, more, go_to, commands, confirm, discard),
    intents={
        "android.intent.action.INSERT content://com.android.calendar": insert,
        "android.intent.action.INSERT vnd.android.cursor.dir/event": insert,
        "android.intent.action.INSERT vnd.android.cursor.item/event": insert,
        "android.intent.action.EDIT content://com.android.calendar": "form",
        "android.intent.action.VIEW content://com.android.calendar": view,
    },
)
