"""The dialogs that fill a field: options, date, time. They write the value into the page below."""

from __future__ import annotations

import calendar
from datetime import date

from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import Do, do, keeps
from turncredit.phone.toolkit.tables import Value
from turncredit.phone.toolkit.widgets import (
    Dialog,
    Grid,
    IconButton,
    Menu,
    Row,
    Spacer,
    Text,
    TextField,
    Tile,
    Widget,
    cancel_or,
)

_FIRST, _LAST = 1900, 2100


def choose(
    ctx: Context, key: str, title: str, value: str, options: tuple[str, ...], owner: str, on_change: Do | None
) -> Menu:
    """Offer the options of a `Choice`."""
    entries = [(option, do(put, key=key, value=option, owner=owner, on_change=on_change)) for option in options]
    return Menu(entries, selected=value or options[0])


def put(ctx: Context, key: str, value: Value, owner: str, on_change: Do | None) -> None:
    """Write a value into the page and tell its app."""
    if key:
        ctx.set(key, value)
    ctx.phone.run(on_change, owner, value, ctx.phone.frame)


def pick_date(ctx: Context, key: str, title: str, value: str, owner: str, on_change: Do | None) -> Dialog:
    """A month of days; arrows move by a month or a year."""
    picked = _date(ctx.get("picked", value)) or ctx.today
    year, month = _month(ctx.get("month", f"{picked:%Y-%m}"))
    ok = do(take_date, day=picked.isoformat(), key=key, owner=owner, on_change=on_change)
    body: list[Widget] = [
        Text(format_date(picked.isoformat()), style="headline", id="picked_date"),
        Spacer(8),
        Row(
            [
                _arrow("first", "Previous year", year, month, -12),
                _arrow("left", "Previous month", year, month, -1),
                Text(f"{calendar.month_name[month]} {year}", style="label", align="center", id="month"),
                _arrow("right", "Next month", year, month, 1),
                _arrow("last", "Next year", year, month, 12),
            ],
            gap=0,
            padding=0,
        ),
        Grid(_days(year, month, picked, ctx.today), columns=7, gap=0, padding=4),
    ]
    return Dialog(title, body, cancel_or("OK", ok, kind="text"))


def _arrow(icon: str, description: str, year: int, month: int, by: int) -> IconButton:
    total = year * 12 + month - 1 + by
    to = f"{total // 12:04d}-{total % 12 + 1:02d}"
    return IconButton(icon, description, keeps("month", to), enabled=_FIRST <= total // 12 <= _LAST)


def _days(year: int, month: int, picked: date, today: date) -> list[Widget]:
    cells: list[Widget] = [Tile(name, kind="day", colour="muted") for name in "MTWTFSS"]
    cells += [Tile("", kind="day")] * date(year, month, 1).weekday()
    for number in range(1, calendar.monthrange(year, month)[1] + 1):
        day = date(year, month, number)
        label = f"{number} {calendar.month_name[month]} {year}"
        tap = keeps("picked", day.isoformat())
        marked = day == today
        cells.append(Tile(str(number), tap, kind="day", selected=day == picked, marked=marked, description=label))
    return cells


def _date(value: object) -> date | None:
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        return None


def _month(value: str) -> tuple[int, int]:
    year, month = value.split("-")
    return int(year), int(month)


def take_date(ctx: Context, day: str, key: str, owner: str, on_change: Do | None) -> None:
    """Take the marked day."""
    put(ctx, key, day, owner, on_change)


def pick_time(ctx: Context, key: str, title: str, value: str, owner: str, on_change: Do | None) -> Dialog:
    """Hour and minute as two numbers."""
    hour, _, minute = (value or f"{ctx.now:%H:%M}").partition(":")
    ok = do(take_time, key=key, owner=owner, on_change=on_change)
    body: list[Widget] = [
        Text("Hour 0 to 23, minute 0 to 59", style="caption"),
        Spacer(8),
        Row(
            [
                TextField("hour", "Hour", hour, keyboard="number"),
                TextField("minute", "Minute", minute, keyboard="number"),
            ],
            gap=0,
            padding=0,
        ),
    ]
    return Dialog(title, body, cancel_or("OK", ok, kind="text"))


def take_time(ctx: Context, key: str, owner: str, on_change: Do | None) -> None:
    """Take the time if it is one."""
    hour, minute = str(ctx.form["hour"]), str(ctx.form["minute"])
    if hour.isdecimal() and minute.isdecimal() and int(hour) < 24 and int(minute) < 60:
        put(ctx, key, f"{int(hour):02d}:{int(minute):02d}", owner, on_change)
    else:
        ctx.snackbar(f"{hour}:{minute} is not a time")


APP = App(
    package="android",
    name="Android System",
    icon="settings",
    colour="#3c4043",
    screens=(choose, pick_date, pick_time),
    activity=".Resolver",
    hidden=True,
)
