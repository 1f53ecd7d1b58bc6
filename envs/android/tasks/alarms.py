"""Tasks of Clock about alarms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.elements import ScreenElement
from turncredit.envs.android.tasks.clock import PACKAGE, open_tab
from turncredit.envs.android.tasks.effects import Answer, DeleteRow, Effect, Infeasible, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Lost, Script
from turncredit.envs.android.tasks.steps import Step, call, fill, give_up, pick_time, steps, tap
from turncredit.envs.android.tasks.template import Draw, EffectsFunction, Params, TaskTemplate
from turncredit.phone.apps.clock import DAYS

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
    taken = {row["time"] for row in d.rows(PACKAGE, "alarms")}
    times = (f"{d.random.between(0, 23):02d}:{d.random.pick(range(0, 60, 5)):02d}" for _ in range(100))
    return next(time for time in times if time not in taken)


def open_alarm(hand: Hand, time: str) -> Script:
    """Open the form of the alarm at a time."""
    yield from open_tab(hand, "Alarm")
    switch = yield from hand.look_for(time, where=lambda element: element.checkable)
    below = hand.screen[switch.index + 1 :]
    if not below or below[0].kind != "item" or below[0].node.top > switch.node.bottom + 50:
        yield "scroll down"
        switch = yield from hand.look_for(time, where=lambda element: element.checkable)
    yield from hand.tap_element(hand.screen[switch.index + 1])


def _add_draw(d: Draw) -> Params | None:
    days = [day for day in DAYS if d.random.chance(0.4)] or [d.random.pick(DAYS)]
    label = d.random.pick(_LABELS)
    return {"time": new_time(d), "label": label, "days": days, "names": [_FULL[day] for day in days]}


def _added(*columns: str) -> EffectsFunction:
    def effects(p: Params) -> list[Effect]:
        values = {"time": p["time"], "enabled": 1}
        values |= {"label": p["label"]} if "label" in columns else {}
        values |= {"days": " ".join(p["days"])} if "days" in columns else {}
        return [InsertRow(PACKAGE, "alarms", values)]

    return effects


def _add_solve(*columns: str) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from open_tab(hand, "Alarm")
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


def _known_draw(d: Draw) -> Params | None:
    row = d.random.pick(d.rows(PACKAGE, "alarms"))
    return {"id": row["_id"], "time": row["time"]}


def _move_draw(d: Draw) -> Params | None:
    p = _known_draw(d)
    return {**p, "new": new_time(d)} if p else None


def _label_draw(d: Draw) -> Params | None:
    p = _known_draw(d)
    return {**p, "label": d.random.pick(_LABELS)} if p else None


def _all_off_draw(d: Draw) -> Params | None:
    on = [row["_id"] for row in d.rows(PACKAGE, "alarms", enabled=1)]
    return {"ids": on} if len(on) > 1 else None


def _all_off_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_tab(hand, "Alarm")
    while switch := (yield from _next_on(hand)):
        yield from hand.tap_element(switch)
    yield from hand.done()


def _next_on(hand: Hand) -> Finding:
    """Return the switch of an alarm that is on; None if all are off."""

    def found() -> ScreenElement | None:
        return next((element for element in hand.screen if element.checkable and element.checked), None)

    return found() or (yield from hand.scroll_until(found))


def _count_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_tab(hand, "Alarm")
    times = yield from hand.read_all(lambda e: e.texts if e.checkable and e.checked else None)
    yield from hand.answer(len(times))


def _when_draw(d: Draw) -> Params | None:
    rows = d.rows(PACKAGE, "alarms")
    labels = [row["label"] for row in rows]
    row = d.pick([row for row in rows if row["label"] and labels.count(row["label"]) == 1])
    return {"label": row["label"], "time": row["time"]} if row else None


def _when_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_tab(hand, "Alarm")

    def found() -> ScreenElement | None:
        labelled = (e for e in hand.screen if any(text.startswith(f"{p['label']}, ") for text in e.texts))
        return next((e for e in labelled if e.index), None)

    row = found() or (yield from hand.scroll_until(found))
    if row is None:
        raise Lost(f"no alarm is labelled {p['label']}")
    yield from hand.answer(hand.screen[row.index - 1].texts[0])


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
        steps(call(open_tab, "Alarm"), lambda hand, p: hand.switch(p["time"], p["on"])),
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
        steps(call(open_alarm, "{time}"), tap("Delete alarm", scroll=False), tap("Delete", scroll=False)),
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "ClockMoveAlarm",
        "Change the alarm at {time} to {new}. It should be on.",
        _move_draw,
        lambda p: [UpdateRow(PACKAGE, "alarms", p["id"], {"time": p["new"], "enabled": 1})],
        steps(call(open_alarm, "{time}"), pick_time("Time", "{new}"), tap("Save")),
        _APPS,
        complexity=1.8,
    ),
    TaskTemplate(
        "ClockLabelAlarm",
        'Give the alarm at {time} the label "{label}", and leave it on.',
        _label_draw,
        lambda p: [UpdateRow(PACKAGE, "alarms", p["id"], {"label": p["label"], "enabled": 1})],
        steps(call(open_alarm, "{time}"), fill("Label", "{label}"), tap("Save")),
        _APPS,
        complexity=1.4,
        split="held_out",
    ),
    TaskTemplate(
        "ClockCountAlarms",
        "How many of my alarms are turned on? Answer with a number.",
        lambda d: {"count": len(d.rows(PACKAGE, "alarms", enabled=1))},
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
        "ClockDeleteMissingAlarm",
        "Delete the alarm at {time}.",
        lambda d: {"time": new_time(d)},
        lambda p: [Infeasible()],
        steps(call(open_tab, "Alarm"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
)
