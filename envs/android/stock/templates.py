"""The templates of tasks on stock apps: Settings, Contacts, Messages, Phone, Files, Clock.

None needs root. `needs` says what the device must show; a device that does not show it is not asked to do the task.
Texts are sent on emulators alone. Received texts are put there by adb, which most real devices refuse to the shell.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from turncredit.envs.android.stock.observation import ADB, FOLDERS
from turncredit.envs.android.stock.stage import Stage, StockTemplate
from turncredit.envs.android.tasks.effects import (
    Answer,
    DeleteRow,
    Effect,
    FileGone,
    FileIs,
    Infeasible,
    InsertRow,
    Setting,
    Shown,
    UpdateRow,
)
from turncredit.envs.android.tasks.template import Params

__all__ = ["STOCK_TEMPLATES"]

_SETTINGS: Final = ("Settings",)


# Switches of Settings


class _SwitchOf(NamedTuple):
    """A switch: what the goal calls it, its setting, and the values for on and off."""

    title: str
    namespace: str
    name: str
    on: str = "1"
    off: str = "0"


_WIFI: Final = _SwitchOf("Wi-Fi", "global", "wifi_on")
_BLUETOOTH: Final = _SwitchOf("Bluetooth", "global", "bluetooth_on")
_DARK: Final = _SwitchOf("the dark theme", "secure", "ui_night_mode", "2", "1")
_NIGHT: Final = _SwitchOf("Night Light", "secure", "night_display_activated")
_ROTATE: Final = _SwitchOf("automatic rotation of the screen", "system", "accelerometer_rotation")
_ADAPTIVE: Final = _SwitchOf("adaptive brightness", "system", "screen_brightness_mode")
_LOCATION: Final = _SwitchOf("the use of the location", "secure", "location_mode", "3", "0")
_QUIET: Final = _SwitchOf("Do Not Disturb", "global", "zen_mode")
_SAVER: Final = _SwitchOf("Battery Saver", "global", "low_power")
_CLOCK_24: Final = _SwitchOf("the 24-hour format of the clock", "system", "time_12_24", "24", "12")
_PLAIN: Final = (_BLUETOOTH, _DARK, _NIGHT, _ROTATE, _ADAPTIVE)


def _turn(stage: Stage, switch: _SwitchOf, on: bool) -> Effect:
    """Set a switch the other way; return what turning it makes."""
    stage.set_setting(switch.namespace, switch.name, switch.off if on else switch.on)
    return Setting(switch.name, switch.on if on else switch.off, switch.namespace)


def _switch_draw(switch: _SwitchOf) -> Callable[[Stage], Params]:
    def draw(stage: Stage) -> Params:
        on = stage.random.chance(0.5)
        return {"state": "on" if on else "off", "effects": [_turn(stage, switch, on)]}

    return draw


def _two_draw(stage: Stage) -> Params:
    first, other = stage.random.shuffled(_PLAIN)[:2]
    effects = [_turn(stage, first, True), _turn(stage, other, False)]
    return {"one": first.title, "other": other.title, "effects": effects}


def _drawn(p: Params) -> list[Effect]:
    return list(p["effects"])


def _switch(name: str, switch: _SwitchOf, split: str = "train", *needs: str) -> StockTemplate:
    goals = (f"Turn {switch.title} {{state}}.", f"I want {switch.title} to be {{state}}. Please see to it.")
    return StockTemplate(name, goals, _switch_draw(switch), _drawn, _SETTINGS, 1.2, needs, split)


# Other settings

_SIZES: Final = {"Small": "0.85", "Default": "1.0", "Large": "1.15", "Largest": "1.3"}
_TIMEOUTS: Final = {"15 seconds": "15000", "30 seconds": "30000", "1 minute": "60000", "5 minutes": "300000"}
_NAMES: Final = ("Blue phone", "Kitchen phone", "Test bench", "Night shift", "Field unit", "Desk phone")


def _choice_draw(namespace: str, name: str, choices: dict[str, str]) -> Callable[[Stage], Params]:
    def draw(stage: Stage) -> Params:
        choice, first = stage.random.shuffled(list(choices))[:2]
        stage.set_setting(namespace, name, choices[first])
        return {"choice": choice, "effects": [Setting(name, choices[choice], namespace)]}

    return draw


def _brightest_draw(stage: Stage) -> Params:
    stage.set_setting("system", "screen_brightness_mode", "0")
    stage.set_setting("system", "screen_brightness", str(stage.random.between(30, 150)))
    return {"effects": [Setting("screen_brightness", "255")]}


def _rename_draw(stage: Stage) -> Params:
    current = stage.setting("global", "device_name")
    name = stage.random.pick([name for name in _NAMES if name != current])
    return {"name": name, "effects": [Setting("device_name", name, "global")]}


def _property_draw(name: str) -> Callable[[Stage], Params | None]:
    def draw(stage: Stage) -> Params | None:
        value = stage.property(name)
        return {"effects": [Answer("text", value)]} if value else None

    return draw


# Contacts


def _add_draw(stage: Stage) -> Params:
    name, number = stage.stranger()
    row = {"display_name": name, "data1": number}
    return {"name": name, "number": number, "effects": [InsertRow(ADB, "contacts", row)]}


def _delete_draw(stage: Stage) -> Params:
    key, name, _ = stage.contact()
    return {"name": name, "effects": [DeleteRow(ADB, "contacts", key)]}


def _number_draw(stage: Stage) -> Params:
    key, name, _ = stage.contact()
    _, new = stage.stranger()
    return {"name": name, "number": new, "effects": [UpdateRow(ADB, "contacts", key, {"data1": new})]}


def _find_draw(stage: Stage) -> Params:
    _, name, number = stage.contact()
    return {"name": name, "effects": [Answer("text", number)]}


# Messages and calls

_TEXTS: Final = ("On my way", "Running ten minutes late", "See you at the station", "The keys are with Ida")


def _send_draw(stage: Stage) -> Params:
    _, number = stage.stranger()
    text = stage.random.pick(_TEXTS)
    row = {"address": number, "body": text, "type": "2"}
    return {"number": number, "text": text, "effects": [InsertRow(ADB, "messages", row)]}


def _code_draw(stage: Stage) -> Params:
    _, number = stage.stranger()
    code = str(stage.random.between(100000, 999999))
    stage.message(number, f"Your parcel is at the corner shop. The code is {code}.")
    return {"effects": [Answer("text", code)]}


def _call_draw(stage: Stage) -> Params:
    _, number = stage.stranger()
    stage.missed_call(number)
    return {"effects": [Answer("text", number)]}


# Files, clock, any app

_WORDS: Final = ("tickets", "garden plan", "bread", "packing list", "invoice", "reading list")


def _file(stage: Stage) -> Params:
    name = f"{stage.random.pick(_WORDS)} {stage.random.between(100, 999)}.txt"
    text = f"{name.removesuffix('.txt').capitalize()}\nNumber {stage.random.between(1000, 9999)}\n"
    return {"name": name, "text": text, "path": stage.file(name, text)}


def _delete_file_draw(stage: Stage) -> Params:
    p = _file(stage)
    return {**p, "effects": [FileGone(p["path"])]}


def _move_draw(stage: Stage) -> Params:
    p = _file(stage)
    return {**p, "effects": [FileGone(p["path"]), FileIs(f"{FOLDERS[1]}/{p['name']}", p["text"], p["text"])]}


def _new_name_draw(stage: Stage) -> Params:
    p = _file(stage)
    new = f"old {p['name']}"
    return {**p, "new": new, "effects": [FileGone(p["path"]), FileIs(f"{FOLDERS[0]}/{new}", p["text"], p["text"])]}


def _alarm_draw(stage: Stage) -> Params | None:
    """Draw a time before the next alarm: adb shows the first one alone, and cannot take one away."""
    moment, ring = stage.now(), stage.first.settings["dumpsys"]["next_alarm"]
    room = min(180, (datetime.fromisoformat(ring) - moment) // timedelta(minutes=1) if ring else 180)
    if room < 8:
        return None
    at = moment + timedelta(minutes=stage.random.between(6, room - 1))
    alarm = Setting("next_alarm", f"{at:%Y-%m-%d %H:%M}", "dumpsys")
    return {"time": f"{at:%H:%M}", "effects": [alarm]}


def _open_draw(stage: Stage) -> Params:
    name = stage.random.pick(sorted(stage.apps))
    return {"app": name, "effects": [Shown(stage.apps[name])]}


_MISSING: Final = ("Quillfeather Chess", "Bramble Radio", "Ostrich Tax Helper", "Pebble Weather Deluxe")


def _missing_draw(stage: Stage) -> Params:
    return {"app": stage.random.pick(_MISSING), "effects": [Infeasible()]}


def _template(
    name: str,
    goal: str | tuple[str, ...],
    draw: Callable[[Stage], Params | None],
    app: str,
    complexity: float = 1.0,
    needs: tuple[str, ...] = (),
    split: str = "train",
) -> StockTemplate:
    return StockTemplate(name, goal, draw, _drawn, (app,), complexity, needs, split)


STOCK_TEMPLATES: Final[dict[str, StockTemplate]] = {
    template.name: template
    for template in (
        _switch("StockWifi", _WIFI, "train", "cable"),
        _switch("StockBluetooth", _BLUETOOTH),
        _switch("StockDarkTheme", _DARK),
        _switch("StockNightLight", _NIGHT, "held_out"),
        _switch("StockAutoRotate", _ROTATE),
        _switch("StockAdaptiveBrightness", _ADAPTIVE),
        _switch("StockLocation", _LOCATION),
        _switch("StockDoNotDisturb", _QUIET),
        _switch("StockBatterySaver", _SAVER),
        _switch("StockClockFormat", _CLOCK_24, "held_out"),
        _template("StockTwoSwitches", "Turn {one} on and {other} off.", _two_draw, "Settings", 2.0),
        _template(
            "StockFontSize",
            ("Set the font size to {choice}.", "Make the size of texts {choice}."),
            _choice_draw("system", "font_scale", _SIZES),
            "Settings",
            1.4,
        ),
        _template(
            "StockScreenTimeout",
            "Let the screen turn off after {choice}.",
            _choice_draw("system", "screen_off_timeout", _TIMEOUTS),
            "Settings",
            1.4,
        ),
        _template("StockBrightest", "Set the brightness of the screen to its maximum.", _brightest_draw, "Settings"),
        _template("StockRename", "Change the name of this device to {name}.", _rename_draw, "Settings", 1.6),
        _template("StockModel", "Which model is this phone?", _property_draw("ro.product.model"), "Settings", 1.2),
        _template(
            "StockVersion",
            "Which version of Android does this phone run?",
            _property_draw("ro.build.version.release"),
            "Settings",
            1.2,
            (),
            "held_out",
        ),
        _template(
            "StockAddContact",
            ("Add {name} with the number {number} to my contacts.", "Save {number} as the number of {name}."),
            _add_draw,
            "Contacts",
            1.4,
            ("contacts",),
        ),
        _template("StockDeleteContact", "Delete the contact {name}.", _delete_draw, "Contacts", 1.4, ("contacts",)),
        _template(
            "StockChangeNumber",
            "{name} has a new number: {number}. Change the contact.",
            _number_draw,
            "Contacts",
            1.6,
            ("contacts",),
        ),
        _template(
            "StockFindNumber",
            "What is the phone number of {name}?",
            _find_draw,
            "Contacts",
            1.2,
            ("contacts",),
            "held_out",
        ),
        _template(
            "StockSendMessage",
            "Send a text message to {number} that says: {text}",
            _send_draw,
            "Messages",
            1.6,
            ("messages", "emulator"),
        ),
        _template(
            "StockFindCode",
            "I have just received a text message about a parcel. What is the code in it?",
            _code_draw,
            "Messages",
            1.2,
            ("messages",),
        ),
        _template("StockMissedCall", "Which number tried to call me last?", _call_draw, "Phone", 1.2, ("calls",)),
        _template(
            "StockDeleteFile",
            "Delete the file {name} from the folder Download.",
            _delete_file_draw,
            "Files",
            1.4,
            ("files",),
        ),
        _template(
            "StockMoveFile",
            "Move the file {name} from the folder Download to the folder Documents.",
            _move_draw,
            "Files",
            1.8,
            ("files",),
        ),
        _template(
            "StockRenameFile",
            "Rename the file {name} in the folder Download to {new}.",
            _new_name_draw,
            "Files",
            1.6,
            ("files",),
            "held_out",
        ),
        _template("StockAlarm", "Set an alarm for {time}.", _alarm_draw, "Clock", 1.4, ("alarm",)),
        _template("StockOpenApp", ("Open the app {app}.", "Show me {app}."), _open_draw, "Settings"),
        _template("StockMissingApp", "Open the app {app}.", _missing_draw, "Settings"),
    )
}
"""All templates by name."""
