"""Tasks of Calendar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from typing import Final

from turncredit.envs.android.tasks.calendar_events import (
    NOTES,
    PACKAGE,
    PLACES,
    TITLES,
    fill_form,
    go_to,
    once,
    open_event,
    read_day,
    say,
)
from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Hand
from turncredit.envs.android.tasks.steps import answer, call, fill, give_up, start, steps, tap
from turncredit.envs.android.tasks.template import Draw, Params, TaskTemplate
from turncredit.phone.apps.calendar_events import CALENDARS, REPEATS
from turncredit.phone.content.event_times import by_day, read_times
from turncredit.phone.toolkit.tables import Row

_APPS: Final = ("Calendar",)


# New events


def _new(d: Draw, ahead: int) -> Params:
    minutes = d.random.pick((15, 30, 45, 60, 90))
    hour = d.random.between(8, 20)
    start = d.phone.now.replace(hour=hour, minute=0, second=0) + timedelta(days=ahead)
    end = start + timedelta(minutes=minutes)
    p = {"title": d.random.pick(TITLES), "notes": d.random.pick(NOTES), "minutes": minutes, "day": say(start.date())}
    p |= {"start": f"{start:%Y-%m-%d %H:%M}", "end": f"{end:%Y-%m-%d %H:%M}", "time": f"{start:%H:%M}"}
    return {**p, "weekday": f"{start:%A}"}


def _add_effects(p: Params) -> list[Effect]:
    columns = ("title", "start", "end", "notes", "location", "all_day", "repeat")
    values = {name: p[name] for name in columns if name in p}
    return [InsertRow(PACKAGE, "events", values, free=("reminder", "calendar"))]


_add_solve = steps(fill_form)


def _repeating_draw(d: Draw) -> Params | None:
    repeat = d.random.pick([name for name in REPEATS if name not in ("Does not repeat", "Every weekday")])
    p = _new(d, d.random.between(1, 25))
    return {**p, "choice": repeat, "repeat": REPEATS[repeat]}


def _whole_draw(d: Draw) -> Params | None:
    p = _new(d, d.random.between(2, 40))
    p |= {"start": f"{p['start'][:10]} 00:00", "end": f"{p['start'][:10]} 23:59", "all_day": 1}
    del p["notes"]
    return {**p, "location": d.random.pick(PLACES)}


_ADD_GOAL: Final = 'with the title "{title}" and the notes "{notes}". It lasts {minutes} minutes.'


# Changes


def _params(row: Row) -> Params:
    start, end = read_times(row)
    p = {"id": row["_id"], "title": row["title"], "day": say(start.date()), "time": f"{start:%H:%M}"}
    return {**p, "minutes": int((end - start).total_seconds()) // 60, "date": start.date().isoformat()}


def _once_draw(d: Draw) -> Params | None:
    row = d.pick(once(d))
    return _params(row) if row else None


def _delete_effects(p: Params) -> list[Effect]:
    return [DeleteRow(PACKAGE, "events", key) for key in p.get("ids", [p.get("id")])]


def _free_day(d: Draw) -> date:
    """Return a coming Saturday or Sunday without events."""
    today = d.phone.now.date()
    busy = by_day(d.rows(PACKAGE, "events"), today, today + timedelta(days=60))
    days = [today + timedelta(days=n) for n in range(1, 60)]
    return d.random.pick([day for day in days if day.weekday() > 4 and day not in busy])


def _put(d: Draw, day: date, count: int) -> list[tuple[int, str, str]]:
    """Put events on a day, and return id, title and start of each."""
    events = []
    for title, hour in zip(d.some(TITLES, count), sorted(d.some(range(8, 20), count)), strict=True):
        times = {"start": f"{day} {hour:02d}:00", "end": f"{day} {hour:02d}:45"}
        key = d.insert(PACKAGE, "events", title=title, reminder=-1, calendar="Personal", **times)
        events.append((key, title, f"{hour:02d}:00"))
    return events


def _delete_day_draw(d: Draw) -> Params | None:
    day = _free_day(d)
    ids = [key for key, _, _ in _put(d, day, d.random.between(2, 3))]
    return {"ids": ids, "day": say(day), "date": day.isoformat()}


def _delete_day_solve(hand: Hand, p: Params) -> Iterator[str]:
    events = yield from read_day(hand, p["date"])
    for title, _ in events:
        yield from hand.tap(title)
        yield from hand.tap("Delete event", scroll=False)
        yield from hand.tap("Delete")
    yield from hand.done()


def _move_draw(d: Draw) -> Params | None:
    row = d.pick([row for row in once(d) if row["start"][11:] >= "08:00"])
    if not row:
        return None
    p, (start, end) = _params(row), read_times(row)
    new = start.replace(hour=d.random.pick([hour for hour in range(8, 20) if hour != start.hour]), minute=0)
    times = {"start": f"{new:%Y-%m-%d %H:%M}", "end": f"{new + (end - start):%Y-%m-%d %H:%M}"}
    return {**p, **times, "new": f"{new:%H:%M}"}


def _move_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_event(hand, p["title"])
    yield from hand.tap("Edit event", scroll=False)
    yield from hand.pick_time("Start time", p["start"][11:])
    yield from hand.pick_time("End time", p["end"][11:])
    yield from hand.tap("Save", scroll=False)
    yield from hand.done()


def _place_draw(d: Draw) -> Params | None:
    row = d.pick(once(d))
    return {**_params(row), "location": d.random.pick([p for p in PLACES if p != row["location"]])} if row else None


def _skip_draw(d: Draw) -> Params | None:
    rows = [row for row in d.rows(PACKAGE, "events") if row["repeat"] == "every week"]
    row = d.random.pick(rows)
    start, _ = read_times(row)
    today = d.phone.now.date()
    ahead = (start.weekday() - today.weekday() - 1) % 7 + 1 + 7 * d.random.between(0, 2)
    day = today + timedelta(days=ahead)
    return {"id": row["_id"], "title": row["title"], "date": day.isoformat(), "day": say(day)}


# Questions


def _detail_draw(column: str) -> Callable[[Draw], Params | None]:
    def draw(d: Draw) -> Params | None:
        row = d.pick([row for row in once(d) if row[column]])
        return {**_params(row), "value": row[column]} if row else None

    return draw


def _place_ask_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_event(hand, p["title"])
    row = yield from hand.look_for("Where")
    yield from hand.answer(row.texts[0])


def _when(hand: Hand) -> str:
    return next(element.texts[0] for element in hand.screen if "When" in element.texts)


def _date_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_event(hand, p["title"])
    day = datetime.strptime(_when(hand).split(", ")[1], "%d %b %Y").date()
    yield from hand.answer(day.isoformat())


def _calendar_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_event(hand, p["title"])
    name = next(e.texts[0] for e in hand.screen if "Calendar" in e.texts and e.texts[0] in CALENDARS)
    yield from hand.answer(name)


def _day_draw(d: Draw) -> Params | None:
    day = _free_day(d)
    events = _put(d, day, d.random.between(2, 3))
    p = {"day": say(day), "date": day.isoformat(), "titles": [title for _, title, _ in events]}
    return {**p, "count": len(events), "first": events[0][1]}


def _list_solve(hand: Hand, p: Params) -> Iterator[str]:
    events = yield from read_day(hand, p["date"])
    yield from hand.answer(", ".join(title for title, _ in events))


def _first_solve(hand: Hand, p: Params) -> Iterator[str]:
    events = yield from read_day(hand, p["date"])
    yield from hand.answer(events[0][0])


def _busy_draw(d: Draw) -> Params | None:
    day = d.phone.now.date() + timedelta(days=d.random.between(1, 25))
    events = by_day(d.rows(PACKAGE, "events"), day, day).get(day, [])
    return {"day": say(day), "date": day.isoformat(), "count": len(events)} if events else None


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    events = yield from read_day(hand, p["date"])
    yield from hand.answer(len(events))


def _ask(kind: str, key: str) -> Callable[[Params], list[Effect]]:
    return lambda p: [Answer(kind, p[key])]


TEMPLATES: Final = (
    TaskTemplate(
        "CalendarAdd",
        ("Create a calendar event on {day} at {time} " + _ADD_GOAL, "Enter an event on {day}, {time}, " + _ADD_GOAL),
        lambda d: _new(d, d.random.between(1, 45)),
        _add_effects,
        _add_solve,
        _APPS,
        complexity=4.4,
    ),
    TaskTemplate(
        "CalendarAddTomorrow",
        "Create a calendar event for tomorrow at {time} " + _ADD_GOAL,
        lambda d: _new(d, 1),
        _add_effects,
        _add_solve,
        _APPS,
        complexity=4.4,
    ),
    TaskTemplate(
        "CalendarAddWeekday",
        "Create a calendar event for the coming {weekday} at {time} " + _ADD_GOAL,
        lambda d: _new(d, d.random.between(2, 6)),
        _add_effects,
        _add_solve,
        _APPS,
        complexity=4.4,
    ),
    TaskTemplate(
        "CalendarAddInTwoWeeks",
        "Create a calendar event in exactly two weeks from today at {time} " + _ADD_GOAL,
        lambda d: _new(d, 14),
        _add_effects,
        _add_solve,
        _APPS,
        complexity=4.4,
        split="held_out",
    ),
    TaskTemplate(
        "CalendarAddRepeating",
        "Create an event that takes place {repeat}, for the first time on {day} at {time}, " + _ADD_GOAL,
        _repeating_draw,
        _add_effects,
        _add_solve,
        _APPS,
        complexity=5.0,
    ),
    TaskTemplate(
        "CalendarAddWholeDay",
        'Enter an all-day event on {day} with the title "{title}" and the location "{location}".',
        _whole_draw,
        _add_effects,
        _add_solve,
        _APPS,
        complexity=3.2,
        split="held_out",
    ),
    TaskTemplate(
        "CalendarDelete",
        ('Delete the event "{title}" on {day}.', '"{title}" on {day} is cancelled. Remove it from the calendar.'),
        _once_draw,
        _delete_effects,
        steps(call(open_event, "{title}"), tap("Delete event", scroll=False), tap("Delete")),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "CalendarDeleteDay",
        "Delete all events on {day} from the calendar.",
        _delete_day_draw,
        _delete_effects,
        _delete_day_solve,
        _APPS,
        complexity=5.0,
    ),
    TaskTemplate(
        "CalendarMove",
        'Move "{title}" on {day} from {time} to {new}. It lasts as long as before.',
        _move_draw,
        lambda p: [UpdateRow(PACKAGE, "events", p["id"], {"start": p["start"], "end": p["end"]})],
        _move_solve,
        _APPS,
        complexity=3.0,
    ),
    TaskTemplate(
        "CalendarSetLocation",
        '"{title}" on {day} takes place somewhere else: set its location to "{location}".',
        _place_draw,
        lambda p: [UpdateRow(PACKAGE, "events", p["id"], {"location": p["location"]})],
        steps(
            call(open_event, "{title}"),
            tap("Edit event", scroll=False),
            fill("Location", "{location}"),
            tap("Save", scroll=False),
        ),
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "CalendarSkipDay",
        'The event "{title}" does not take place on {day}. Delete it on that day only, not on the others.',
        _skip_draw,
        lambda p: [UpdateRow(PACKAGE, "events", p["id"], {"skipped": p["date"]})],
        steps(call(go_to, "{date}"), tap("{title}"), tap("Delete event", scroll=False), tap("This day")),
        _APPS,
        complexity=3.0,
        split="held_out",
    ),
    TaskTemplate(
        "CalendarAskLocation",
        'Where does "{title}" on {day} take place? Answer with the location only.',
        _detail_draw("location"),
        _ask("text", "value"),
        _place_ask_solve,
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "CalendarAskTime",
        'At what time does "{title}" on {day} start?',
        _once_draw,
        _ask("time", "time"),
        steps(call(open_event, "{title}"), answer(lambda hand, p: _when(hand).split(" to ")[0].rpartition(", ")[2])),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "CalendarAskDate",
        'On which date is my event "{title}"?',
        _once_draw,
        _ask("date", "date"),
        _date_solve,
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "CalendarAskCalendar",
        'Which calendar does the event "{title}" belong to: Personal, Work or Family?',
        _detail_draw("calendar"),
        _ask("choice", "value"),
        _calendar_solve,
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "CalendarAskEvents",
        "Which events do I have on {day}? Answer with the titles, separated by commas.",
        _day_draw,
        _ask("list", "titles"),
        _list_solve,
        _APPS,
        complexity=3.0,
    ),
    TaskTemplate(
        "CalendarAskFirst",
        "What is my first event on {day}? Answer with its title.",
        _day_draw,
        _ask("text", "first"),
        _first_solve,
        _APPS,
        complexity=3.0,
        split="held_out",
    ),
    TaskTemplate(
        "CalendarAskCount",
        "How many events do I have on {day}? Count those of the whole day, too.",
        _busy_draw,
        _ask("number", "count"),
        _count_solve,
        _APPS,
        complexity=3.0,
    ),
    TaskTemplate(
        "CalendarMoveMissing",
        'Change the location of my event "{title}" to "{place}".',
        lambda d: {"title": d.random.pick(TITLES), "place": d.random.pick(PLACES)},
        lambda p: [Infeasible()],
        steps(start("Calendar"), tap("Search", scroll=False), fill("Search events", "{title}"), give_up()),
        _APPS,
        complexity=1.2,
        tags=("infeasible",),
    ),
)
