"""Tasks of Clock: cities, timer, stopwatch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Above, Answer, ColumnValue, DeleteRow, InsertRow, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script, is_item
from turncredit.envs.android.tasks.steps import Step, answer, call, steps, tap
from turncredit.envs.android.tasks.template import Draw, DrawFunction, EffectsFunction, Params, TaskTemplate
from turncredit.phone.apps.clock import CITIES, city_time
from turncredit.phone.toolkit.app import to_clock

PACKAGE: Final = "com.android.deskclock"
_APPS: Final = ("Clock",)


def open_tab(hand: Hand, name: str) -> Script:
    """Show a part of the app: Alarm, Clock, Timer or Stopwatch."""
    yield from hand.open("Clock")
    yield from hand.tap(name, scroll=False, where=is_item)


# Cities


def _city_draw(shown: bool) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        rows = {row["name"]: row["_id"] for row in d.rows(PACKAGE, "cities")}
        city = d.random.pick([name for name in CITIES if (name in rows) == shown])
        return {"city": city, "id": rows.get(city, 0)}

    return draw


def _ask_city_draw(d: Draw) -> Params | None:
    city = d.random.pick([row["name"] for row in d.rows(PACKAGE, "cities")])
    return {"city": city, "time": f"{city_time(d.phone.now, city):%H:%M}"}


def _ask_city_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_tab(hand, "Clock")
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


def _timer_solve(button: str) -> Step:
    def solve(hand: Hand, p: Params) -> Iterator[str]:
        yield from open_tab(hand, "Timer")
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


def _timer_button_solve(button: str) -> Step:
    return steps(call(open_tab, "Timer"), tap(button))


# Stopwatch


def _stopwatch_draw(running: bool) -> DrawFunction:
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


def _stopwatch_solve(button: str) -> Step:
    return steps(call(open_tab, "Stopwatch"), tap(button))


def _row(table: str, **values: ColumnValue) -> EffectsFunction:
    return lambda p: [UpdateRow(PACKAGE, table, 1, values)]


TEMPLATES: Final = (
    TaskTemplate(
        "ClockAddCity",
        "Show the time of {city} in Clock.",
        _city_draw(False),
        lambda p: [InsertRow(PACKAGE, "cities", {"name": p["city"]})],
        steps(call(open_tab, "Clock"), tap("Add city", scroll=False), tap("{city}")),
        _APPS,
    ),
    TaskTemplate(
        "ClockRemoveCity",
        ("Remove {city} from the cities in Clock.", "I no longer need the time of {city} in Clock."),
        _city_draw(True),
        lambda p: [DeleteRow(PACKAGE, "cities", p["id"])],
        steps(call(open_tab, "Clock"), tap("Remove {city}")),
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
        steps(
            call(open_tab, "Stopwatch"),
            answer(lambda hand, p: next(text for text in hand.texts() if text.count(":") == 2)),
        ),
        _APPS,
    ),
    TaskTemplate(
        "ClockAskCity",
        "What time is it in {city}? It is one of the cities in Clock.",
        _ask_city_draw,
        lambda p: [Answer("time", p["time"], goes_on=True)],
        _ask_city_solve,
        _APPS,
        split="held_out",
    ),
)
