"""`ime`, and what keyboards take from broadcasts: the phone's own, ADB keyboard and that of uiautomator2.

uiautomator2's keyboard answers while it is the current one, as on a device; ADB keyboard always does.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from turncredit.phone.intents import Intent
from turncredit.phone.phone import Phone
from turncredit.phone.screen import text_input
from turncredit.phone.screen.keys import KEY_CODES
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction
from turncredit.phone.toolkit.state import CURRENT_KEYBOARD, ENABLED_KEYBOARDS, OWN_KEYBOARD

__all__ = ["ime", "take_broadcast"]

_UIAUTOMATOR: Final = "com.github.uiautomator/.AdbKeyboard"
_KEYBOARDS: Final = (OWN_KEYBOARD, "com.android.adbkeyboard/.AdbIME", _UIAUTOMATOR)
_USAGE: Final = "Error: ime list [-a] [-s] | enable ID | disable ID | set ID | reset"


def ime(call: CommandCall) -> None:
    """List, enable, disable and choose keyboards."""
    args = list(call.args)
    if "--user" in args:
        del args[args.index("--user") : args.index("--user") + 2]
    action, *names = [arg for arg in args if not arg.startswith("-")] or [""]
    if action == "list":
        _list(call)
    elif action == "reset":
        _choose(call.phone, OWN_KEYBOARD, (OWN_KEYBOARD,))
        call.print("Reset current and enabled IMEs for user #0")
    elif action in _ACTIONS and len(names) == 1:
        _ACTIONS[action](call, _full_id(names[0]))
    else:
        raise CommandError(_USAGE, 255)


def _full_id(name: str) -> str:
    """Return the short form of an id: com.a/com.a.B is com.a/.B."""
    package, _, keyboard = name.partition("/")
    return f"{package}/{keyboard.removeprefix(package)}"


def _enabled(phone: Phone) -> tuple[str, ...]:
    return tuple((phone.setting(ENABLED_KEYBOARDS, "secure") or OWN_KEYBOARD).split(":"))


def _choose(phone: Phone, current: str, enabled: tuple[str, ...]) -> None:
    phone.set_setting(CURRENT_KEYBOARD, current, "secure")
    phone.set_setting(ENABLED_KEYBOARDS, None if enabled == (OWN_KEYBOARD,) else ":".join(enabled), "secure")


def _list(call: CommandCall) -> None:
    for name in _KEYBOARDS if "-a" in call.args else _enabled(call.phone):
        call.print(name if "-s" in call.args else f"{name}:\n  mId={name} mSettingsActivityName=null")


def _enable(call: CommandCall, name: str) -> None:
    enabled = _enabled(call.phone)
    if name not in _KEYBOARDS:
        names = ", ".join(_KEYBOARDS)
        raise CommandError(f"Unknown input method {name} cannot be enabled for user #0; this phone has {names}", 255)
    call.print(f"Input method {name}: {'already' if name in enabled else 'now'} enabled for user #0")
    if name not in enabled:
        _choose(call.phone, call.phone.setting(CURRENT_KEYBOARD, "secure"), (*enabled, name))


def _disable(call: CommandCall, name: str) -> None:
    phone, enabled = call.phone, _enabled(call.phone)
    call.print(f"Input method {name}: {'now' if name in enabled else 'already'} disabled for user #0")
    current = phone.setting(CURRENT_KEYBOARD, "secure")
    if name in enabled:
        others = tuple(other for other in enabled if other != name) or (OWN_KEYBOARD,)
        _choose(phone, others[0] if current == name else current, others)


def _set(call: CommandCall, name: str) -> None:
    enabled = _enabled(call.phone)
    if name not in enabled:
        raise CommandError(
            f"Unknown input method {name} cannot be selected for user #0; enabled are {', '.join(enabled)}", 255
        )
    _choose(call.phone, name, enabled)
    call.print(f"Input method {name} selected for user #0")


_ACTIONS: Final = {"enable": _enable, "disable": _disable, "set": _set}


def take_broadcast(phone: Phone, intent: Intent) -> str:
    """Do what a broadcast asks of a keyboard; return how `am` says that it ended, "" if it asks something else.

    Raises:
        CommandError: its text is not UTF-8 in base64, or its code is no number.
    """
    if intent.action in _ADB_KEYBOARD:
        _ADB_KEYBOARD[intent.action](phone, intent)
        return "result=0"
    if intent.action in _UIAUTOMATOR_KEYBOARD:
        if phone.setting(CURRENT_KEYBOARD, "secure") != _UIAUTOMATOR:
            return "result=0"
        data = _UIAUTOMATOR_KEYBOARD[intent.action](phone, intent)
        return f'result=-1, data="{data or "success"}"'
    return ""


def _plain(intent: Intent) -> str:
    return str(intent.extras.get("msg", ""))


def _decoded(intent: Intent) -> str:
    text = str(intent.extras.get("msg", intent.extras.get("text", "")))
    try:
        return base64.b64decode(text, validate=True).decode()
    except ValueError:
        raise CommandError("Error: the text of the broadcast must be UTF-8 in base64", 255) from None


def _characters(intent: Intent) -> str:
    try:
        return "".join(chr(int(code)) for code in str(intent.extras.get("chars", "")).split(","))
    except (ValueError, OverflowError):
        raise CommandError("Error: chars must be code points such as 128568,32", 255) from None


def _code(intent: Intent) -> int:
    try:
        return int(str(intent.extras.get("code", "")))
    except ValueError:
        raise CommandError("Error: code must be a number", 255) from None


def _clear(phone: Phone, intent: Intent) -> None:
    phone.key(KEY_CODES["CTRL_LEFT"], KEY_CODES["A"])
    phone.key(KEY_CODES["DEL"])


def _replace(phone: Phone, intent: Intent) -> None:
    text = _decoded(intent)
    _clear(phone, intent)
    phone.text(text)


def _hide(phone: Phone, intent: Intent) -> None:
    phone.change_page(replace(phone.page, keyboard=False))


def _clipboard(phone: Phone, intent: Intent) -> str:
    return base64.b64encode(phone.state.clipboard.encode()).decode()


_ADB_KEYBOARD: Final[dict[str, Callable[[Phone, Intent], None]]] = {
    "ADB_INPUT_TEXT": lambda phone, intent: phone.text(_plain(intent)),
    "ADB_INPUT_B64": lambda phone, intent: phone.text(_decoded(intent)),
    "ADB_INPUT_CHARS": lambda phone, intent: phone.text(_characters(intent)),
    "ADB_INPUT_CODE": lambda phone, intent: phone.key(_code(intent)),
    "ADB_EDITOR_CODE": lambda phone, intent: text_input.editor_action(phone, _code(intent)),
    "ADB_CLEAR_TEXT": _clear,
}
_UIAUTOMATOR_KEYBOARD: Final[dict[str, Callable[[Phone, Intent], str | None]]] = {
    "ADB_KEYBOARD_INPUT_TEXT": lambda phone, intent: phone.text(_decoded(intent)),
    "ADB_KEYBOARD_SET_TEXT": _replace,
    "ADB_KEYBOARD_CLEAR_TEXT": _clear,
    "ADB_KEYBOARD_EDITOR_CODE": lambda phone, intent: text_input.editor_action(phone, _code(intent)),
    "ADB_KEYBOARD_SMART_ENTER": lambda phone, intent: phone.key(KEY_CODES["ENTER"]),
    "ADB_KEYBOARD_HIDE": _hide,
    "ADB_KEYBOARD_GET_CLIPBOARD": _clipboard,
}

COMMANDS: Final[dict[str, CommandFunction]] = {"ime": ime}
