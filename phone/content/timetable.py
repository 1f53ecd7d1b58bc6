"""Pictures of a day and of a week with their events, for a calendar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final

from turnwise.phone.content.event_times import Occurrence
from turnwise.phone.toolkit.handlers import Do
from turnwise.phone.toolkit.widgets import Picture, Shape, Spot

__all__ = ["day_picture", "week_picture"]

_COLOURS: Final = {"Personal": "#4a72cf", "Work": "#2f8577", "Family": "#b85f4c"}
_WIDE: Final = 360.0
_LEAST: Final = 36  # minutes that the box of an event is high, however short it is


def _hours(days: Sequence[Sequence[Occurrence]]) -> tuple[int, int]:
    """Return the first and last hour that a picture shows."""
    times = [one for found in days for one in found if not one.row["all_day"]]
    first = min((one.start.hour for one in times), default=8)
    last = max((one.end.hour + 1 if one.end.date() == one.start.date() else 24 for one in times), default=20)
    return min(first, 7), min(24, max(last, 21))


def _lines(first: int, last: int, top: float, left: float, high: float) -> list[Shape]:
    shapes = []
    for hour in range(first, last):
        y = top + (hour - first) * high
        shapes.append(Shape("line", ((left, y), (_WIDE, y)), "line", 1.0))
        shapes.append(Shape("text", ((left / 2, y + 1),), "muted", 11.0, f"{hour:02d}:00" if left > 40 else f"{hour}"))
    return shapes


def _span(one: Occurrence, day: date) -> tuple[int, int]:
    """Return start and end of an event on a day in minutes, at least `_LEAST` apart."""
    start = one.start.hour * 60 + one.start.minute if one.start.date() == day else 0
    end = one.end.hour * 60 + one.end.minute if one.end.date() == day else 24 * 60
    return min(start, 24 * 60 - _LEAST), max(end, min(start, 24 * 60 - _LEAST) + _LEAST)


def _columns(found: Sequence[Occurrence], day: date) -> list[tuple[Occurrence, int, int]]:
    """Return each event with its column, and the number of columns of those that overlap."""
    placed: list[tuple[Occurrence, int, int]] = []
    group: list[tuple[Occurrence, int]] = []
    ends: list[int] = []  # of the last event in each column
    for one in sorted(found, key=lambda one: _span(one, day)):
        start, end = _span(one, day)
        if ends and start >= max(ends):
            placed += [(other, column, len(ends)) for other, column in group]
            group, ends = [], []
        free = next((n for n, busy in enumerate(ends) if busy <= start), len(ends))
        ends[free : free + 1] = [end]
        group.append((one, free))
    return placed + [(other, column, len(ends)) for other, column in group]


def _say(one: Occurrence, day: str = "") -> str:
    place = f", {one.row['location']}" if one.row["location"] else ""
    hours = "all day" if one.row["all_day"] else f"{one.start:%H:%M} to {one.end:%H:%M}"
    return f"{one.row['title']}, {day}{hours}{place}"


def day_picture(day: date, found: Sequence[Occurrence], now: datetime, tap: Callable[[Occurrence], Do]) -> Picture:
    """Return the hours of a day with its events; `tap` is for a touch of one."""
    first, last = _hours([found])
    left, high, top = 52.0, 52.0, 10.0
    shapes, spots = _lines(first, last, top, left, high), []
    for one, column, columns in _columns(found, day):
        start, end = _span(one, day)
        wide = (_WIDE - left - 6) / columns
        x, y = left + 4 + column * wide, top + (start / 60 - first) * high
        bottom = top + (end / 60 - first) * high
        shapes.append(Shape("box", ((x, y + 1), (x + wide - 3, bottom - 1)), _colour(one), radius=8))
        right = x + wide - 10
        shapes.append(Shape("text", ((x + 9, y + 6), (right, 0)), "#ffffff", 14.0, str(one.row["title"])))
        if bottom - y > 40:
            about = _say(one).removeprefix(f"{one.row['title']}, ")
            shapes.append(Shape("text", ((x + 9, y + 24), (right, 0)), "#ffffff", 11.5, about))
        spots.append(Spot(x, y + 1, x + wide - 3, bottom - 1, _say(one), tap(one)))
    if now.date() == day and first <= now.hour < last:
        y = top + (now.hour + now.minute / 60 - first) * high
        shapes += [Shape("line", ((left, y), (_WIDE, y)), "error", 1.6), _dot(left, y)]
    return Picture(tuple(shapes), _WIDE, top + (last - first) * high, f"Hours of {day.isoformat()}", tuple(spots))


def _colour(one: Occurrence) -> str:
    return _COLOURS.get(str(one.row["calendar"]), "#6b6f7b")


def _dot(x: float, y: float) -> Shape:
    return Shape("disc", ((x - 4, y - 4), (x + 4, y + 4)), "error")


def week_picture(
    days: Sequence[tuple[date, Sequence[Occurrence]]],
    now: datetime,
    tap: Callable[[Occurrence], Do],
    tap_day: Callable[[date], Do],
) -> Picture:
    """Return seven days side by side; `tap` is for a touch of an event, `tap_day` for one of the head of a day."""
    first, last = _hours([found for _, found in days])
    whole = max(len([one for one in found if one.row["all_day"]]) for _, found in days)
    left, high, head = 26.0, 40.0, 46.0
    top, wide = head + 18 * whole + 8, (_WIDE - left) / 7
    shapes, spots = _lines(first, last, top, left, high), []
    for n, (day, found) in enumerate(days):
        x = left + n * wide
        if day == now.date():
            shapes.append(Shape("disc", ((x + wide / 2 - 13, 18), (x + wide / 2 + 13, 44)), "primary"))
        front = "on_primary" if day == now.date() else "text"
        shapes.append(Shape("text", ((x + wide / 2, 8),), "muted", 11.0, f"{day:%a}"))
        shapes.append(Shape("text", ((x + wide / 2, 31),), front, 14.0, str(day.day)))
        shapes.append(Shape("line", ((x, head), (x, top + (last - first) * high)), "line", 1.0))
        spots.append(Spot(x, 0, x + wide, head, f"{day:%A}, {day.day} {day:%B %Y}", tap_day(day)))
        for row, one in enumerate([one for one in found if one.row["all_day"]]):
            spots.append(_box(shapes, one, (x + 1, head + 2 + 18 * row, x + wide - 1, head + 18 + 18 * row), tap, day))
        for one, column, columns in _columns([one for one in found if not one.row["all_day"]], day):
            start, end = _span(one, day)
            at, each = x + 1 + column * (wide - 2) / columns, (wide - 2) / columns
            y, bottom = top + (start / 60 - first) * high, top + (end / 60 - first) * high
            spots.append(_box(shapes, one, (at, y + 1, at + each - 1, bottom - 1), tap, day))
    return Picture(tuple(shapes), _WIDE, top + (last - first) * high, "Week", tuple(spots))


def _box(
    shapes: list[Shape],
    one: Occurrence,
    place: tuple[float, float, float, float],
    tap: Callable[[Occurrence], Do],
    day: date,
) -> Spot:
    """Draw the box of an event of the week, and return where it is touched."""
    x, y, right, bottom = place
    shapes.append(Shape("box", ((x, y), (right, bottom)), _colour(one), radius=4))
    shapes.append(Shape("text", ((x + 3, y + 3), (right - 1, 0)), "#ffffff", 9.5, str(one.row["title"])))
    return Spot(x, y, right, bottom, _say(one, f"{day:%A} "), tap(one))
