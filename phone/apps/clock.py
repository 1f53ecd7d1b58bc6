"""Clock: alarms, a clock with other cities, a timer, a stopwatch. Times run with the phone's own clock."""

from __future__ import annotations

from datetime import datetime, timedelta

from turncredit.phone.toolkit.app import App, Context, to_clock
from turncredit.phone.toolkit.handlers import do, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.widgets import (
    Button,
    Card,
    Checkbox,
    Dialog,
    Empty,
    Fab,
    Grid,
    IconButton,
    Item,
    Row,
    Screen,
    Spacer,
    Switch,
    Tab,
    Text,
    TextField,
    Tile,
    TimeField,
    Widget,
    cancel_or,
)

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Hours ahead of UTC, the zone of the phone, all year.
CITIES = {"London": 0, "Berlin": 1, "Cairo": 2, "Nairobi": 3, "Delhi": 5, "Bangkok": 7, "Tokyo": 9, "Sydney": 10}
_TABS = (("Alarm", "alarm"), ("Clock", "clock"), ("Timer", "timer"), ("Stopwatch", "stopwatch"))
_LABELS = ("", "Gym", "School run", "Medicine", "Early shift", "Water the plants", "Market")


def fill(ctx: Context) -> None:
    """Draw a few alarms and cities."""
    random = ctx.random
    times = [f"{random.between(5, 10):02d}:{random.pick((0, 15, 30, 45)):02d}" for _ in range(random.between(3, 5))]
    rows: list[Columns] = []
    for time in sorted(set(times)):
        days = random.pick(("", "Mon Tue Wed Thu Fri", "Sat Sun", "Mon Wed Fri"))
        rows.append({"time": time, "label": random.pick(_LABELS), "days": days, "enabled": random.between(0, 1)})
    ctx.db.fill("alarms", rows)
    ctx.db.fill("cities", [{"name": name} for name in random.shuffled(list(CITIES))[:2]])
    empty(ctx)


def empty(ctx: Context) -> None:
    """Write the rows of a timer and a stopwatch that do not run."""
    ctx.db.fill("timer", [{"duration": 0, "left": 0, "ends": 0}])
    ctx.db.fill("stopwatch", [{"elapsed": 0, "started": 0}])


def clock(ctx: Context, tab: str = "Alarm") -> Screen:
    """One of the four parts."""
    chosen = str(ctx.get("tab", tab))
    bar = [Tab(name, do(show_tab, tab=name), name == chosen, icon) for name, icon in _TABS]
    parts = {"Alarm": _alarms, "Clock": _cities, "Timer": _timer, "Stopwatch": _stopwatch}
    fabs = {"Alarm": Fab("add", "Add alarm", opens(alarm, id=0)), "Clock": Fab("add", "Add city", opens(choose_city))}
    return Screen(chosen, parts[chosen](ctx), bar=bar, fab=fabs.get(chosen))


def show_tab(ctx: Context, tab: str) -> None:
    """Change to another part."""
    if ctx.get("digits", ""):
        ctx.set("digits", "")
    ctx.set("tab", tab)


def _alarms(ctx: Context) -> list[Widget]:
    rows = ctx.db.rows("alarms", order=lambda row: (row["time"], row["_id"]))
    if not rows:
        return [Empty("alarm", "No alarms")]
    cards: list[Widget] = [Spacer(8)]
    for row in rows:
        about = ", ".join(part for part in (row["label"], row["days"] or "Once") if part)
        change = do(switch_alarm, id=row["_id"])
        edit = Item(about, icon="edit", on_tap=opens(alarm, id=row["_id"]))
        cards.append(Card([Switch(row["time"], bool(row["enabled"]), change), edit]))
    return [*cards, Spacer(80)]


def switch_alarm(ctx: Context, id: int) -> None:
    """Turn an alarm on or off."""
    ctx.db.update("alarms", id, enabled=bool(ctx.value))
    plan(ctx)


def alarm(ctx: Context, id: int = 0, time: str = "07:00", label: str = "", weekdays: str = "") -> Screen:
    """The form of an alarm; `id` 0 is a new one, with the values that another app gives."""
    row = ctx.db.get("alarms", id) or {"time": time, "label": label, "days": weekdays}
    days = str(row["days"]).split()
    delete = [IconButton("delete", "Delete alarm", opens(confirm, id=id))] if id else []
    return Screen(
        "Edit alarm" if id else "Add alarm",
        [
            TimeField("time", "Time", row["time"]),
            TextField("label", "Label", row["label"], icon="label"),
            *[Checkbox(f"{name}", name in days, key=f"day_{name}") for name in DAYS],
        ],
        up_icon="close",
        actions=[*delete, IconButton("check", "Save", do(save_alarm, id=id), colour="primary")],
    )


def save_alarm(ctx: Context, id: int) -> None:
    """Write the form; an alarm that is saved is on."""
    days = " ".join(name for name in DAYS if ctx.form[f"day_{name}"])
    _write_alarm(ctx, id, str(ctx.form["time"]), str(ctx.form["label"]).strip(), days)
    ctx.back()


def _write_alarm(ctx: Context, id: int, time: str, label: str, days: str) -> None:
    values: Columns = {"time": time, "label": label, "days": days, "enabled": 1}
    if id:
        ctx.db.update("alarms", id, **values)
    else:
        ctx.db.insert("alarms", **values)
    plan(ctx)
    ctx.snackbar(f"Alarm set for {time}")


def set_alarm(
    ctx: Context, hour: int = -1, minutes: int = 0, message: str = "", days: str = "", skip_ui: bool = False
) -> None:
    """Set an alarm for another app, or open its form; days are numbers, Sunday is 1."""
    chosen = {
        DAYS[(int(number) + 5) % 7] for number in days.split(",") if number in ("1", "2", "3", "4", "5", "6", "7")
    }
    weekdays = " ".join(name for name in DAYS if name in chosen)
    if not (0 <= hour < 24 and 0 <= minutes < 60):
        ctx.open(alarm, label=message, weekdays=weekdays)
    elif skip_ui:
        _write_alarm(ctx, 0, f"{hour:02d}:{minutes:02d}", message, weekdays)
    else:
        ctx.open(alarm, time=f"{hour:02d}:{minutes:02d}", label=message, weekdays=weekdays)


def show_alarms(ctx: Context) -> None:
    """Show the alarms for another app."""
    ctx.open_once(clock)
    show_tab(ctx, "Alarm")


def confirm(ctx: Context, id: int) -> Dialog:
    """Ask whether an alarm is deleted."""
    return Dialog(
        "Delete this alarm?",
        buttons=cancel_or("Delete", do(delete_alarm, id=id), kind="danger"),
    )


def delete_alarm(ctx: Context, id: int) -> None:
    """Delete an alarm and leave its form."""
    ctx.db.delete("alarms", id)
    plan(ctx)
    ctx.back()


def plan(ctx: Context) -> None:
    """Let every alarm that is on ring at its next time."""
    ctx.cancel_later(ring)
    for row in ctx.db.rows("alarms", enabled=1):
        ctx.later(to_clock(_next(ctx.now, row["time"], str(row["days"]))) - to_clock(ctx.now), do(ring, id=row["_id"]))


def _next(start: datetime, time: str, days: str) -> datetime:
    hour, minute = map(int, time.split(":"))
    for ahead in range(8):
        moment = (start + timedelta(days=ahead)).replace(hour=hour, minute=minute, second=0)
        if moment > start and (not days or DAYS[moment.weekday()] in days):
            return moment
    return start + timedelta(days=7)


def ring(ctx: Context, id: int) -> None:
    """Post a notification; an alarm for one day is then off."""
    row = ctx.db.get("alarms", id)
    if row:
        ctx.notify("Alarm", f"{row['time']} {row['label']}".strip(), do(show_tab, tab="Alarm"), tag=f"alarm {id}")
        if not row["days"]:
            ctx.db.update("alarms", id, enabled=0)
        plan(ctx)


def _cities(ctx: Context) -> list[Widget]:
    moment = ctx.now
    body: list[Widget] = [
        Spacer(24),
        Text(f"{moment:%H:%M}", style="display", align="center", id="digital_clock"),
        Text(f"{moment:%A}, {moment.day} {moment:%B}", style="caption", align="center"),
        Spacer(24),
    ]
    for row in ctx.db.rows("cities"):
        there = city_time(moment, row["name"])
        remove = IconButton("close", f"Remove {row['name']}", do(remove_city, id=row["_id"]))
        body.append(Item(row["name"], f"{there:%H:%M}, {there:%A}", "pin", end=remove))
    return body


def city_time(moment: datetime, city: str) -> datetime:
    """Return the time in a city when the phone's clock shows `moment`."""
    return moment + timedelta(hours=CITIES[city])


def choose_city(ctx: Context) -> Screen:
    """The cities that are not shown yet."""
    shown = {row["name"] for row in ctx.db.rows("cities")}
    return Screen("Add city", [Item(c, icon="pin", on_tap=do(take_city, name=c)) for c in CITIES if c not in shown])


def take_city(ctx: Context, name: str) -> None:
    """Add a city."""
    ctx.db.insert("cities", name=name)
    ctx.back()


def remove_city(ctx: Context, id: int) -> None:
    """Remove a city."""
    ctx.db.delete("cities", id)


def _hms(seconds: int) -> str:
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def _state(ctx: Context, table: str) -> Columns:
    return dict(ctx.db.get(table, 1) or {})


def _timer(ctx: Context) -> list[Widget]:
    row = _state(ctx, "timer")
    if not row["duration"]:
        return _entry(ctx)
    left = max(0, row["ends"] - to_clock(ctx.now)) if row["ends"] else row["left"]
    go = Button("Pause", do(pause_timer), wide=True) if row["ends"] else Button("Start", do(start_timer), wide=True)
    return [
        Spacer(48),
        Text(_hms(left), style="display", align="center", id="timer_time"),
        Text(f"of {_hms(row['duration'])}", style="caption", align="center"),
        Spacer(48),
        Row([Button("Delete", do(delete_timer), kind="tonal", wide=True), go]),
    ]


def _entry(ctx: Context) -> list[Widget]:
    digits = str(ctx.get("digits", "")).rjust(6, "0")
    keys: list[Widget] = [
        Tile(key, do(type_digit, digit=key), kind="key")
        for key in ["1", "2", "3", "4", "5", "6", "7", "8", "9", "00", "0"]
    ]
    keys.append(Tile("", do(erase_digit), "backspace", kind="key", description="Delete digit"))
    return [
        Spacer(16),
        Text(f"{digits[:2]}h {digits[2:4]}m {digits[4:]}s", style="headline", align="center", id="timer_setup_time"),
        Spacer(16),
        Grid(keys, columns=3),
        Spacer(16),
        Row([Button("Set timer", do(set_timer), kind="tonal", wide=True), Button("Start", do(run_timer), wide=True)]),
    ]


def type_digit(ctx: Context, digit: str) -> None:
    """Put a digit behind the others."""
    ctx.set("digits", (str(ctx.get("digits", "")) + digit).lstrip("0")[-6:])


def erase_digit(ctx: Context) -> None:
    """Take the last digit away."""
    ctx.set("digits", str(ctx.get("digits", ""))[:-1])


def set_timer(ctx: Context) -> None:
    """Set the timer without starting it."""
    digits = str(ctx.get("digits", "")).rjust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:])
    if seconds:
        ctx.db.update("timer", 1, duration=seconds, left=seconds, ends=0)
        ctx.set("digits", "")


def ask_timer(ctx: Context, length: int = 0, skip_ui: bool = False) -> None:
    """Show the timer for another app, set to its seconds; with `skip_ui` it runs at once."""
    ctx.open_once(clock)
    show_tab(ctx, "Timer")
    if 0 < length < 360_000:
        delete_timer(ctx)
        ctx.set("digits", _hms(length).replace(":", "").lstrip("0"))
        run_timer(ctx) if skip_ui else set_timer(ctx)


def run_timer(ctx: Context) -> None:
    """Set the timer and start it."""
    set_timer(ctx)
    if _state(ctx, "timer")["duration"]:
        start_timer(ctx)


def start_timer(ctx: Context) -> None:
    """Let the timer run."""
    left = _state(ctx, "timer")["left"]
    ctx.db.update("timer", 1, ends=to_clock(ctx.now) + left)
    ctx.later(left, do(end_timer))


def pause_timer(ctx: Context) -> None:
    """Stop the timer for a while."""
    ctx.db.update("timer", 1, left=max(0, _state(ctx, "timer")["ends"] - to_clock(ctx.now)), ends=0)
    ctx.cancel_later(end_timer)


def delete_timer(ctx: Context) -> None:
    """Remove the timer."""
    ctx.db.update("timer", 1, duration=0, left=0, ends=0)
    ctx.cancel_later(end_timer)


def end_timer(ctx: Context) -> None:
    """Tell that the time is up."""
    ctx.db.update("timer", 1, left=0, ends=0)
    ctx.notify("Timer", "Time is up", do(show_tab, tab="Timer"), tag="timer")


def _elapsed(ctx: Context) -> int:
    row = _state(ctx, "stopwatch")
    return int(row["elapsed"] + (to_clock(ctx.now) - row["started"] if row["started"] else 0))


def _stopwatch(ctx: Context) -> list[Widget]:
    row = _state(ctx, "stopwatch")
    running = bool(row["started"])
    laps = [Item(f"Lap {lap['_id']}", trailing=_hms(lap["at"])) for lap in reversed(ctx.db.rows("laps"))]
    second = (
        Button("Lap", do(lap_now), "tonal", wide=True) if running else Button("Reset", do(reset), "tonal", wide=True)
    )
    first = Button("Pause", do(pause), wide=True) if running else Button("Start", do(start), wide=True)
    head: list[Widget] = [Spacer(48), Text(_hms(_elapsed(ctx)), style="display", align="center", id="stopwatch_time")]
    return [*head, Spacer(48), Row([second, first]), Spacer(16), *laps]


def start(ctx: Context) -> None:
    """Start the stopwatch, or go on."""
    ctx.db.update("stopwatch", 1, started=to_clock(ctx.now))


def pause(ctx: Context) -> None:
    """Stop the stopwatch for a while."""
    ctx.db.update("stopwatch", 1, elapsed=_elapsed(ctx), started=0)


def reset(ctx: Context) -> None:
    """Go back to zero."""
    ctx.db.update("stopwatch", 1, elapsed=0, started=0)
    for lap in ctx.db.rows("laps"):
        ctx.db.delete("laps", lap["_id"])


def lap_now(ctx: Context) -> None:
    """Note the time of a lap."""
    ctx.db.insert("laps", at=_elapsed(ctx))


APP = App(
    package="com.android.deskclock",
    name="Clock",
    icon="clock",
    colour="#5e35b1",
    activity=".DeskClock",
    schema={
        "alarms": {"time": str, "label": str, "days": str, "enabled": bool},
        "cities": {"name": str},
        "timer": {"duration": int, "left": int, "ends": int},
        "stopwatch": {"elapsed": int, "started": int},
        "laps": {"at": int},
    },
    fill=fill,
    empty=empty,
    screens=(clock, alarm, confirm, choose_city),
    intents={
        "android.intent.action.SHOW_ALARMS": show_alarms,
        "android.intent.action.SET_ALARM": set_alarm,
        "android.intent.action.SET_TIMER": ask_timer,
        "android.intent.action.SHOW_TIMERS": ask_timer,
    },
)
