"""Times of the events of a calendar: times as text, and the days of those that repeat.

A rule is "" for an event that takes place once, or every day, every weekday, every week, every month, every year.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Final, NamedTuple

from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.tables import Columns, Row

__all__ = ["BadTimes", "Occurrence", "by_day", "has_times", "next_occurrence", "read_times", "say_when", "write_times"]

_AHEAD: Final = 366 * 4 + 1  # days in which every repeated event comes again, 29 February too


class BadTimes(ValueError):
    """An event would end before it starts."""


class Occurrence(NamedTuple):
    """An event at one of its times."""

    row: Row
    start: datetime
    end: datetime


def has_times(row: Row) -> bool:
    """Return whether an event has start and end; all have, but for those that SQL has written without."""
    return bool(row["start"] and row["end"])


def read_times(row: Row) -> tuple[datetime, datetime]:
    """Return start and end of an event; of a repeated one, the first."""
    return datetime.fromisoformat(str(row["start"])), datetime.fromisoformat(str(row["end"]))


def write_times(form: Row) -> Columns:
    """Return the columns `start`, `end` and `all_day` for what a form holds.

    Raises:
        BadTimes: the end is before the start.
    """
    whole = bool(form["all_day"])
    start_time, end_time = ("00:00", "23:59") if whole else (form["start_time"], form["end_time"])
    start, end = f"{form['start_day']} {start_time}", f"{form['end_day']} {end_time}"
    if end < start:
        raise BadTimes(f"expected an end that is not before {start}, got {end}")
    return {"start": start, "end": end, "all_day": int(whole)}


def say_when(row: Row, start: datetime, end: datetime) -> str:
    """Return the time of an event as a sentence, such as 'Tue, 17 Oct 2023, 09:00 to 10:00'."""
    first, last = format_date(start.date().isoformat()), format_date(end.date().isoformat())
    if row["all_day"]:
        return f"{first}, all day" if first == last else f"{first} to {last}, all day"
    return f"{first}, {start:%H:%M} to " + (f"{end:%H:%M}" if first == last else f"{last}, {end:%H:%M}")


def _starts_on(row: Row, first: date, day: date) -> bool:
    if day < first or not (day == first or _repeats_on(str(row["repeat"]), first, day)):
        return False
    return not row["skipped"] or day.isoformat() not in str(row["skipped"]).split()


def _repeats_on(rule: str, first: date, day: date) -> bool:
    """Whether an event with this rule, or none, takes place again on a day after its first one."""
    if rule in ("", "every day"):
        return bool(rule)
    if rule == "every weekday":
        return day.weekday() < 5
    if rule == "every week":
        return day.weekday() == first.weekday()
    same_day = day.day == first.day
    return same_day if rule == "every month" else same_day and day.month == first.month


def by_day(rows: Iterable[Row], first: date, last: date) -> dict[date, list[Occurrence]]:
    """Return what takes place on each day from `first` to `last`, whole days first, then by time.

    Events without times take place on none.
    """
    days: dict[date, list[Occurrence]] = {}
    for row in filter(has_times, rows):
        start, end = read_times(row)
        length = (end.date() - start.date()).days
        low = max(first - timedelta(days=length), start.date())
        high = last if row["repeat"] else min(last, start.date())
        step = 7 if row["repeat"] == "every week" else 1
        for n in range((start.date() - low).days % step, (high - low).days + 1, step):
            day = low + timedelta(days=n)
            if _starts_on(row, start.date(), day):
                move = day - start.date()
                for later in range(length + 1):
                    if first <= day + timedelta(days=later) <= last:
                        there = days.setdefault(day + timedelta(days=later), [])
                        there.append(Occurrence(row, start + move, end + move))
    for there in days.values():
        there.sort(key=lambda occurrence: (not occurrence.row["all_day"], occurrence.start, occurrence.row["_id"]))
    return dict(sorted(days.items()))


def next_occurrence(row: Row, day: date) -> Occurrence | None:
    """Return an event at its first time that starts on a day or later; None if there is none in the next four years."""
    start, end = read_times(row)
    for n in range(_AHEAD if row["repeat"] else 1):
        candidate = max(day, start.date()) + timedelta(days=n)
        if _starts_on(row, start.date(), candidate):
            move = candidate - start.date()
            return Occurrence(row, start + move, end + move)
    return None
