"""The check of answers: texts, numbers, dates, times, choices and lists as people write them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any, Final

from turncredit.envs.android.tasks.effects import Answer

__all__ = ["KINDS", "is_right", "read_date", "read_number", "read_time"]

KINDS: Final = ("text", "number", "date", "time", "choice", "list")
_GROUPS: Final = r"\d{1,3}(?:,\d{3}){1,9}|\d{1,2}(?:,\d{2}){1,9},\d{3}|\d{1,3}(?:[\u00a0 ]\d{3}){1,9}"
_NUMBER: Final = re.compile(
    rf"(?P<whole>[-+]?(?:{_GROUPS}|\d+)(?!\d)|[-+]?(?=\.\d))(?:\.(?P<point>\d+)|,(?P<comma>\d{{1,2}})(?![\d,]))?"
)
_DATES: Final = ("%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d %Y", "%b %d %Y", "%d.%m.%Y", "%Y/%m/%d")
_TIMES: Final = ("%H:%M", "%I:%M %p", "%I.%M %p", "%I:%M%p", "%I.%M%p", "%I %p", "%I%p", "%H.%M", "%H:%M:%S")
_LEAD: Final = re.compile(r"^(?:the (?:answer|result|date|time|number) is|(?:it|that|this) is|it['\u2019]s):? ")
_NUMERALS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty"),
)
_NAMED_NUMBER: Final = re.compile(rf"(?:there (?:is|are) )?({'|'.join(_NUMERALS)})")
_AND: Final = re.compile(r"\band\b")
_Items = tuple[tuple[str, int], ...]  # items of a list and their numbers
_WEEKDAY: Final = re.compile(r"^(mon|tue|wed|thu|fri|sat|sun)[a-z]*\.?,?\s+(?:the\s+)?", re.IGNORECASE)
_ENDS: Final = " \t\n\r.,;:!?'\"\u201c\u201d\u2018\u2019`*"


def is_right(effect: Answer, answer: str, passed: int = 0) -> bool:
    """Return whether an answer is right.

    Args:
        effect: the expected answer.
        answer: the answer of the agent.
        passed: minutes on the phone's clock since the start of the task, for a time that goes on.

    Raises:
        ValueError: the kind of the effect is none of `KINDS`.
    """
    if effect.kind not in KINDS:
        raise ValueError(f"the kind of an answer is one of {', '.join(KINDS)}; got {effect.kind!r}")
    if not answer.strip():
        return False
    values = [effect.value, *effect.accept]
    if effect.goes_on:
        values += [_later(effect.value, minutes) for minutes in range(1, passed + 1)]
    return any(_same(effect.kind, value, answer) for value in values)


def _later(clock: str, minutes: int) -> str:
    return f"{datetime.strptime(clock, '%H:%M') + timedelta(minutes=minutes):%H:%M}"


def _same(kind: str, value: Any, answer: str) -> bool:
    if kind == "number":
        read = read_number(answer)
        return read is not None and abs(read - float(value)) < 1e-6 * max(1.0, abs(float(value)))
    if kind == "date":
        return _read_date_near(answer, read_date(str(value))) == read_date(str(value)) is not None
    if kind == "time":
        return read_time(answer) == read_time(str(value)) is not None
    if kind == "list":
        return _is_list(sorted(map(_plain, value)), answer.casefold())
    return _plain(str(value)) == _plain(answer)


def _plain(text: str) -> str:
    """Return a text without case, quotes, articles in front, "it is" and marks at its ends."""
    words = _LEAD.sub("", " ".join(str(text).casefold().split()).strip(_ENDS)).strip(_ENDS)
    digits = re.sub(r"[\s()\-]", "", words)
    if re.fullmatch(r"\+?\d{5,}", digits):
        return digits
    return re.sub(r"^(the|an|a) ", "", words)


def _is_list(items: list[str], text: str) -> bool:
    """Return whether a text lists these items in any order: each "and" is a part of an item, or stands before one."""
    text = "\n".join(re.sub(r"^\s*(?:[-*\u2022]|\d+[.)])\s+", "", line) for line in text.splitlines())
    lengths = {1, *(1 + len(_AND.findall(item)) for item in items)}
    open_items = {tuple(sorted(Counter(items).items()))}  # what may still be to come: several only if items overlap
    for part in re.split(r"[,;\n]", text):
        open_items = _after(_AND.split(part), lengths, open_items)
        if not open_items:
            return False
    return () in open_items


def _after(words: list[str], lengths: set[int], open_items: set[_Items]) -> set[_Items]:
    """Return what may be to come after words between which there was "and": each run of them is one item."""
    states: list[set[_Items]] = [open_items, *(set() for _ in words)]
    for start in range(len(words)):
        for length in lengths:
            if states[start] and start + length <= len(words):
                item = _plain("and".join(words[start : start + length]))
                states[start + length].update(states[start] if not item else _without(states[start], item))
    return states[-1]


def _without(open_items: set[_Items], item: str) -> Iterator[_Items]:
    for items in open_items:
        counts = Counter(dict(items))
        if counts[item]:
            yield tuple(sorted((counts - Counter([item])).items()))


def read_number(text: str) -> float | None:
    """Return the only number in a text, or None if there is none or more than one.

    Commas and spaces group digits by three, as in 12,000.

    >>> read_number("It is 1,250.50."), read_number("7,02"), read_number("six"), read_number("3 of 4")
    (1250.5, 7.02, 6.0, None)
    >>> read_number("12 000"), read_number("1 2"), read_number("1, 2")
    (12000.0, None, None)
    """
    numbers = list(_NUMBER.finditer(text))
    if not numbers:
        named = _NAMED_NUMBER.fullmatch(_bare(text).casefold())
        return float(_NUMERALS.index(named[1])) if named else None
    if len(numbers) != 1:
        return None
    whole, point, comma = numbers[0].group("whole", "point", "comma")
    digits = re.sub(r"[,\u00a0 ]", "", whole)
    return float(f"{digits}.{point or comma or 0}")


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
