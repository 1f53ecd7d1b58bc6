"""Tasks of Settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from turncredit.envs.android.tasks.effects import Answer, Effect, Infeasible, Setting, Shown, UpdateRow
from turncredit.envs.android.tasks.hand import Hand, Script
from turncredit.envs.android.tasks.steps import Step, call, fill, give_up, steps, tap
from turncredit.envs.android.tasks.template import Draw, DrawFunction, Params, TaskTemplate
from turncredit.phone.apps.settings import FONT_SIZES, TIMEOUTS, TONES

PACKAGE: Final = "com.android.settings"
_APPS: Final = ("Settings",)

# Title -> section, namespace, name, value for on, value for off
_SWITCHES: Final = {
    "Wi-Fi": ("Network & internet", "global", "wifi_on", "1", "0"),
    "Mobile data": ("Network & internet", "global", "mobile_data", "1", "0"),
    "Airplane mode": ("Network & internet", "global", "airplane_mode_on", "1", "0"),
    "Bluetooth": ("Connected devices", "global", "bluetooth_on", "1", "0"),
    "Adaptive brightness": ("Display", "system", "screen_brightness_mode", "1", "0"),
    "Dark theme": ("Display", "secure", "ui_night_mode", "2", "1"),
    "Night Light": ("Display", "secure", "night_display_activated", "1", "0"),
    "Auto-rotate screen": ("Display", "system", "accelerometer_rotation", "1", "0"),
    "Touch vibration": ("Sound & vibration", "system", "haptic_feedback_enabled", "1", "0"),
    "Do not disturb": ("Notifications", "global", "zen_mode", "1", "0"),
    "Battery Saver": ("Battery", "global", "low_power", "1", "0"),
    "Use location": ("Location", "secure", "location_mode", "3", "0"),
    "Set time automatically": ("Date & time", "global", "auto_time", "1", "0"),
    "Use 24-hour format": ("Date & time", "system", "time_12_24", "24", "12"),
}
_RARE: Final = tuple(title for title in _SWITCHES if title not in ("Wi-Fi", "Bluetooth"))
_VOLUMES: Final = {"media": ("volume_music", 15), "ring": ("volume_ring", 7), "alarm": ("volume_alarm", 7)}


# Switches


def _flip_draw(*titles: str, verify: bool = False) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        title, on = d.random.pick(titles), d.random.chance(0.5)
        _, space, name, yes, no = _SWITCHES[title]
        start = on if verify and d.random.chance(0.5) else not on
        d.set_setting(name, yes if start else no, space)
        return {"title": title, "on": on, "state": "on" if on else "off"}

    return draw


def _switched(title: str, on: bool) -> Setting:
    _, space, name, yes, no = _SWITCHES[title]
    return Setting(name, yes if on else no, space)


def _flip(hand: Hand, title: str, on: bool) -> Script:
    yield from _section(hand, _SWITCHES[title][0])
    yield from hand.switch(title, on)


_flip_solve = steps(lambda hand, p: _flip(hand, p["title"], p["on"]))


def _section(hand: Hand, title: str) -> Script:
    yield from hand.open("Settings")
    yield from hand.tap(title)


def _two_draw(d: Draw) -> Params | None:
    first, two = d.some(list(_SWITCHES), 2)
    for title in (first, two):
        _, space, name, _, no = _SWITCHES[title]
        d.set_setting(name, no, space)
    return {"one": first, "two": two}


def _two_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _flip(hand, p["one"], True)
    yield from _flip(hand, p["two"], True)
    yield from hand.done()


def _wifi_draw(d: Draw) -> Params | None:
    d.set_setting("wifi_on", "0", "global")
    app = d.random.pick([app for app in d.phone.apps.values() if app.name in ("Clock", "Contacts")])
    return {"app": app.name, "package": app.package}


def _wifi_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _flip(hand, "Wi-Fi", True)
    yield f"open {p['app']}"
    yield from hand.done()


# Values


def _brightness_draw(d: Draw) -> Params | None:
    d.set_setting("screen_brightness", str(d.random.between(60, 180)))
    most = d.random.chance(0.5)
    return {"value": "255" if most else "0", "most": most, "level": "maximum" if most else "minimum"}


def _brightness_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _section(hand, "Display")
    yield from hand.slide("Brightness level", 1.0 if p["most"] else 0.0)
    yield from hand.done()


def _volume_draw(d: Draw) -> Params | None:
    which = d.random.pick(list(_VOLUMES))
    name, most = _VOLUMES[which]
    loud = d.random.chance(0.5)
    return {"which": which, "name": name, "value": str(most if loud else 0), "loud": loud}


def _volume_goal(d: Draw) -> Params | None:
    p = _volume_draw(d)
    return {**p, "level": "its maximum" if p["loud"] else "zero"} if p else None


def _volume_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _section(hand, "Sound & vibration")
    yield from hand.slide(f"{p['which'].capitalize()} volume", 1.0 if p["loud"] else 0.0)
    yield from hand.done()


def _choice_draw(name: str, choices: dict[str, str]) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        title = d.random.pick([title for title, value in choices.items() if value != d.phone.setting(name)])
        return {"title": title, "value": choices[title], "name": name}

    return draw


def _choice_effects(p: Params) -> list[Effect]:
    return [Setting(p["name"], p["value"])]


def _choice_solve(section: str, item: str) -> Step:
    return steps(call(_section, section), tap(item), tap("{title}"))


def _name_draw(d: Draw) -> Params | None:
    first = d.random.pick(("Blue", "Quiet", "Pocket", "Morning", "Paper", "North"))
    return {"name": f"{first} {d.random.pick(('phone', 'swift', 'lantern', 'pebble', 'harbour'))}"}


# Networks and devices


def _network_draw(secured: int) -> DrawFunction:
    def draw(d: Draw) -> Params | None:
        new = d.pick(d.rows(PACKAGE, "networks", connected=0, saved=0, secured=secured))
        old = d.pick(d.rows(PACKAGE, "networks", connected=1))
        if not new or not old:
            return None
        password = f"{d.random.pick(('maple', 'copper', 'violet', 'harbour'))}-{d.random.between(1000, 9999)}"
        return {"id": new["_id"], "network": new["name"], "old": old["_id"], "password": password}

    return draw


def _network_effects(p: Params) -> list[Effect]:
    return [
        UpdateRow(PACKAGE, "networks", p["old"], {"connected": 0}),
        UpdateRow(PACKAGE, "networks", p["id"], {"connected": 1, "saved": 1}),
    ]


def _network_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _section(hand, "Network & internet")
    yield from hand.tap(p["network"])
    if hand.see("Password"):
        yield from hand.fill("Password", p["password"])
        yield from hand.tap("Connect")
    yield from hand.done()


def _forget_draw(d: Draw) -> Params | None:
    row = d.pick(d.rows(PACKAGE, "networks", connected=1))
    return {"id": row["_id"], "network": row["name"]} if row else None


def _pair_draw(d: Draw) -> Params | None:
    row = d.pick(d.rows(PACKAGE, "devices", paired=0))
    return {"id": row["_id"], "device": row["name"]} if row else None


_pair_solve = steps(call(_section, "Connected devices"), tap("{device}"))


def _disconnect_draw(d: Draw) -> Params | None:
    row = d.pick(d.rows(PACKAGE, "devices", connected=1))
    return {"id": row["_id"], "device": row["name"]} if row else None


def _absent_draw(d: Draw) -> Params | None:
    names = {row["name"] for row in d.rows(PACKAGE, "networks")}
    name = d.random.pick([f"{owner} Net" for owner in ("Moonbase", "Ferry House", "Old Mill", "Hilltop")])
    return {"network": name} if name not in names else None


def _away_draw(d: Draw) -> Params | None:
    names = {row["name"] for row in d.rows(PACKAGE, "devices")}
    return {"device": d.random.pick([n for n in ("Desk lamp", "Drone", "Game pad", "Printer") if n not in names])}


# Questions


def _ask_network_draw(d: Draw) -> Params | None:
    rows = d.rows(PACKAGE, "networks")
    chosen = d.random.pick(rows)
    for row in rows:
        d.update(PACKAGE, "networks", row["_id"], connected=int(row is chosen), saved=int(row is chosen))
    return {"network": chosen["name"]}


def _ask_network_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _section(hand, "Network & internet")
    row = yield from hand.look_for("Connected")
    yield from hand.answer(row.texts[0])


def _ask_timeout_draw(d: Draw) -> Params | None:
    title = d.random.pick(list(TIMEOUTS))
    d.set_setting("screen_off_timeout", TIMEOUTS[title])
    return {"title": title}


def _ask_timeout_solve(hand: Hand, p: Params) -> Iterator[str]:
    yield from _section(hand, "Display")
    row = yield from hand.look_for("Screen timeout")
    yield from hand.answer(row.texts[1])


TEMPLATES: Final = (
    TaskTemplate(
        "SettingsWifi",
        ("Turn {title} {state}.", "Switch {state} {title} in Settings."),
        _flip_draw("Wi-Fi"),
        lambda p: [_switched(p["title"], p["on"])],
        _flip_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsWifiVerify",
        "Make sure that {title} is {state}.",
        _flip_draw("Wi-Fi", verify=True),
        lambda p: [_switched(p["title"], p["on"])],
        _flip_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsBluetooth",
        ("Turn {title} {state}.", "Switch {title} {state} in Settings."),
        _flip_draw("Bluetooth"),
        lambda p: [_switched(p["title"], p["on"])],
        _flip_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsBluetoothVerify",
        "Check that {title} is {state}, and change it if it is not.",
        _flip_draw("Bluetooth", verify=True),
        lambda p: [_switched(p["title"], p["on"])],
        _flip_solve,
        _APPS,
        split="held_out",
    ),
    TaskTemplate(
        "SettingsSwitch",
        ('Turn {state} "{title}" in Settings.', 'The setting "{title}" should be {state}.'),
        _flip_draw(*_RARE),
        lambda p: [_switched(p["title"], p["on"])],
        _flip_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsTwoSwitches",
        'Turn on both "{one}" and "{two}" in Settings.',
        _two_draw,
        lambda p: [_switched(p["one"], True), _switched(p["two"], True)],
        _two_solve,
        _APPS,
        complexity=1.6,
    ),
    TaskTemplate(
        "SettingsWifiAndOpen",
        "Turn Wi-Fi on, and then open the app {app}.",
        _wifi_draw,
        lambda p: [Setting("wifi_on", "1", "global"), Shown(p["package"])],
        _wifi_solve,
        ("Settings", "Clock", "Contacts"),
        complexity=1.4,
    ),
    TaskTemplate(
        "SettingsBrightness",
        ("Set the brightness to the {level}.", "Turn the screen brightness to its {level} in Settings."),
        _brightness_draw,
        lambda p: [Setting("screen_brightness", p["value"])],
        _brightness_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsVolume",
        "Set the {which} volume to {level}.",
        _volume_goal,
        lambda p: [Setting(p["name"], p["value"])],
        _volume_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsFontSize",
        ("Make the font size {title}.", "I would like the text of the phone in the font size {title}."),
        _choice_draw("font_scale", FONT_SIZES),
        _choice_effects,
        _choice_solve("Display", "Font size"),
        _APPS,
    ),
    TaskTemplate(
        "SettingsTimeout",
        "The screen should turn off after {title}. Change that in Settings.",
        _choice_draw("screen_off_timeout", TIMEOUTS),
        _choice_effects,
        _choice_solve("Display", "Screen timeout"),
        _APPS,
        split="held_out",
    ),
    TaskTemplate(
        "SettingsRingtone",
        ("Set the ringtone of the phone to {title}.", "Choose {title} as the phone ringtone."),
        _choice_draw("ringtone", {tone: tone for tone in TONES}),
        _choice_effects,
        _choice_solve("Sound & vibration", "Phone ringtone"),
        _APPS,
    ),
    TaskTemplate(
        "SettingsAlarmSound",
        "Change the default alarm sound to {title}.",
        _choice_draw("alarm_alert", {tone: tone for tone in TONES}),
        _choice_effects,
        _choice_solve("Sound & vibration", "Default alarm sound"),
        _APPS,
        split="held_out",
    ),
    TaskTemplate(
        "SettingsDeviceName",
        'Rename this phone to "{name}".',
        _name_draw,
        lambda p: [Setting("device_name", p["name"], "global")],
        steps(call(_section, "About phone"), tap("Device name"), fill("Device name", "{name}"), tap("OK")),
        _APPS,
    ),
    TaskTemplate(
        "SettingsOpenNetwork",
        "Connect to the Wi-Fi network {network}.",
        _network_draw(0),
        _network_effects,
        _network_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsSecuredNetwork",
        "Connect to the Wi-Fi network {network}. The password is {password}.",
        _network_draw(1),
        _network_effects,
        _network_solve,
        _APPS,
        complexity=1.2,
    ),
    TaskTemplate(
        "SettingsForgetNetwork",
        "The phone should forget the Wi-Fi network {network}.",
        _forget_draw,
        lambda p: [UpdateRow(PACKAGE, "networks", p["id"], {"connected": 0, "saved": 0})],
        steps(call(_section, "Network & internet"), tap("{network}"), tap("Forget")),
        _APPS,
    ),
    TaskTemplate(
        "SettingsPairDevice",
        ("Pair the phone with the Bluetooth device {device}.", "Connect {device} by Bluetooth."),
        _pair_draw,
        lambda p: [UpdateRow(PACKAGE, "devices", p["id"], {"paired": 1, "connected": 1})],
        _pair_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsDisconnectDevice",
        "Disconnect the Bluetooth device {device}, but keep it among the saved devices.",
        _disconnect_draw,
        lambda p: [UpdateRow(PACKAGE, "devices", p["id"], {"connected": 0})],
        _pair_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsAskNetwork",
        "Which Wi-Fi network is the phone connected to?",
        _ask_network_draw,
        lambda p: [Answer("text", p["network"])],
        _ask_network_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsAskTimeout",
        "After what time without use does the screen turn off? Answer as Settings says it.",
        _ask_timeout_draw,
        lambda p: [Answer("choice", p["title"])],
        _ask_timeout_solve,
        _APPS,
    ),
    TaskTemplate(
        "SettingsMissingNetwork",
        "Connect to the Wi-Fi network {network}.",
        _absent_draw,
        lambda p: [Infeasible()],
        steps(call(_section, "Network & internet"), give_up()),
        _APPS,
        tags=("infeasible",),
    ),
    TaskTemplate(
        "SettingsMissingDevice",
        "Pair the phone with the Bluetooth device {device}.",
        _away_draw,
        lambda p: [Infeasible()],
        steps(call(_section, "Connected devices"), give_up()),
        _APPS,
        split="held_out",
        tags=("infeasible",),
    ),
)
