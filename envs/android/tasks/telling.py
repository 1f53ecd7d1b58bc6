"""Tasks over two apps: what one app knows is sent in a message, or written into a note."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Unpack

from turncredit.envs.android.tasks.alarms import open_alarm
from turncredit.envs.android.tasks.app_routes import (
    EXPENSES,
    NOTES_FOLDER,
    TASKS,
    add_note,
    reachable,
    send_message,
    sent,
)
from turncredit.envs.android.tasks.contacts import name_of
from turncredit.envs.android.tasks.effects import DeleteRow, Effect, FileIs, UpdateRow
from turncredit.envs.android.tasks.hand import Finding, Hand, Lost, Script, is_item
from turncredit.envs.android.tasks.steps import Step
from turncredit.envs.android.tasks.template import (
    Draw,
    DrawFunction,
    EffectsFunction,
    Params,
    TaskTemplate,
    TemplateOptions,
)

_CLOCK: Final = "com.android.deskclock"
_SETTINGS: Final = "com.android.settings"
_TITLES: Final = ("Phone facts", "About this phone", "Written down", "Good to know")


def _to(d: Draw) -> Params | None:
    people = reachable(d, 1)
    return {"to": name_of(people[0]), "number": people[0]["phone"]} if people else None


def _message(p: Params) -> list[Effect]:
    return [sent(p["number"], p["value"])]


def _tell(hand: Hand, p: Params, find: Finding) -> Script:
    value = yield from find
    yield from send_message(hand, p["to"], value)
    yield from hand.done()


# The network, the device's name


def _network_draw(d: Draw) -> Params | None:
    to, rows = _to(d), d.rows(_SETTINGS, "networks")
    chosen = d.random.pick(rows)
    for row in rows:
        d.update(_SETTINGS, "networks", row["_id"], connected=int(row is chosen), saved=int(row is chosen))
    return {**to, "value": chosen["name"]} if to else None


def _network(hand: Hand) -> Finding:
    yield from hand.open("Settings")
    yield from hand.tap("Network & internet")
    row = yield from hand.look_for("Connected")
    return row.texts[0]


def _name_draw(d: Draw) -> Params | None:
    name = f"{d.random.pick(('Silver', 'Garden', 'Office', 'Travel'))} phone {d.random.between(2, 99)}"
    d.set_setting("device_name", name, "global")
    return {"title": d.random.pick(_TITLES), "value": name}


def _note_name(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Settings")
    yield from hand.tap("About phone")
    row = yield from hand.look_for("Device name")
    yield from add_note(hand, p["title"], row.texts[1])
    yield from hand.done()


# Alarms, expenses, tasks


def _alarm_draw(d: Draw) -> Params | None:
    to = _to(d)
    label = d.random.pick(("Night train", "First shift", "Swimming", "Choir"))
    time = f"{d.random.between(11, 21)}:{d.random.pick(('05', '25', '50'))}"
    d.insert(_CLOCK, "alarms", time=time, label=label, days="", enabled=1)
    return {**to, "label": label, "value": time} if to else None


def _alarm(hand: Hand, label: str) -> Finding:
    yield from hand.open("Clock")
    yield from hand.tap("Alarm", scroll=False, where=is_item)
    row = yield from hand.look_for(f"{label}, Once")
    if not row.index:
        raise Lost(f"the time of the alarm {label} is not on the screen")
    return hand.screen[row.index - 1].texts[0]


def _expense_draw(d: Draw) -> Params | None:
    to = _to(d)
    goods = d.random.pick(("Hammock", "Kite", "Paddle", "Lantern", "Easel"))
    cents = d.random.between(300, 9900)
    d.insert(EXPENSES, "expenses", name=goods, amount=cents, category="Leisure", date=d.phone.now.date().isoformat())
    return {**to, "goods": goods, "value": f"{cents // 100}.{cents % 100:02d}"} if to else None


def _expense(hand: Hand, goods: str) -> Finding:
    yield from hand.open("Expenses")
    yield from hand.fill("Search expenses", goods)
    row = yield from hand.look_for(goods, where=is_item)
    return next(text for text in row.texts if text.endswith("\u20ac")).removesuffix("\u20ac").strip()


def _task_draw(d: Draw) -> Params | None:
    to = _to(d)
    done = d.random.pick(("Repot the lemon tree", "Rinse the aquarium", "Sharpen the skates", "Mend the kite"))
    key = d.insert(TASKS, "tasks", title=done, list=1, priority="None")
    return {**to, "title": done, "id": key} if to else None


def _task_effects(p: Params) -> list[Effect]:
    done = UpdateRow(TASKS, "tasks", p["id"], {"done": 1}, free=("completed",))
    return [done, sent(p["number"], f"{p['title']}: done")]


def _finish_and_tell(hand: Hand, p: Params) -> Iterator[str]:
    if not hand.met(0):
        yield from hand.open("Tasks")
        yield from hand.fill("Search tasks", p["title"])
        yield from hand.tap(p["title"], where=lambda element: element.kind == "checkbox")
    if not hand.met(1):
        yield from send_message(hand, p["to"], f"{p['title']}: done")
    yield from hand.done()


def _cancel_draw(d: Draw) -> Params | None:
    to = _to(d)
    time = f"{d.random.between(12, 20)}:{d.random.pick(('10', '35', '55'))}"
    key = d.insert(_CLOCK, "alarms", time=time, label="", days="", enabled=1)
    return {**to, "time": time, "id": key} if to else None


def _cancel(hand: Hand, p: Params) -> Iterator[str]:
    if not hand.met(0):
        yield from open_alarm(hand, p["time"])
        yield from hand.tap("Delete alarm", scroll=False)
        yield from hand.tap("Delete", scroll=False)
    if not hand.met(1):
        yield from send_message(hand, p["to"], "I will sleep in")
    yield from hand.done()


def _template(
    name: str,
    goal: str,
    draw: DrawFunction,
    effects: EffectsFunction,
    solve: Step,
    *apps: str,
    **more: Unpack[TemplateOptions],
) -> TaskTemplate:
    options: TemplateOptions = {"complexity": 2.2, **more}
    return TaskTemplate(name, goal, draw, effects, solve, apps, **options)


TEMPLATES: Final = (
    _template(
        "CrossTellNetwork",
        "Text {to} the name of the Wi-Fi network that this phone is connected to, and nothing else.",
        _network_draw,
        _message,
        lambda hand, p: _tell(hand, p, _network(hand)),
        "Settings",
        "Messages",
    ),
    _template(
        "CrossNoteDeviceName",
        'Write a note with the title "{title}" that holds the device name of this phone and nothing else.',
        _name_draw,
        lambda p: [FileIs(f"{NOTES_FOLDER}/{p['title']}.md", p["value"])],
        _note_name,
        "Settings",
        "Notes",
    ),
    _template(
        "CrossTellAlarm",
        'Send {to} the time of my alarm "{label}", as hh:mm and nothing else.',
        _alarm_draw,
        _message,
        lambda hand, p: _tell(hand, p, _alarm(hand, p["label"])),
        "Clock",
        "Messages",
    ),
    _template(
        "CrossTellExpense",
        'Send {to} the amount of the expense "{goods}", such as 12.50, and nothing else.',
        _expense_draw,
        _message,
        lambda hand, p: _tell(hand, p, _expense(hand, p["goods"])),
        "Expenses",
        "Messages",
        split="held_out",
    ),
    _template(
        "CrossFinishAndTell",
        'Tick off "{title}" in Tasks, and send {to} the message "{title}: done".',
        _task_draw,
        _task_effects,
        _finish_and_tell,
        "Tasks",
        "Messages",
        complexity=2.6,
    ),
    _template(
        "CrossCancelAlarm",
        'Delete the alarm at {time}, and send {to} the message "I will sleep in".',
        _cancel_draw,
        lambda p: [DeleteRow(_CLOCK, "alarms", p["id"]), sent(p["number"], "I will sleep in")],
        _cancel,
        "Clock",
        "Messages",
        complexity=2.8,
    ),
)
