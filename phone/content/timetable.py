"""Pictures of a day and of a week with their events, for a calendar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Final

from turncredit.phone.content.event_times import Occurrence
from turncredit.phone.toolkit.handlers import Do
from turncredit.phone.toolkit.widgets import Picture, Shape, Spot

__all__ = ["day_picture", "week_picture"]

_COLOURS: Final = {"Personal": "#4a72cf", "Work": "#2f8577", "Family": "#b85f4c"}
_WIDE: Final = 360.0
_LEAST: Final = 36  # minutes that the box of an event is high, however short it is


def _hours(days: Sequence[Sequence[Occurrence]]) -> tuple[int, int]:
    """Return the first and last hour that a picture shows."""
    times = [occurrence for occurrences in days for occurrence in occurrences if not occurrence.row["all_day"]]
    first = min((occurrence.start.hour for occurrence in times), default=8)
    last = max(
        (occurrence.end.hour + 1 if occurrence.end.date() == occurrence.start.date() else 24 for occurrence in times),
        default=20,
    )
    return min(first, 7), min(24, max(last, 21))


def _lines(first: int, last: int, top: float, left: float, high: float) -> list[Shape]:
    shapes = []
    for hour in range(first, last):
        y = top + (hour - first) * high
        shapes.append(Shape("line", ((left, y), (_WIDE, y)), "line", 1.0))
        shapes.append(Shape("text", ((left / 2, y + 1),), "muted", 11.0, f"{hour:02d}:00" if left > 40 else f"{hour}"))
    return shapes


def _span(occurrence: Occurrence, day: date) -> tuple[int, int]:
    """Return start and end of an event on a day in minutes, at least `_LEAST` apart."""
    start = occurrence.start.hour * 60 + occurrence.start.minute if occurrence.start.date() == day else 0
    end = occurrence.end.hour * 60 + occurrence.end.minute if occurrence.end.date() == day else 24 * 60
    return min(start, 24 * 60 - _LEAST), max(end, min(start, 24 * 60 - _LEAST) + _LEAST)


def _columns(occurrences: Sequence[Occurrence], day: date) -> list[tuple[Occurrence, int, int]]:
    """Return each event with its column, and the number of columns of those that overlap."""
    placed: list[tuple[Occurrence, int, int]] = []
    group: list[tuple[Occurrence, int]] = []
    ends: list[int] = []  # of the last event in each column
    for occurrence in sorted(occurrences, key=lambda occurrence: _span(occurrence, day)):
        start, end = _span(occurrence, day)
        if ends and start >= max(ends):
            placed += [(other, column, len(ends)) for other, column in group]
            group, ends = [], []
        free = next((n for n, busy in enumerate(ends) if busy <= start), len(ends))
        ends[free : free + 1] = [end]
        group.append((occurrence, free))
    return placed + [(other, column, len(ends)) for other, column in group]


def _say(occurrence: Occurrence, day: str = "") -> str:
    location = f", {occurrence.row['location']}" if occurrence.row["location"] else ""
    hours = "all day" if occurrence.row["all_day"] else f"{occurrence.start:%H:%M} to {occurrence.end:%H:%M}"
    return f"{occurrence.row['title']}, {day}{hours}{location}"


def day_picture(
    day: date, occurrences: Sequence[Occurrence], moment: datetime, tap: Callable[[Occurrence], Do]
) -> Picture:
    """Return the hours of a day with its events; `tap` is for a touch of one."""
    first, last = _hours([occurrences])
    left, high, top = 52.0, 52.0, 10.0
    shapes, spots = _lines(first, last, top, left, high), []
    for occurrence, column, columns in _columns(occurrences, day):
        start, end = _span(occurrence, day)
        wide = (_WIDE - left - 6) / columns
        x, y = left + 4 + column * wide, top + (start / 60 - first) * high
        bottom = top + (end / 60 - first) * high
        shapes.append(Shape("box", ((x, y + 1), (x + wide - 3, bottom - 1)), _colour(occurrence), radius=8))
        right = x + wide - 10
        shapes.append(Shape("text", ((x + 9, y + 6), (right, 0)), "#ffffff", 14.0, str(occurrence.row["title"])))
        if bottom - y > 40:
            about = _say(occurrence).removeprefix(f"{occurrence.row['title']}, ")
            shapes.append(Shape("text", ((x + 9, y + 24), (right, 0)), "#ffffff", 11.5, about))
        spots.append(Spot(x, y + 1, x + wide - 3, bottom - 1, _say(occurrence), tap(occurrence)))
    if moment.date() == day and first <= moment.hour < last:
        y = top + (moment.hour + moment.minute / 60 - first) * high
        shapes += [Shape("line", ((left, y), (_WIDE, y)), "error", 1.6), _dot(left, y)]
    return Picture(tuple(shapes), _WIDE, top + (last - first) * high, f"Hours of {day.isoformat()}", tuple(spots))


def _colour(occurrence: Occurrence) -> str:
    return _COLOURS.get(str(occurrence.row["calendar"]), "#6b6f7b")


def _dot(x: float, y: float) -> Shape:
    return Shape("disc", ((x - 4, y - 4), (x + 4, y + 4)), "error")


def week_picture(
    days: Sequence[tuple[date, Sequence[Occurrence]]],
    moment: datetime,
    tap: Callable[[Occurrence], Do],
    tap_day: Callable[[date], Do],
) -> Picture:
    """Return seven days side by side; `tap` is for a touch of an event, `tap_day` for one of the head of a day."""
    first, last = _hours([occurrences for _, occurrences in days])
    whole = max(len([occurrence for occurrence in occurrences if occurrence.row["all_day"]]) for _, occurrences in days)
    left, high, head = 26.0, 40.0, 46.0
    top, wide = head + 18 * whole + 8, (_WIDE - left) / 7
    shapes, spots = _lines(first, last, top, left, high), []
    for n, (day, occurrences) in enumerate(days):
        x = left + n * wide
        if day == moment.date():
            shapes.append(Shape("disc", ((x + wide / 2 - 13, 18), (x + wide / 2 + 13, 44)), "primary"))
        front = "on_primary" if day == moment.date() else "text"
        shapes.append(Shape("text", ((x + wide / 2, 8),), "muted", 11.0, f"{day:%a}"))
        shapes.append(Shape("text", ((x + wide / 2, 31),), front, 14.0, str(day.day)))
        shapes.append(Shape("line", ((x, head), (x, top + (last - first) * high)), "line", 1.0))
        spots.append(Spot(x, 0, x + wide, head, f"{day:%A}, {day.day} {day:%B %Y}", tap_day(day)))
        for row, occurrence in enumerate([occurrence for occurrence in occurrences if occurrence.row["all_day"]]):
            spots.append(
                _box(shapes, occurrence, (x + 1, head + 2 + 18 * row, x + wide - 1, head + 18 + 18 * row), tap, day)
            )
        for occurrence, column, columns in _columns(
            [occurrence for occurrence in occurrences if not occurrence.row["all_day"]], day
        ):
            start, end = _span(occurrence, day)
            at, each = x + 1 + column * (wide - 2) / columns, (wide - 2) / columns
            y, bottom = top + (start / 60 - first) * high, top + (end / 60 - first) * high
            spots.append(_box(shapes, occurrence, (at, y + 1, at + each - 1, bottom - 1), tap, day))
    return Picture(tuple(shapes), _WIDE, top + (last - first) * high, "Week", tuple(spots))


def _box(
    shapes: list[Shape],
    occurrence: Occurrence,
    bounds: tuple[float, float, float, float],
    tap: Callable[[Occurrence], Do],
    day: date,
) -> Spot:
    """Draw the box of an event of the week, and return where it is touched."""
    x, y, right, bottom = bounds
    shapes.append(Shape("box", ((x, y), (right, bottom)), _colour(occurrence), radius=4))
    shapes.append(Shape("text", ((x + 3, y + 3), (right - 1, 0)), "#ffffff", 9.5, str(occurrence.row["title"])))
    return Spot(x, y, right, bottom, _say(occurrence, f"{day:%A} "), tap(occurrence))
