"""Scripts that do the tasks on stock apps through the screen of the simulated phone, by template."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from turncredit.envs.android.elements import folded
from turncredit.envs.android.tasks.clock import open_tab
from turncredit.envs.android.tasks.contacts import open_contact
from turncredit.envs.android.tasks.hand import Hand, Script
from turncredit.envs.android.tasks.messages import send, write_to

Params = dict[str, Any]
SWITCHES = {
    "StockWifi": ("Network & internet", "Wi-Fi"),
    "StockBluetooth": ("Connected devices", "Bluetooth"),
    "StockDarkTheme": ("Display", "Dark theme"),
    "StockNightLight": ("Display", "Night Light"),
    "StockAutoRotate": ("Display", "Auto-rotate screen"),
    "StockAdaptiveBrightness": ("Display", "Adaptive brightness"),
    "StockLocation": ("Location", "Use location"),
    "StockDoNotDisturb": ("Notifications", "Do not disturb"),
    "StockBatterySaver": ("Battery", "Battery Saver"),
    "StockClockFormat": ("Date & time", "Use 24-hour format"),
}
TITLES = {
    "Bluetooth": SWITCHES["StockBluetooth"],
    "the dark theme": SWITCHES["StockDarkTheme"],
    "Night Light": SWITCHES["StockNightLight"],
    "automatic rotation of the screen": SWITCHES["StockAutoRotate"],
    "adaptive brightness": SWITCHES["StockAdaptiveBrightness"],
}


def section(hand: Hand, name: str) -> Script:
    yield from hand.open("Settings")
    yield from hand.tap(name)


def flip(hand: Hand, where: tuple[str, str], on: bool) -> Script:
    yield from section(hand, where[0])
    yield from hand.switch(where[1], on)


def switch(where: tuple[str, str]) -> Callable[[Hand, Params], Iterator[str]]:
    return lambda hand, p: flip(hand, where, p["state"] == "on")


def two(hand: Hand, p: Params) -> Iterator[str]:
    yield from flip(hand, TITLES[p["one"]], True)
    yield from flip(hand, TITLES[p["other"]], False)


def choose(item: str) -> Callable[[Hand, Params], Iterator[str]]:
    def script(hand: Hand, p: Params) -> Iterator[str]:
        yield from section(hand, "Display")
        yield from hand.tap(item)
        yield from hand.tap(p["choice"])

    return script


def brightest(hand: Hand, p: Params) -> Iterator[str]:
    yield from section(hand, "Display")
    yield from hand.slide("Brightness level", 1.0)


def rename(hand: Hand, p: Params) -> Iterator[str]:
    yield from section(hand, "About phone")
    yield from hand.tap("Device name")
    yield from hand.fill("Device name", p["name"])
    yield from hand.tap("OK")


def about(item: str) -> Callable[[Hand, Params], Iterator[str]]:
    def script(hand: Hand, p: Params) -> Iterator[str]:
        yield from section(hand, "About phone")
        yield from hand.look_for(item)
        yield f"answer {hand.after(item)}"

    return script


def add_contact(hand: Hand, p: Params) -> Iterator[str]:
    first, last = p["name"].split()
    yield from hand.open("Contacts")
    yield from hand.tap("Create contact", scroll=False)
    yield from hand.fill("First name", first)
    yield from hand.fill("Last name", last)
    yield from hand.fill("Phone", p["number"])
    yield from hand.tap("Save")


def delete_contact(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_contact(hand, p["name"])
    yield from hand.tap("More options")
    yield from hand.tap("Delete")
    yield from hand.tap("Delete", where=lambda element: element.kind == "button")


def change_number(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_contact(hand, p["name"])
    yield from hand.tap("Edit contact")
    yield from hand.fill("Phone", p["number"])
    yield from hand.tap("Save")


def find_number(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_contact(hand, p["name"])
    number = next(text for text in hand.texts() if text.replace(" ", "").lstrip("+").isdigit())
    yield f"answer {number}"


def send_message(hand: Hand, p: Params) -> Iterator[str]:
    yield from write_to(hand, p["number"])
    yield from send(hand, p["text"])


def find_code(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Messages")
    row = hand.mentioning("parcel")[0]
    yield from hand.tap_element(row)
    text = next(text for text in hand.texts() if "The code is " in text)
    yield f"answer {text.split('The code is ')[1].rstrip('.')}"


def missed_call(hand: Hand, p: Params) -> Iterator[str]:
    yield from hand.open("Phone")
    row = next(e for e in hand.screen if any(text.startswith("Missed · ") for text in e.texts))
    yield f"answer {row.texts[0]}"


def file_command(hand: Hand, p: Params, command: str) -> Script:
    yield from hand.open("Files")
    yield from hand.tap("Download")
    yield from hand.tap(f"Options of {p['name']}")
    yield from hand.tap(command, scroll=False)


def delete_file(hand: Hand, p: Params) -> Iterator[str]:
    yield from file_command(hand, p, "Delete")
    yield from hand.tap("Delete", where=lambda element: element.kind == "button")


def move_file(hand: Hand, p: Params) -> Iterator[str]:
    yield from file_command(hand, p, "Move to")
    yield from hand.tap("Documents")


def rename_file(hand: Hand, p: Params) -> Iterator[str]:
    yield from file_command(hand, p, "Rename")
    yield from hand.fill("New name", p["new"])
    yield from hand.tap("Rename", where=lambda element: element.kind == "button")


def alarm(hand: Hand, p: Params) -> Iterator[str]:
    yield from open_tab(hand, "Alarm")
    yield from hand.tap("Add alarm", scroll=False)
    yield from hand.pick_time("Time", p["time"])
    yield from hand.tap("Save")


def open_app(hand: Hand, p: Params) -> Iterator[str]:
    yield f"open {p['app']}"


def missing(hand: Hand, p: Params) -> Iterator[str]:
    yield "infeasible"


SCRIPTS: dict[str, Callable[[Hand, Params], Iterator[str]]] = {
    **{name: switch(where) for name, where in SWITCHES.items()},
    "StockTwoSwitches": two,
    "StockFontSize": choose("Font size"),
    "StockScreenTimeout": choose("Screen timeout"),
    "StockBrightest": brightest,
    "StockRename": rename,
    "StockModel": about("Model"),
    "StockVersion": about("Android version"),
    "StockAddContact": add_contact,
    "StockDeleteContact": delete_contact,
    "StockChangeNumber": change_number,
    "StockFindNumber": find_number,
    "StockSendMessage": send_message,
    "StockFindCode": find_code,
    "StockMissedCall": missed_call,
    "StockDeleteFile": delete_file,
    "StockMoveFile": move_file,
    "StockRenameFile": rename_file,
    "StockAlarm": alarm,
    "StockOpenApp": open_app,
    "StockMissingApp": missing,
}


def actions(env: Any, params: Params) -> Iterator[str]:
    """Return the actions of the script for the task that `env` plays; each must be taken before the next."""
    episode = env.unwrapped.episode
    hand = Hand(episode.device.size())

    def look() -> None:
        hand.screen = folded(episode.device.dump(), episode.device.size())
        hand.package = episode.device.activity().partition("/")[0]

    look()
    for action in SCRIPTS[episode.task_type](hand, params):
        yield action
        look()
    yield "done"
