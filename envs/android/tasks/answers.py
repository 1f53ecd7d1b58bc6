"""Whether an answer is right: texts, numbers, dates, times, choices and lists as people write them."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from itertools import product
from typing import Any, Final

from turnwise.envs.android.tasks.effects import Answer

__all__ = ["KINDS", "is_right", "read_date", "read_number", "read_time"]

KINDS: Final = ("text", "number", "date", "time", "choice", "list")
_NUMBER: Final = re.compile(r"[-+]?\d[\d,\u00a0 ]*(?:\.\d+)?|[-+]?\.\d+")
_DATES: Final = ("%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%d.%m.%Y", "%Y/%m/%d")
_TIMES: Final = ("%H:%M", "%I:%M %p", "%I.%M %p", "%I:%M%p", "%I.%M%p", "%I %p", "%I%p", "%H.%M", "%H:%M:%S")
_LEAD: Final = re.compile(r"^(?:the (?:answer|result|date|time|number) is|(?:it|that|this) is|it['\u2019]s):? ")
_NUMERALS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_NAMED_NUMBER: Final = re.compile(rf"(?:there (?:is|are) )?({'|'.join(_NUMERALS)})")
_WEEKDAY: Final = re.compile(r"^(mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+(?:the\s+)?", re.IGNORECASE)
_ENDS: Final = " \t\n\r.,;:!?'\"\u201c\u201d\u2018\u2019`*"


def is_right(effect: Answer, given: str, passed: int = 0) -> bool:
    """Return whether an answer is right.

    Args:
        effect: the answer that is wanted.
        given: the answer of the agent.
        passed: minutes on the phone's clock since the start of the task, for a time that goes on.

    Raises:
        ValueError: the kind of the effect is none of `KINDS`.
    """
    if effect.kind not in KINDS:
        raise ValueError(f"the kind of an answer is one of {', '.join(KINDS)}; got {effect.kind!r}")
    if not given.strip():
        return False
    values = [effect.value, *effect.accept]
    if effect.goes_on:
        values += [_later(effect.value, minutes) for minutes in range(1, passed + 1)]
    return any(_same(effect.kind, value, given) for value in values)


def _later(clock: str, minutes: int) -> str:
    return f"{datetime.strptime(clock, '%H:%M') + timedelta(minutes=minutes):%H:%M}"


def _same(kind: str, value: Any, given: str) -> bool:
    if kind == "number":
        read = read_number(given)
        return read is not None and abs(read - float(value)) < 1e-6 * max(1.0, abs(float(value)))
    if kind == "date":
        return _read_date_near(given, read_date(str(value))) == read_date(str(value)) is not None
    if kind == "time":
        return read_time(given) == read_time(str(value)) is not None
    if kind == "list":
        return _is_list(sorted(map(_plain, value)), given.casefold())
    return _plain(str(value)) == _plain(given)


def _plain(text: str) -> str:
    """Return a text without case, quotes, articles in front, "it is" and marks at its ends."""
    words = _LEAD.sub("", " ".join(str(text).casefold().split()).strip(_ENDS)).strip(_ENDS)
    digits = re.sub(r"[\s()\-]", "", words)
    if re.fullmatch(r"\+?\d{5,}", digits):
        return digits
    return re.sub(r"^(the|an|a) ", "", words)


def _is_list(wanted: list[str], text: str) -> bool:
    """Return whether a text lists these items in any order: each "and" is a part of an item, or stands before one."""
    text = "\n".join(re.sub(r"^\s*(?:[-*\u2022]|\d+[.)])\s+", "", line) for line in text.splitlines())
    parts = re.split(r"\band\b", text)
    inside = sum(len(re.findall(r"\band\b", item)) for item in wanted)
    if len(parts) - 1 > inside + len(wanted) - 1:
        return False
    return any(
        sorted(_items("".join(word for pair in zip(parts, (*between, ""), strict=True) for word in pair))) == wanted
        for between in product(("and", ","), repeat=len(parts) - 1)
    )


def _items(text: str) -> list[str]:
    return [plain for part in re.split(r"[,;\n]", text) if (plain := _plain(part))]


def read_number(text: str) -> float | None:
    """Return the only number in a text, or None if there is none or more than one.

    >>> read_number("It is 1,250.50."), read_number("7,02"), read_number("six"), read_number("3 of 4")
    (1250.5, 7.02, 6.0, None)
    """
    found = _NUMBER.findall(text)
    if not found:
        named = _NAMED_NUMBER.fullmatch(_bare(text).casefold())
        return float(_NUMERALS.index(named[1])) if named else None
    if len(found) != 1:
        return None
    digits = re.sub(r"[\u00a0 ]", "", found[0])
    if re.fullmatch(r"[-+]?\d+,\d{1,2}", digits):  # a decimal comma
        return float(digits.replace(",", "."))
    return float(digits.replace(",", ""))


def _read_date_near(text: str, near: date | None) -> date | None:
    """Return the date that a text is, in the year of another where it names none."""
    return read_date(text) or (read_date(f"{_bare(text)} {near.year}") if near else None)


def _bare(text: str) -> str:
    """Return a date or time without what may stand around it."""
    words = " ".join(text.split()).strip(_ENDS)
    lead = _LEAD.match(f"{words.casefold()} ")
    words = words[lead.end() :] if lead else words
    return re.sub(r"^(?:(?:on|at|the) )+", "", words, flags=re.IGNORECASE)


def read_date(text: str) -> date | None:
    """Return the date that a text is, or None.

    >>> read_date("Tue, 17 Oct 2023"), read_date("October 17, 2023") == read_date("2023-10-17")
    (datetime.date(2023, 10, 17), True)
    """
    plain = _WEEKDAY.sub("", _bare(text)).replace(",", "")
    plain = re.sub(r"(\d)(st|nd|rd|th)\b(?: of)?", r"\1", plain)
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
    plain = _bare(text).upper().replace("A.M", "AM").replace("P.M", "PM")
    for form in _TIMES:
        try:
            return datetime.strptime(plain, form).time()
        except ValueError:
            continue
    return None
