"""Events of Calendar as `content` shows them: times in milliseconds, rules of RFC 5545, numbers of calendars."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from turncredit.phone.apps.calendar_events import CALENDARS
from turncredit.phone.toolkit.app import Converted, Provider, to_clock, to_datetime
from turncredit.phone.toolkit.handlers import Arguments
from turncredit.phone.toolkit.tables import Columns, Row

__all__ = ["EVENTS", "to_columns"]

_RULES: Final = {
    "": "",
    "every day": "FREQ=DAILY",
    "every weekday": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR",
    "every week": "FREQ=WEEKLY",
    "every month": "FREQ=MONTHLY",
    "every year": "FREQ=YEARLY",
}
_NEW: Final = {"calendar": CALENDARS[0], "reminder": -1}
_DURATION: Final = re.compile(
    r"P(?=.)(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?T?(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)S)?",
    re.ASCII,
)
_MINUTE: Final = timedelta(minutes=1)


def _milliseconds(stored: str) -> int | None:
    try:
        return 1000 * to_clock(datetime.fromisoformat(stored))
    except ValueError:  # SQL can write what this provider refuses
        return None


def _end(row: Row) -> int | None:
    """Return the end of an event in milliseconds; that of a whole day is 23:59 in the table and midnight here."""
    end = _milliseconds(row["end"])
    return end if end is None or not row["all_day"] else end + 60_000


def _time(value: object) -> str:
    """Return the stored time for milliseconds since 1970 or text such as '2023-10-20 10:00'; "" for None.

    Raises:
        ValueError: it is neither, or before 1901 or after 2099.
    """
    if value is None:
        return ""
    try:
        number = str(value).removeprefix("-").isdecimal()
        moment = to_datetime(int(str(value)) // 1000) if number else datetime.fromisoformat(str(value))
    except (ValueError, OverflowError):
        moment = datetime.min
    if not 1901 <= moment.year <= 2099:
        raise ValueError(f"a time is given in milliseconds since 1970, from 1901 to 2099, got {value!r}")
    return _text(moment)


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _duration(row: Row) -> str | None:
    """Return how long a repeated event lasts; Android shows no duration of others."""
    start, end = _milliseconds(row["start"]), _end(row)
    return None if not row["repeat"] or start is None or end is None else f"P{(end - start) // 1000}S"


def _seconds(value: object) -> int | None:
    """Return the seconds of a duration of RFC 5545, such as 'PT1H'; Android writes 'P3600S'. None stays None.

    Raises:
        ValueError: it is no such duration.
    """
    if value is None:
        return None
    match = _DURATION.fullmatch(str(value))
    if not match:
        raise ValueError(f"a duration is written like P3600S or PT1H30M, got {value!r}")
    return int(timedelta(**{unit: int(number) for unit, number in match.groupdict("0").items()}).total_seconds())


def _rule(value: object) -> str:
    text = str(value or "").removeprefix("RRULE:")
    for rule, written in _RULES.items():
        if text in (rule, written):
            return rule
    raise ValueError(f"rrule is one of {', '.join(filter(None, _RULES.values()))}, got {value!r}")


def _calendar_number(name: str) -> int:
    return CALENDARS.index(name) + 1 if name in CALENDARS else 0


def _calendar(number: object) -> str:
    names = {str(at): name for at, name in enumerate(CALENDARS, 1)}
    if str(number) not in names:
        listed = ", ".join(f"{at} ({name})" for at, name in names.items())
        raise ValueError(f"calendar_id is one of {listed}, got {number!r}")
    return names[str(number)]


def _clean(row: Columns, before: Row) -> Columns:
    """Return an event with both times; a whole day ends at 23:59, where Android has midnight of the next."""
    row = {**_NEW, **row}
    start, end, seconds = row.get("start"), row.get("end"), row.pop("duration", None)
    if start and seconds is not None:
        end = _time(1000 * (to_clock(datetime.fromisoformat(start)) + seconds))
    if not start or not end:
        raise ValueError("an event needs dtstart, and dtend or duration")
    if before.get("all_day") and not row["all_day"] and end == before["end"]:
        end = _text(datetime.fromisoformat(end) + _MINUTE)
    if row.get("all_day"):
        last = datetime.fromisoformat(end) - _MINUTE
        start, end = f"{start[:10]} 00:00", f"{max(f'{last:%Y-%m-%d}', start[:10])} 23:59"
    if end < start:
        raise ValueError(f"dtend is before dtstart: {end}, {start}")
    return {**row, "start": start, "end": end}


def to_columns(values: Columns) -> Arguments:
    """Return the columns of the table for values of the provider, without those that are none."""
    columns: Columns = {}
    for name, value in values.items():
        way = EVENTS.columns[name]
        try:
            columns |= {way.column: way.store(value)} if isinstance(way, Converted) else {str(way): value}
        except ValueError:
            continue
    return tuple((name, value) for name, value in columns.items() if value)


EVENTS: Final = Provider(
    "events",
    {
        "calendar_id": Converted("calendar", lambda row: _calendar_number(row["calendar"]), _calendar),
        "title": "title",
        "dtstart": Converted("start", lambda row: _milliseconds(row["start"]), _time),
        "dtend": Converted("end", _end, _time),
        "duration": Converted("duration", _duration, _seconds),
        "allDay": "all_day",
        "rrule": Converted("repeat", lambda row: _RULES.get(row["repeat"], ""), _rule),
        "eventLocation": "location",
        "description": "notes",
        "eventTimezone": lambda row: "UTC",
    },
    clean=_clean,
    ignored=("eventTimezone",),  # milliseconds since 1970 need no zone
)
"""The rows under content://com.android.calendar/events."""
