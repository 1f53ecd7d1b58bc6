"""Calendar: month, week, day and agenda, a page and a form for each event, repetition, search and reminders."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from turnwise.envs.android.phone.app import App, Context, Provider, to_clock
from turnwise.envs.android.phone.event_times import (
    BadTimes,
    Occurrence,
    by_day,
    next_occurrence,
    read_times,
    say_when,
    write_times,
)
from turnwise.envs.android.phone.parts import format_date
from turnwise.envs.android.phone.plans import people, plans
from turnwise.envs.android.phone.tables import Row as Record
from turnwise.envs.android.phone.timetable import day_picture, week_picture
from turnwise.envs.android.phone.widgets import (
    Button,
    Choice,
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
    Switch,
    Tab,
    Text,
    TextField,
    Tile,
    TimeField,
    Widget,
    do,
)

REPEATS: Final = {
    "Does not repeat": "",
    "Every day": "every day",
    "Every weekday": "every weekday",
    "Every week": "every week",
    "Every month": "every month",
    "Every year": "every year",
}
REMINDERS: Final = {
    "No reminder": -1,
    "At the start": 0,
    "10 minutes before": 10,
    "30 minutes before": 30,
    "1 hour before": 60,
    "1 day before": 1440,
}
CALENDARS: Final = ("Personal", "Work", "Family")
_ICONS: Final = {"Personal": "person", "Work": "chart", "Family": "home"}
_VIEWS: Final = (("Month", "calendar"), ("Week", "grid"), ("Day", "clock"), ("Agenda", "list"))
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
        _row(plan.title, plan.start, plan.minutes, plan.place, "Work" if plan.channel == "mail" else "Personal")
        | {"notes": f"Phone {plan.who.phone}" if random.chance(0.4) else "", "reminder": random.pick((10, 30, 60))}
        for plan in plans(ctx)
    ]
    monday = today - timedelta(days=today.weekday() + 28)
    for title, weekday, hour, minutes, place, calendar, rule in (
        ("Team meeting", 0, time(9, 30), 45, "Meeting room Oak", "Work", "every week"),
        ("Yoga class", 3, time(18, 30), 60, "North Quay Sports Hall", "Personal", "every week"),
        ("Take out the recycling", 1, time(7, 0), 15, "", "Family", "every week"),
        ("Stand-up", 0, time(8, 45), 15, "", "Work", "every weekday"),
    ):
        start = datetime.combine(monday + timedelta(days=weekday), hour)
        rows.append(_row(title, start, minutes, place, calendar) | {"repeat": rule, "reminder": 10})
    rent = _all_day("Pay the rent", today.replace(day=1) - timedelta(days=1), "every month")
    rows.append(rent | {"start": rent["start"][:8] + "01 00:00", "end": rent["end"][:8] + "01 23:59"})
    for someone in random.shuffled(people(ctx))[:3]:
        day = today + timedelta(days=random.between(-20, 40))
        name = f"{someone.first} {someone.last}".strip()
        rows.append(_all_day(f"Birthday of {name}", day, "every year") | {"calendar": "Family"})
    days = random.shuffled([ahead for ahead in range(-12, 26) if ahead])
    for (title, minutes, place, calendar, notes), ahead in zip(_ONCE, days, strict=False):
        hour = time(random.between(8, 19), random.pick((0, 15, 30, 45)))
        start = datetime.combine(today + timedelta(days=ahead), hour)
        rows.append(_row(title, start, minutes, place, calendar) | {"notes": notes, "reminder": 30})
    ctx.db.fill("events", random.shuffled(rows))


def _row(title: str, start: datetime, minutes: int, place: str, calendar: str) -> dict[str, Any]:
    end = start + timedelta(minutes=minutes)
    times = {"start": f"{start:%Y-%m-%d %H:%M}", "end": f"{end:%Y-%m-%d %H:%M}"}
    return {"title": title, **times, "location": place, "calendar": calendar, "reminder": -1}


def _all_day(title: str, day: date, rule: str) -> dict[str, Any]:
    times = {"start": f"{day} 00:00", "end": f"{day} 23:59", "all_day": 1}
    return {"title": title, **times, "repeat": rule, "calendar": "Personal", "reminder": -1}


# Views


def calendar(ctx: Context) -> Screen:
    """One of the four views at the chosen day."""
    view = str(ctx.get("view", "Month"))
    day = _chosen(ctx)
    parts = {"Month": _month, "Week": _week, "Day": _day, "Agenda": _agenda}
    titles = {
        "Month": f"{day:%B %Y}",
        "Week": f"{_monday(day):%-d %b} to {_monday(day) + timedelta(days=6):%-d %b}",
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
            IconButton("search", "Search", do(show_search)),
            IconButton("calendar", "Today", do(go_today)),
            IconButton("more", "More options", do(show_more)),
        ],
        top=[arrows],
        bar=[Tab(name, do(show_view, view=name), name == view, icon) for name, icon in _VIEWS],
        fab=Fab("add", "New event", do(new_event)),
    )


_STEPS: Final = {"Month": "month", "Week": "week", "Day": "day", "Agenda": "month"}


def _chosen(ctx: Context) -> date:
    return date.fromisoformat(str(ctx.get("day", ctx.today.isoformat())))


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _month(ctx: Context, day: date) -> list[Widget]:
    last = monthrange(day.year, day.month)[1]
    events = by_day(ctx.db.rows("events"), day.replace(day=1), day.replace(day=last))
    cells: list[Widget] = [Tile(name, kind="day", colour="muted") for name in "MTWTFSS"]
    cells += [Tile("", kind="day")] * day.replace(day=1).weekday()
    for number in range(1, last + 1):
        one = day.replace(day=number)
        count = len(events.get(one, ()))
        label = f"{one.day} {one:%B %Y}" + (f", {count} event{'s' * (count > 1)}" if count else "")
        tap, marked = do(choose_day, day=one.isoformat()), one == ctx.today
        cells.append(Tile(str(number), tap, "", "", "day", one == day, marked, label, dots=count))
    return [Grid(cells, columns=7, gap=4, padding=8), Spacer(8), Section(_say(day)), *_items(events.get(day, []))]


def _items(found: list[Occurrence]) -> list[Widget]:
    return [_item(one) for one in found] or [Item("No events", icon="calendar")]


def _item(one: Occurrence) -> Item:
    row = one.row
    hours = "All day" if row["all_day"] else f"{one.start:%H:%M} to {one.end:%H:%M}"
    about = " \u00b7 ".join(part for part in (hours, str(row["location"])) if part)
    return Item(str(row["title"]), about, _ICONS.get(str(row["calendar"]), "calendar"), on_tap=_open(one))


def _open(one: Occurrence) -> Any:
    return do(show_event, id=one.row["_id"], day=one.start.date().isoformat())


def _say(day: date) -> str:
    return f"{day:%A}, {day.day} {day:%B}"


def _week(ctx: Context, day: date) -> list[Widget]:
    first = _monday(day)
    events = by_day(ctx.db.rows("events"), first, first + timedelta(days=6))
    days = [(first + timedelta(days=n), events.get(first + timedelta(days=n), [])) for n in range(7)]
    return [week_picture(days, ctx.now, _open, lambda one: do(show_day, day=one.isoformat()))]


def _day(ctx: Context, day: date) -> list[Widget]:
    found = by_day(ctx.db.rows("events"), day, day).get(day, [])
    whole = [_item(one) for one in found if one.row["all_day"]]
    return [*whole, day_picture(day, [one for one in found if not one.row["all_day"]], ctx.now, _open)]


def _agenda(ctx: Context, day: date) -> list[Widget]:
    body: list[Widget] = []
    events = by_day(ctx.db.rows("events"), day, day + timedelta(days=30))
    for one, found in sorted(events.items()):
        near = {0: "Today, ", 1: "Tomorrow, "}.get((one - ctx.today).days, "")
        body += [Section(f"{near}{_say(one)}"), *_items(found)]
    return body or [Empty("calendar", "No events in these 31 days")]


def show_view(ctx: Context, view: str) -> None:
    """Change to month, week, day or agenda."""
    ctx.set("view", view)


def choose_day(ctx: Context, day: str) -> None:
    """Choose a day."""
    ctx.set("day", day)


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
    return Menu([("Go to date", do(ask_date, day=day)), ("Today", do(go_today))])


def ask_date(ctx: Context, day: str) -> None:
    """Ask for a date."""
    ctx.open(go_to, day=day)


def go_to(ctx: Context, day: str) -> Dialog:
    """A field for a date."""
    buttons = [Button("Cancel", None, kind="text"), Button("Go", do(take_date), kind="text")]
    return Dialog("Go to date", [DateField("day", "Date", day)], buttons)


def take_date(ctx: Context) -> None:
    """Choose the date that was entered."""
    ctx.set("day", str(ctx.form["day"]))


# Search


def show_search(ctx: Context) -> None:
    """Open the search."""
    ctx.open(search)


def search(ctx: Context) -> Screen:
    """Events whose title, place or notes contain a text, by their next time."""
    wanted = str(ctx.get("query", "")).casefold().strip()
    field = TextField("query", "Search events", icon="search")
    if not wanted:
        return Screen("Search", [Empty("search", "Search by title, place or notes")], top=[field])
    found = []
    for row in ctx.db.rows("events"):
        if wanted in f"{row['title']}\n{row['location']}\n{row['notes']}".casefold():
            found.append(next_occurrence(row, ctx.today) or Occurrence(row, *read_times(row)))
    found.sort(key=lambda one: (one.start, one.row["_id"]))
    rows: list[Widget] = []
    for one in found:
        about = f"{format_date(one.start.date().isoformat())}" + ("" if one.row["all_day"] else f", {one.start:%H:%M}")
        icon = _ICONS.get(str(one.row["calendar"]), "calendar")
        rows.append(Item(str(one.row["title"]), about, icon, on_tap=_open(one)))
    return Screen("Search", rows or [Empty("search", "No events found")], top=[field])


# One event


def show_event(ctx: Context, id: int, day: str) -> None:
    """Open an event at one of its days."""
    ctx.open(event, id=id, day=day)


def event(ctx: Context, id: int, day: str = "") -> Screen:
    """One event; of a repeated one, the time on this day."""
    row = ctx.db.get("events", id)
    if row is None:
        return Screen("", [Empty("calendar", "This event was deleted")])
    start, end = read_times(row)
    move = date.fromisoformat(day) - start.date() if day else timedelta()
    repeat = _name(REPEATS, row["repeat"])
    details = [
        ("clock", say_when(row, start + move, end + move), "When"),
        ("refresh", repeat if row["repeat"] else "", "Repeats"),
        ("pin", row["location"], "Where"),
        ("bell", _name(REMINDERS, row["reminder"]) if row["reminder"] >= 0 else "", "Reminder"),
        (_ICONS.get(str(row["calendar"]), "calendar"), row["calendar"], "Calendar"),
    ]
    notes = [Section("Notes"), Text(str(row["notes"]), selectable=True, id="notes")] if row["notes"] else []
    return Screen(
        "",
        [
            Spacer(8),
            Text(str(row["title"]), style="headline", selectable=True, id="title"),
            Spacer(16),
            *[
                Item(str(value), what, icon, on_long_press=do(copy, text=str(value)))
                for icon, value, what in details
                if value
            ],
            *notes,
        ],
        actions=[
            IconButton("edit", "Edit event", do(edit_event, id=id)),
            IconButton("delete", "Delete event", do(ask_delete, id=id, day=day)),
            IconButton("more", "More options", do(show_commands, id=id)),
        ],
    )


def _name(choices: dict[str, Any], value: Any) -> str:
    return next((name for name, known in choices.items() if known == value), str(value))


def show_commands(ctx: Context, id: int) -> None:
    """Offer what can be done with an event."""
    ctx.open(commands, id=id)


def commands(ctx: Context, id: int) -> Menu:
    """Duplicate or copy an event."""
    return Menu([("Duplicate", do(duplicate, id=id)), ("Copy as text", do(copy_event, id=id))])


def duplicate(ctx: Context, id: int) -> None:
    """Open a form with the values of an event, for a new one."""
    ctx.open(form, copied=id)


def copy_event(ctx: Context, id: int) -> None:
    """Put title, time and place on the clipboard."""
    row = ctx.db.get("events", id)
    if row:
        parts = (row["title"], say_when(row, *read_times(row)), row["location"])
        copy(ctx, ", ".join(str(part) for part in parts if part))


def copy(ctx: Context, text: str) -> None:
    """Put a text on the clipboard."""
    ctx.copy(text)
    ctx.snackbar("Copied")


def ask_delete(ctx: Context, id: int, day: str) -> None:
    """Ask before an event is deleted."""
    ctx.open(confirm, id=id, day=day)


def confirm(ctx: Context, id: int, day: str) -> Dialog:
    """Ask whether an event is deleted; of a repeated one, whether on this day only."""
    row = ctx.db.get("events", id) or {}
    cancel = Button("Cancel", None, kind="text")
    if not row.get("repeat") or not day:
        return Dialog("Delete this event?", buttons=[cancel, Button("Delete", do(delete, id=id), kind="danger")])
    one = Button("This day", do(skip, id=id, day=day), kind="text")
    text = f"{row['title']} repeats. Delete it on {format_date(day)} only, or on all days?"
    return Dialog(
        "Delete this event?", [Text(text)], [cancel, one, Button("All days", do(delete, id=id), kind="danger")]
    )


def delete(ctx: Context, id: int) -> None:
    """Delete an event and leave its page."""
    ctx.db.delete("events", id)
    ctx.back()
    ctx.snackbar("Event deleted")
    plan(ctx)


def skip(ctx: Context, id: int, day: str) -> None:
    """Delete a repeated event on one day."""
    row = ctx.db.get("events", id)
    if row:
        days = sorted({*str(row["skipped"]).split(), day})
        ctx.db.update("events", id, skipped=" ".join(days))
    ctx.back()
    ctx.snackbar("Event deleted on this day")
    plan(ctx)


# The form


def new_event(ctx: Context) -> None:
    """Open an empty form for the chosen day."""
    ctx.open(form, day=_chosen(ctx).isoformat())


def edit_event(ctx: Context, id: int) -> None:
    """Open the form of an event."""
    ctx.open(form, id=id)


def _shown(ctx: Context, id: int, day: str, copied: int) -> Record:
    row = ctx.db.get("events", id or copied)
    if row:
        return row
    hour = min(23, ctx.now.hour + 1)
    start = datetime.combine(date.fromisoformat(day) if day else ctx.today, time(hour))
    blank = {"all_day": 0, "repeat": "", "notes": "", "reminder": 10}
    return {**_row("", start, 60 if hour < 23 else 30, "", CALENDARS[0]), **blank}


def form(ctx: Context, id: int = 0, day: str = "", copied: int = 0) -> Screen:
    """The form of an event; `id` 0 is a new one, perhaps like the event `copied`."""
    row = _shown(ctx, id, day, copied)
    start, end = read_times(row)
    whole = bool(ctx.get("all_day", row["all_day"]))
    first, last = do(move_end, minutes=_minutes(start, end)), do(note_length)
    times: list[Widget] = [
        DateField("start_day", "Start date", start.date().isoformat(), first),
        TimeField("start_time", "Start time", f"{start:%H:%M}", first),
        DateField("end_day", "End date", end.date().isoformat(), last),
        TimeField("end_time", "End time", f"{end:%H:%M}", last),
    ]
    return Screen(
        "Edit event" if id else "New event",
        [
            TextField("title", "Title", str(row["title"]), icon="calendar"),
            Switch("All day", whole, key="all_day", icon="sun"),
            *[field for field in times if not (whole and isinstance(field, TimeField))],
            Choice("repeat", "Repeat", tuple(REPEATS), _name(REPEATS, row["repeat"])),
            TextField("location", "Location", str(row["location"]), icon="pin"),
            Choice("reminder", "Reminder", tuple(REMINDERS), _name(REMINDERS, row["reminder"])),
            Choice("calendar", "Calendar", CALENDARS, str(row["calendar"])),
            TextField("notes", "Notes", str(row["notes"]), multiline=True, icon="note"),
        ],
        up_icon="close",
        actions=[IconButton("check", "Save", do(save, id=id), colour="primary")],
        on_back=do(leave, id=id, day=day, copied=copied),
    )


def _minutes(start: datetime, end: datetime) -> int:
    return int((end - start).total_seconds()) // 60


def move_end(ctx: Context, minutes: int) -> None:
    """After the start was changed, let the event last as long as before."""
    if ctx.get("all_day"):
        if str(ctx.form["end_day"]) < str(ctx.form["start_day"]):
            ctx.set("end_day", ctx.form["start_day"])
        return
    start = datetime.fromisoformat(f"{ctx.form['start_day']} {ctx.form.get('start_time', '00:00')}")
    end = start + timedelta(minutes=int(ctx.get("minutes", minutes)))
    ctx.set("end_day", end.date().isoformat())
    ctx.set("end_time", f"{end:%H:%M}")


def note_length(ctx: Context) -> None:
    """After the end was changed, remember how long the event lasts."""
    values = ctx.form
    if "start_time" in values:
        start = datetime.fromisoformat(f"{values['start_day']} {values['start_time']}")
        minutes = _minutes(start, datetime.fromisoformat(f"{values['end_day']} {values['end_time']}"))
        if minutes >= 0:
            ctx.set("minutes", minutes)


def save(ctx: Context, id: int) -> None:
    """Write the form, unless it has no title or ends before it starts."""
    values = ctx.form
    title = str(values["title"]).strip()
    if not title:
        ctx.snackbar("Enter a title")
        return
    try:
        times = write_times(values)
    except BadTimes:
        ctx.snackbar("The event ends before it starts")
        return
    row = {"title": title, **times, "location": str(values["location"]).strip(), "notes": str(values["notes"]).strip()}
    row |= {"repeat": REPEATS[str(values["repeat"])], "reminder": REMINDERS[str(values["reminder"])]}
    row |= {"calendar": str(values["calendar"])}
    if id:
        ctx.db.update("events", id, **row)
        ctx.back()
        ctx.replace(event, id=id, day=str(row["start"])[:10])
    else:
        ctx.db.insert("events", **row)
        ctx.back()
    ctx.snackbar("Event saved")
    plan(ctx)


def leave(ctx: Context, id: int, day: str, copied: int) -> None:
    """Close the form; if it was changed, ask first."""
    row = _shown(ctx, id, day, copied)
    shown = {"title": row["title"], "location": row["location"], "notes": row["notes"]}
    times = dict(zip(("start", "end"), (str(row["start"]), str(row["end"])), strict=True))
    try:
        same = not id or {**write_times(ctx.form), "all_day": row["all_day"]} == {**times, "all_day": row["all_day"]}
    except BadTimes:
        same = False
    if same and all(str(ctx.form[name]) == str(value) for name, value in shown.items()):
        ctx.back()
    else:
        ctx.open(discard)


def discard(ctx: Context) -> Dialog:
    """Ask whether the changes of the form are lost."""
    buttons = [Button("Keep editing", None, kind="text"), Button("Discard", do(drop_form), kind="text")]
    return Dialog("Discard your changes?", buttons=buttons)


def drop_form(ctx: Context) -> None:
    """Close the form."""
    ctx.back()


# Reminders


def prepare(ctx: Context) -> None:
    """Plan the first reminder as soon as time passes."""
    ctx.later(1, do(plan))


def _reminders(ctx: Context) -> list[tuple[datetime, Occurrence]]:
    """Return the reminders from now to the end of the next two weeks, by time."""
    found = []
    rows = [row for row in ctx.db.rows("events") if row["reminder"] >= 0]
    for day, events in by_day(rows, ctx.today, ctx.today + timedelta(days=15)).items():
        for one in events:
            when = one.start - timedelta(minutes=one.row["reminder"])
            if one.start.date() == day and when >= ctx.now:
                found.append((when, one))
    return sorted(found, key=lambda entry: (entry[0], entry[1].row["_id"]))


def plan(ctx: Context) -> None:
    """Let the next reminder come at its time, and look again in two weeks if there is none."""
    ctx.cancel_later(remind)
    ctx.cancel_later(plan)
    ahead = [when for when, _ in _reminders(ctx) if when > ctx.now]
    if ahead:
        ctx.later(to_clock(ahead[0]) - to_clock(ctx.now), do(remind))
    else:
        ctx.later(14 * 86_400, do(plan))


def remind(ctx: Context) -> None:
    """Post the reminders of this moment."""
    for when, one in _reminders(ctx):
        if when == ctx.now:
            text = " \u00b7 ".join(
                part for part in (say_when(one.row, one.start, one.end), one.row["location"]) if part
            )
            ctx.notify(str(one.row["title"]), text, _open(one), tag=f"event {one.row['_id']}")
    plan(ctx)


_COLUMNS = {
    "title": "title",
    "dtstart": "start",
    "dtend": "end",
    "allDay": "all_day",
    "rrule": "rrule",
    "eventLocation": "location",
    "description": "notes",
    "calendar": "calendar",
}

APP = App(
    package="org.turnwise.calendar",
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
    database="/data/data/org.turnwise.calendar/databases/events.db",
    providers={"content://com.android.calendar/events": Provider("events", _COLUMNS)},
    fill=fill,
    prepare=prepare,
    screens=(calendar, search, event, form, more, go_to, commands, confirm, discard),
    intents={"android.intent.action.INSERT": "form"},
)
