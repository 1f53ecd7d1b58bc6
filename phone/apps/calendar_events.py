"""Events of Calendar: their page and form, repetition, deleting and reminders."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Final

from turncredit.phone.content.event_times import (
    BadTimes,
    Occurrence,
    by_day,
    read_times,
    say_when,
    write_times,
)
from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import Context, to_clock
from turncredit.phone.toolkit.handlers import Arguments, Do, do, opens
from turncredit.phone.toolkit.tables import Columns, Value
from turncredit.phone.toolkit.tables import Row as Record
from turncredit.phone.toolkit.widgets import (
    Button,
    Choice,
    DateField,
    Dialog,
    Empty,
    IconButton,
    Item,
    Menu,
    Screen,
    Section,
    Spacer,
    Switch,
    Text,
    TextField,
    TimeField,
    Widget,
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
ICONS: Final = {"Personal": "person", "Work": "chart", "Family": "home"}


def event_row(title: str, start: datetime, minutes: int, location: str, calendar: str) -> Columns:
    """Return the columns of a new event without a reminder."""
    end = start + timedelta(minutes=minutes)
    times = {"start": f"{start:%Y-%m-%d %H:%M}", "end": f"{end:%Y-%m-%d %H:%M}"}
    return {"title": title, **times, "location": location, "calendar": calendar, "reminder": -1}


def open_occurrence(occurrence: Occurrence) -> Do:
    """Return the handler that shows an event at this time."""
    return opens(event, id=occurrence.row["_id"], day=occurrence.start.date().isoformat())


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
        (ICONS.get(str(row["calendar"]), "calendar"), row["calendar"], "Calendar"),
    ]
    notes = [Section("Notes"), Text(str(row["notes"]), selectable=True, id="notes")] if row["notes"] else []
    return Screen(
        "",
        [
            Spacer(8),
            Text(str(row["title"]), style="headline", selectable=True, id="title"),
            Spacer(16),
            *[
                Item(str(value), label, icon, on_long_press=do(copy, text=str(value)))
                for icon, value, label in details
                if value
            ],
            *notes,
        ],
        actions=[
            IconButton("edit", "Edit event", opens(form, id=id)),
            IconButton("delete", "Delete event", opens(confirm, id=id, day=day)),
            IconButton("more", "More options", opens(commands, id=id)),
        ],
    )


def _name(choices: Mapping[str, Value], value: Value) -> str:
    return next((name for name, option in choices.items() if option == value), str(value))


def commands(ctx: Context, id: int) -> Menu:
    """Duplicate or copy an event."""
    return Menu([("Duplicate", opens(form, copied=id)), ("Copy as text", do(copy_event, id=id))])


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


def confirm(ctx: Context, id: int, day: str) -> Dialog:
    """Ask whether an event is deleted; of a repeated one, whether on this day only."""
    row = ctx.db.get("events", id) or {}
    cancel = Button("Cancel", None, kind="text")
    if not row.get("repeat") or not day:
        return Dialog("Delete this event?", buttons=[cancel, Button("Delete", do(delete, id=id), kind="danger")])
    single = Button("This day", do(skip, id=id, day=day), kind="text")
    text = f"{row['title']} repeats. Delete it on {format_date(day)} only, or on all days?"
    return Dialog(
        "Delete this event?", [Text(text)], [cancel, single, Button("All days", do(delete, id=id), kind="danger")]
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


def _shown(ctx: Context, id: int, day: str, copied: int, columns: Arguments) -> Record:
    row = ctx.db.get("events", id or copied)
    if row:
        return row
    hour = min(23, ctx.now.hour + 1)
    start = datetime.combine(date.fromisoformat(day) if day else ctx.today, time(hour))
    blank = {"all_day": 0, "repeat": "", "notes": "", "reminder": 10}
    return {**event_row("", start, 60 if hour < 23 else 30, "", CALENDARS[0]), **blank, **dict(columns)}


def form(ctx: Context, id: int = 0, day: str = "", copied: int = 0, given: Arguments = ()) -> Screen:
    """The form of an event; `id` 0 is a new one, perhaps like the event `copied`, or with columns `given`."""
    row = _shown(ctx, id, day, copied, given)
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
        on_back=do(leave, id=id, day=day, copied=copied, given=given),
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


def leave(ctx: Context, id: int, day: str, copied: int, given: Arguments) -> None:
    """Close the form; if it was changed, ask first."""
    row = _shown(ctx, id, day, copied, given)
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
    reminders = []
    rows = [row for row in ctx.db.rows("events") if row["reminder"] >= 0]
    for day, events in by_day(rows, ctx.today, ctx.today + timedelta(days=15)).items():
        for occurrence in events:
            when = occurrence.start - timedelta(minutes=occurrence.row["reminder"])
            if occurrence.start.date() == day and when >= ctx.now:
                reminders.append((when, occurrence))
    return sorted(reminders, key=lambda entry: (entry[0], entry[1].row["_id"]))


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
    for when, occurrence in _reminders(ctx):
        if when == ctx.now:
            text = " \u00b7 ".join(
                part
                for part in (say_when(occurrence.row, occurrence.start, occurrence.end), occurrence.row["location"])
                if part
            )
            ctx.notify(
                str(occurrence.row["title"]), text, open_occurrence(occurrence), tag=f"event {occurrence.row['_id']}"
            )
    plan(ctx)
