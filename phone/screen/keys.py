"""Key codes of Android and what they do."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from turncredit.phone.screen import text_input
from turncredit.phone.screen.screen_phone import ScreenPhone

__all__ = ["KEY_CODES", "press"]


_SYMBOLS: Final = {"COMMA": ",", "PERIOD": ".", "SPACE": " ", "MINUS": "-", "EQUALS": "=", "SLASH": "/", "AT": "@"}
_SYMBOLS_MORE: Final = {"PLUS": "+", "STAR": "*", "POUND": "#", "APOSTROPHE": "'", "SEMICOLON": ";"}

KEY_CODES: Final[dict[str, int]] = {
    "HOME": 3,
    "BACK": 4,
    **{str(digit): 7 + digit for digit in range(10)},
    "STAR": 17,
    "POUND": 18,
    "DPAD_UP": 19,
    "DPAD_DOWN": 20,
    "DPAD_LEFT": 21,
    "DPAD_RIGHT": 22,
    "DPAD_CENTER": 23,
    "VOLUME_UP": 24,
    "VOLUME_DOWN": 25,
    "POWER": 26,
    **{chr(65 + letter): 29 + letter for letter in range(26)},
    "COMMA": 55,
    "PERIOD": 56,
    "SHIFT_LEFT": 59,
    "SHIFT_RIGHT": 60,
    "TAB": 61,
    "SPACE": 62,
    "ENTER": 66,
    "DEL": 67,
    "MINUS": 69,
    "EQUALS": 70,
    "SEMICOLON": 74,
    "APOSTROPHE": 75,
    "SLASH": 76,
    "AT": 77,
    "PLUS": 81,
    "MENU": 82,
    "NOTIFICATION": 83,
    "ESCAPE": 111,
    "FORWARD_DEL": 112,
    "CTRL_LEFT": 113,
    "CTRL_RIGHT": 114,
    "MOVE_HOME": 122,
    "MOVE_END": 123,
    "APP_SWITCH": 187,
    "SLEEP": 223,
    "WAKEUP": 224,
    "CUT": 277,
    "COPY": 278,
    "PASTE": 279,
}
"""Names as in KEYCODE_NAME, and their codes."""

HOME: Final = 3
BACK: Final = 4
APP_SWITCH: Final = 187
_NAMES: Final = {code: name for name, code in KEY_CODES.items()}
_CTRL: Final = {"A": "select_all", "C": "copy", "V": "paste", "X": "cut"}
_TYPED: Final = {**_SYMBOLS, **_SYMBOLS_MORE}
_FAR: Final = 1_000_000


def press(phone: ScreenPhone, codes: tuple[int, ...]) -> None:
    """Press keys together, modifiers first; a code that is not known does nothing."""
    names = [_NAMES.get(code, "") for code in codes]
    if not names:
        return
    held, name = names[:-1], names[-1]
    if name in ("POWER", "SLEEP", "WAKEUP"):
        phone.state.screen_on = name == "WAKEUP" or (name == "POWER" and not phone.state.screen_on)
        return
    if not phone.state.screen_on:
        return
    if any(modifier.startswith("CTRL") for modifier in held):
        if name in _CTRL:
            text_input.edit(phone, _CTRL[name])
        return
    _press(phone, name, any(modifier.startswith("SHIFT") for modifier in held))


def _press(phone: ScreenPhone, name: str, shift: bool) -> None:
    if name in ("BACK", "ESCAPE"):
        _back(phone)
    elif name in ("HOME", "APP_SWITCH"):
        phone.state.snackbar = None
        phone.go_home("home" if name == "HOME" else "recents")
    elif name == "NOTIFICATION":
        phone.open_shade()
    elif name in ("VOLUME_UP", "VOLUME_DOWN"):
        volume = int(phone.setting("volume_music") or "0") + (1 if name == "VOLUME_UP" else -1)
        phone.set_setting("volume_music", str(min(15, max(0, volume))))
    elif len(name) == 1 and name.isalnum():
        text_input.insert(phone, name if shift else name.lower())
    elif name in _TYPED:
        text_input.insert(phone, _TYPED[name])
    else:
        _edit(phone, name, shift)


def _back(phone: ScreenPhone) -> None:
    phone.state.snackbar = None
    page, shown = phone.page, phone.frame.page  # not the same where the app of the page has stopped
    if shown.keyboard or shown.toolbar:
        focus = "" if page.focus.startswith("text:") else page.focus
        phone.change_page(replace(page, keyboard=False, toolbar=False, focus=focus))
    else:
        phone.leave()


def _edit(phone: ScreenPhone, name: str, shift: bool) -> None:
    if name in ("DEL", "FORWARD_DEL"):
        text_input.delete(phone, forward=name == "FORWARD_DEL")
    elif name in ("ENTER", "DPAD_CENTER"):
        text_input.enter(phone)
    elif name == "TAB":
        text_input.next_field(phone, text_input.focused(phone))
    elif name in ("CUT", "COPY", "PASTE"):
        text_input.edit(phone, name.lower())
    else:
        steps = {"DPAD_LEFT": -1, "DPAD_RIGHT": 1, "MOVE_HOME": -_FAR, "MOVE_END": _FAR}
        if name in steps:
            text_input.move(phone, steps[name], shift)
