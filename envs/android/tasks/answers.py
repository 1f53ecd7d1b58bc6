"""Whether an answer is right: texts, numbers, dates, times, choices and lists as people write them."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import Any, Final

from turnwise.envs.android.tasks.effects import Answer

__all__ = ["KINDS", "is_right", "read_date", "read_number", "read_time"]

KINDS: Final = ("text", "number", "date", "time", "choice", "list")
_NUMBER: Final = re.compile(r"[-+]?\d[\d,\u00a0 ]*(?:\.\d+)?|[-+]?\.\d+")
_DATES: Final = ("%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%d.%m.%Y", "%Y/%m/%d")
_TIMES: Final = ("%H:%M", "%I:%M %p", "%I:%M%p", "%I %p", "%I%p", "%H.%M", "%H:%M:%S")
_WEEKDAY: Final = re.compile(r"^(mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+", re.IGNORECASE)
_ENDS: Final = " \t\n\r.,;:!?'\"\u201c\u201d\u2018\u2019`*"


def is_right(effect: Answer, given: str) -> bool:
    """Return whether an answer is right.

    Raises:
        ValueError: the kind of the effect is none of `KINDS`.
    """
    if effect.kind not in KINDS:
        raise ValueError(f"the kind of an answer is one of {', '.join(KINDS)}; got {effect.kind!r}")
    if not given.strip():
        return False
    return any(_same(effect.kind, value, given) for value in (effect.value, *effect.accept))


def _same(kind: str, value: Any, given: str) -> bool:
    if kind == "number":
        read = read_number(given)
        return read is not None and abs(read - float(value)) < 1e-6 * max(1.0, abs(float(value)))
    if kind == "date":
        return read_date(given) == read_date(str(value)) is not None
    if kind == "time":
        return read_time(given) == read_time(str(value)) is not None
    if kind == "list":
        return sorted(map(_plain, value)) == sorted(_items(given))
    return _plain(str(value)) == _plain(given)


def _plain(text: str) -> str:
    """Return a text without case, quotes, articles in front and marks at its ends."""
    words = " ".join(str(text).casefold().split()).strip(_ENDS)
    digits = re.sub(r"[\s()\-]", "", words)
    if re.fullmatch(r"\+?\d{5,}", digits):
        return digits
    return re.sub(r"^(the|an|a) ", "", words)


def _items(text: str) -> list[str]:
    parts = re.split(r"[,;\n]|\band\b(?=[^,;\n]*$)" if "," not in text and ";" not in text else r"[,;\n]", text)
    plain = [_plain(re.sub(r"^and ", "", " ".join(part.split()))) for part in parts]
    return [part for part in plain if part]


def read_number(text: str) -> float | None:
    """Return the only number in a text, or None if there is none or more than one.

    >>> read_number("It is 1,250.50."), read_number("3 of 4")
    (1250.5, None)
    """
    found = _NUMBER.findall(text)
    if len(found) != 1:
        return None
    return float(re.sub(r"[,\u00a0 ]", "", found[0]))


def read_date(text: str) -> date | None:
    """Return the date that a text is, or None.

    >>> read_date("Tue, 17 Oct 2023"), read_date("October 17, 2023") == read_date("2023-10-17")
    (datetime.date(2023, 10, 17), True)
    """
    plain = _WEEKDAY.sub("", " ".join(text.strip(_ENDS).split())).replace(",", "")
    plain = re.sub(r"(\d)(st|nd|rd|th)\b", r"\1", plain)
    for form in _DATES:
        try:
            return datetime.strptime(plain, form).date()
        except ValueError:
            continue
    return None


def read_time(text: str) -> time | None:
    """Return the time of day that a text is, or None.

    >>> read_time("5:30 pm") == read_time("17:30")
    True
    """
    plain = " ".join(text.strip(" \t\n\r.,;!?'\"").upper().replace("A.M", "AM").replace("P.M", "PM").split())
    for form in _TIMES:
        try:
            return datetime.strptime(plain, form).time()
        except ValueError:
            continue
    return None
