"""Tasks of Clock: alarms, cities, timer, stopwatch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from turnwise.envs.android.apps.clock import CITIES, DAYS
from turnwise.envs.android.phone.app import to_clock
from turnwise.envs.android.tasks.effects import Above, Answer, DeleteRow, Effect, Infeasible, InsertRow, UpdateRow
from turnwise.envs.android.tasks.hand import Hand, Lost, Script
from turnwise.envs.android.tasks.template import Draw, Params, TaskTemplate

PACKAGE: Final = "com.android.deskclock"
_APPS: Final = ("Clock",)
_LABELS: Final = (
    "Train",
    "Call the bank",
    "Yoga",
    "Bread in the oven",
    "Night bus",
    "Rehearsal",
    "Laundry",
    "Feed the cat",
)
_FULL: Final = dict(
    zip(DAYS, ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"), strict=True)
)


def new_time(d: Draw) -> str:
    """Draw a time at which no alarm is set."""
    known = {row["time"] for row in d.rows(PACKAGE, "alarms")}
    times = (f"{d.random.between(0, 23):02d}:{d.random.pick(range(0, 60, 5)):02d}" for _ in range(100))
    return next(time for time in times if time not in known)


def _tab(hand: Hand, name: str) -> Script:
    """Show a part of the app: Alarm, Clock, Timer or Stopwatch."""
    yield from hand.open("Clock")
    yield from hand.tap(name, scroll=False, where=lambda element: element.kind == "item")


def _edit(hand: Hand, time: str) -> Script:
    """Open the form of the alarm at a time."""
    yield from _tab(hand, "Alarm")
    switch = yield from hand.look_for(time, where=lambda element: element.checkable)
    if switch.index + 1 >= len(hand.screen):
        raise Lost(f"the alarm at {time} has no row to edit it")
    yield from hand.tap_element(hand.screen[switch.index + 1])


# Alarms


def _add_draw(d: Draw) -> Params | None:
    days = [day for day in DAYS if d.random.chance(0.4)] or [d.random.pick(DAYS)]
    label = d.random.pick(_LABELS)
    return {"time": new_time(d), "label": label, "days": days, "names": [_FULL[day] for day in days]}


def _added(*columns: str) -> Any:
    def effects(p: Params) -> list[Effect]:
        values = {"time": p["time"], "enabled": 1}
        values |= {"label": p["label"]} if "label" in columns else {}
        values |= {"days": " ".join(p["days"])} if "days" in columns else {}
        return [InsertRow(PACKAGE, "alarms", values)]

    return effects


def _add_solve(*columns: str) -> Any:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from _tab(hand, "Alarm")
        yield from hand.tap("Add alarm", scroll=False)
        yield from hand.pick_time("Time", p["time"])
        if "label" in columns:
            yield from hand.fill("Label", p["label"])
        if "days" in columns:
            for day in DAYS:
                yield from hand.switch(day, day in p["days"])
        yield from hand.tap("Save")
        yield from hand.done()

    return solve


def _flip_draw(d: Draw) -> Params | None:
    row = d.random.pick(d.rows(PACKAGE, "alarms"))
    on = not row["enabled"]
    return {"id": row["_id"], "time": row["time"], "on": on, "state": "on" if on else "off"}


def _flip_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Alarm")
    yield from hand.switch(p["time"], p["on"])
    yield from hand.done()


def _known_draw(d: Draw) -> Params | None:
    row = d.random.pick(d.rows(PACKAGE, "alarms"))
    return {"id": row["_id"], "time": row["time"]}


def _delete_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _edit(hand, p["time"])
    yield from hand.tap("Delete alarm", scroll=False)
    yield from hand.tap("Delete", scroll=False)
    yield from hand.done()


def _move_draw(d: Draw) -> Params | None:
    p = _known_draw(d)
    return {**p, "new": new_time(d)} if p else None


def _move_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _edit(hand, p["time"])
    yield from hand.pick_time("Time", p["new"])
    yield from hand.tap("Save")
    yield from hand.done()


def _label_draw(d: Draw) -> Params | None:
    p = _known_draw(d)
    return {**p, "label": d.random.pick(_LABELS)} if p else None


def _label_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _edit(hand, p["time"])
    yield from hand.fill("Label", p["label"])
    yield from hand.tap("Save")
    yield from hand.done()


def _all_off_draw(d: Draw) -> Params | None:
    on = [row["_id"] for row in d.rows(PACKAGE, "alarms", enabled=1)]
    return {"ids": on} if len(on) > 1 else None


def _all_off_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Alarm")
    for _ in p["ids"]:
        switch = next((element for element in hand.screen if element.checkable and element.checked), None)
        if switch is not None:
            yield from hand.tap_element(switch)
    yield from hand.done()


def _no_alarm_draw(d: Draw) -> Params | None:
    return {"time": new_time(d)}


def _no_alarm_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Alarm")
    yield from hand.infeasible()


def _count_draw(d: Draw) -> Params | None:
    return {"count": len(d.rows(PACKAGE, "alarms", enabled=1))}


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Alarm")
    yield from hand.answer(sum(element.checkable and element.checked for element in hand.screen))


def _when_draw(d: Draw) -> Params | None:
    rows = d.rows(PACKAGE, "alarms")
    labels = [row["label"] for row in rows]
    row = d.pick([row for row in rows if row["label"] and labels.count(row["label"]) == 1])
    return {"label": row["label"], "time": row["time"]} if row else None


def _when_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Alarm")
    for i, element in enumerate(hand.screen):
        if any(text.startswith(f"{p['label']}, ") for text in element.texts) and i:
            yield from hand.answer(hand.screen[i - 1].texts[0])
    raise Lost(f"no alarm is labelled {p['label']}")


# Cities


def _city_draw(shown: bool) -> Any:
    def draw(d: Draw) -> Params | None:
        rows = {row["name"]: row["_id"] for row in d.rows(PACKAGE, "cities")}
        city = d.random.pick([name for name in CITIES if (name in rows) == shown])
        return {"city": city, "id": rows.get(city, 0)}

    return draw


def _add_city_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Clock")
    yield from hand.tap("Add city", scroll=False)
    yield from hand.tap(p["city"])
    yield from hand.done()


def _remove_city_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Clock")
    yield from hand.tap(f"Remove {p['city']}")
    yield from hand.done()


def _ask_city_draw(d: Draw) -> Params | None:
    city = d.random.pick([row["name"] for row in d.rows(PACKAGE, "cities")])
    now = d.phone.now
    hour = (now.hour + CITIES[city] - CITIES["Berlin"]) % 24
    return {"city": city, "time": f"{hour:02d}:{now.minute:02d}"}


def _ask_city_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Clock")
    yield from hand.look_for(p["city"])
    yield from hand.answer(hand.after(p["city"]).partition(",")[0])


# Timer


def _timer_draw(d: Draw) -> Params | None:
    hours, minutes, seconds = d.random.between(0, 2), d.random.between(1, 59), 5 * d.random.between(0, 11)
    parts = [f"{n} {word}" for n, word in ((hours, "h"), (minutes, "min"), (seconds, "s")) if n]
    return {
        "digits": f"{hours:02d}{minutes:02d}{seconds:02d}".lstrip("0"),
        "length": " ".join(parts),
        "seconds": hours * 3600 + minutes * 60 + seconds,
    }


def _timer_solve(button: str) -> Any:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from _tab(hand, "Timer")
        digits = next((text for text in hand.texts() if text.endswith("s") and "h " in text), "")
        typed = "".join(c for c in digits if c.isdigit()).lstrip("0")
        for _ in range(len(typed)):
            yield from hand.tap("Delete digit", scroll=False)
        for digit in p["digits"]:
            yield from hand.tap(digit, scroll=False, where=lambda element: element.kind != "text")
        yield from hand.tap(button)
        yield from hand.done()

    return solve


def _running_timer_draw(d: Draw) -> Params | None:
    seconds = 60 * d.random.between(5, 90)
    left = seconds - d.random.between(10, 200)
    d.update(PACKAGE, "timer", 1, duration=seconds, left=left, ends=to_clock(d.phone.now) + left)
    return {"seconds": seconds}


def _timer_button_solve(button: str) -> Any:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from _tab(hand, "Timer")
        yield from hand.tap(button)
        yield from hand.done()

    return solve


# Stopwatch


def _stopwatch_draw(running: bool) -> Any:
    def draw(d: Draw) -> Params | None:
        seconds = d.random.between(20, 3000)
        if running:
            d.update(PACKAGE, "stopwatch", 1, started=to_clock(d.phone.now) - seconds)
        return {"seconds": seconds}

    return draw


def _stopped_draw(d: Draw) -> Params | None:
    seconds = d.random.between(20, 3000)
    d.update(PACKAGE, "stopwatch", 1, elapsed=seconds)
    return {"seconds": seconds, "time": f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"}


def _stopwatch_solve(button: str) -> Any:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from _tab(hand, "Stopwatch")
        yield from hand.tap(button)
        yield from hand.done()

    return solve


def _ask_stopwatch_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _tab(hand, "Stopwatch")
    yield from hand.answer(next(text for text in hand.texts() if text.count(":") == 2))


def _row(table: str, **values: Any) -> Any:
    return lambda p: [UpdateRow(PACKAGE, table, 1, values)]


TEMPLATES: Final = (
    TaskTemplate(
        "ClockAddAlarm",
        ("Set an alarm for {time}.", "Wake me at {time}: add an alarm, for one time and without a label."),
        _add_draw,
        _added(),
        _add_solve(),
        _APPS,
        complexity=1.4,
    ),
    TaskTemplate(
        "ClockAddLabelledAlarm",
        'Add an alarm at {time} with the label "{label}".',
        _add_draw,
        _added("label"),
        _add_solve("label"),
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "ClockAddRepeatingAlarm",
        "Add an alarm at {time} that repeats on {names}.",
        _add_draw,
        _added("days"),
        _add_solve("days"),
        _APPS,
        complexity=2.6,
    ),
    TaskTemplate(
        "ClockSwitchAlarm",
        ("Turn {state} the alarm at {time}.", "The alarm of {time} should be {state}."),
        _flip_draw,
        lambda p: [UpdateRow(PACKAGE, "alarms", p["id"], {"enabled": int(p["on"])})],
        _flip_solve,
        _APPS,
    ),
    TaskTemplate(
        "ClockAllAlarmsOff",
        "Turn off all my alarms, but do not delete them.",
        _all_off_draw,
        lambda p: [UpdateRow(PACKAGE, "alarms", key, {"enabled": 0}) for key in p["ids"]],
        _all_off_solve,
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "ClockDeleteAlarm",
        ("Delete the alarm at {time}.", "I do not need the {time} alarm any more, remove it."),
        _known_draw,
        lambda p: [DeleteRow(PACKAGE, "alarms", p["id"])],
        _delete_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "ClockMoveAlarm",
        "Change the alarm at {time} to {new}. It should be on.",
        _move_draw,
        lambda p: [UpdateRow(PACKAGE, "alarms", p["id"], {"time": p["new"], "enabled": 1})],
        _move_solve,
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "ClockLabelAlarm",
        'Give the alarm at {time} the label "{label}", and leave it on.',
        _label_draw,
        lambda p: [UpdateRow(PACKAGE, "alarms", p["id"], {"label": p["label"], "enabled": 1})],
        _label_solve,
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "ClockAddCity",
        "Show the time of {city} in Clock.",
        _city_draw(False),
        lambda p: [InsertRow(PACKAGE, "cities", {"name": p["city"]})],
        _add_city_solve,
        _APPS,
    ),
    TaskTemplate(
        "ClockRemoveCity",
        ("Remove {city} from the cities in Clock.", "I no longer need the time of {city} in Clock."),
        _city_draw(True),
        lambda p: [DeleteRow(PACKAGE, "cities", p["id"])],
        _remove_city_solve,
        _APPS,
    ),
    TaskTemplate(
        "ClockSetTimer",
        "Set a timer of {length}. Do not start it.",
        _timer_draw,
        lambda p: [UpdateRow(PACKAGE, "timer", 1, {"duration": p["seconds"], "left": p["seconds"], "ends": 0})],
        _timer_solve("Set timer"),
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "ClockStartTimer",
        ("Start a timer of {length}.", "Tell me when {length} are over: run a timer."),
        _timer_draw,
        lambda p: [UpdateRow(PACKAGE, "timer", 1, {"duration": p["seconds"], "left": p["seconds"], "ends": Above(0)})],
        _timer_solve("Start"),
        _APPS,
        complexity=2.0,
    ),
    TaskTemplate(
        "ClockPauseTimer",
        "A timer is running. Pause it.",
        _running_timer_draw,
        lambda p: [UpdateRow(PACKAGE, "timer", 1, {"left": Above(0), "ends": 0})],
        _timer_button_solve("Pause"),
        _APPS,
        split="held_out",
    ),
    TaskTemplate(
        "ClockDeleteTimer",
        "Remove the running timer.",
        _running_timer_draw,
        lambda p: [UpdateRow(PACKAGE, "timer", 1, {"duration": 0, "left": 0, "ends": 0})],
        _timer_button_solve("Delete"),
        _APPS,
    ),
    TaskTemplate(
        "ClockStartStopwatch",
        ("Run the stopwatch.", "Start the stopwatch in Clock."),
        _stopwatch_draw(False),
        _row("stopwatch", started=Above(0)),
        _stopwatch_solve("Start"),
        _APPS,
    ),
    TaskTemplate(
        "ClockPauseStopwatch",
        ("Pause the stopwatch.", "Stop the running stopwatch, but keep its time."),
        _stopwatch_draw(True),
        _row("stopwatch", started=0, elapsed=Above(0)),
        _stopwatch_solve("Pause"),
        _APPS,
    ),
    TaskTemplate(
        "ClockResetStopwatch",
        "Set the stopwatch back to zero.",
        _stopped_draw,
        _row("stopwatch", elapsed=0),
        _stopwatch_solve("Reset"),
        _APPS,
    ),
    TaskTemplate(
        "ClockAskStopwatch",
        "What does the stopped stopwatch show? Answer as hh:mm:ss.",
        _stopped_draw,
        lambda p: [Answer("time", p["time"])],
        _ask_stopwatch_solve,
        _APPS,
    ),
    TaskTemplate(
        "ClockCountAlarms",
        "How many of my alarms are turned on? Answer with a number.",
        _count_draw,
        lambda p: [Answer("number", p["count"])],
        _count_solve,
        _APPS,
    ),
    TaskTemplate(
        "ClockAskAlarm",
        'At what time is the alarm labelled "{label}" set?',
        _when_draw,
        lambda p: [Answer("time", p["time"])],
        _when_solve,
        _APPS,
    ),
    TaskTemplate(
        "ClockAskCity",
        "What time is it in {city}? It is one of the cities in Clock.",
        _ask_city_draw,
        lambda p: [Answer("time", p["time"])],
        _ask_city_solve,
        _APPS,
        split="held_out",
    ),
    TaskTemplate(
        "ClockDeleteMissingAlarm",
        "Delete the alarm at {time}.",
        _no_alarm_draw,
        lambda p: [Infeasible()],
        _no_alarm_solve,
        _APPS,
        tags=("infeasible",),
    ),
)
