"""`settings` and `svc`: the settings of the phone, and its radios."""

from __future__ import annotations

import math
from typing import Final

from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction
from turncredit.phone.toolkit.state import default_settings

_SPACES: Final = ("system", "secure", "global")
_RANGES: Final = {"font_scale": (0.5, 2.0), "screen_brightness": (0, 255), "user_rotation": (0, 3)}
_RADIOS: Final = {"wifi": "wifi_on", "bluetooth": "bluetooth_on", "data": "mobile_data", "nfc": "nfc_on"}


def settings(call: CommandCall) -> None:
    """Get, put, delete, list, reset."""
    args = [arg for arg in call.args if not arg.startswith("--")]
    if "--user" in call.args and args[:1] and args[0] in ("0", "current"):
        args = args[1:]
    if len(args) < 2 or args[0] not in ("get", "put", "delete", "list", "reset") or args[1] not in _SPACES:
        raise CommandError(
            "Invalid command: settings get|put|delete|list|reset system|secure|global [NAME [VALUE]]", 255
        )
    action, space, *arguments = args
    if action == "list":
        for name, value in sorted(call.phone.state.settings[space].items()):
            call.print(f"{name}={value}")
    elif action == "reset":
        for name, value in default_settings()[space].items():
            call.phone.set_setting(name, value, space)
    elif not arguments:
        raise CommandError(f"settings {action} {space}: a name is missing", 255)
    elif action == "get":
        values = call.phone.state.settings[space]
        call.print(values.get(arguments[0], "null"))
    elif action == "put":
        if len(arguments) < 2:
            raise CommandError(f"settings put {space} {arguments[0]}: a value is missing", 255)
        put(call, space, arguments[0], arguments[1])
    else:
        existed = arguments[0] in call.phone.state.settings[space]
        call.phone.set_setting(arguments[0], default_settings()[space].get(arguments[0]), space)
        call.print(f"Deleted {int(existed)} rows")


def put(call: CommandCall, space: str, name: str, value: str) -> None:
    """Change a setting; one that is a number stays one.

    Raises:
        CommandError: the value is none, or out of its range.
    """
    default = default_settings()[space].get(name, "")
    low, high = _RANGES.get(name, (-1e12, 1e12))
    if _is_number(default):
        if not _is_number(value) or ("." not in default and "." in value):
            raise CommandError(f"settings: {name} takes a number such as {default}, got {value!r}", 255)
        if not low <= float(value) <= high:
            raise CommandError(f"settings: {name} is from {low} to {high}, got {value}", 255)
    call.phone.set_setting(name, value, space)


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text)) and text.strip("+-.0123456789") == ""
    except ValueError:
        return False


def svc(call: CommandCall) -> None:
    """Turn a radio on or off."""
    name, action = [*call.args, "", ""][:2]
    if name == "power" and action in ("stayon", "reboot", "shutdown"):
        if action != "stayon":
            raise CommandError("svc: a simulated phone is not turned off: stop its server instead")
        return
    if name not in _RADIOS or action not in ("enable", "disable", "prefer"):
        raise CommandError(f"Usage: svc {'|'.join(_RADIOS)} enable|disable, got {call.rest()!r}")
    call.phone.set_setting(_RADIOS[name], str(int(action != "disable")), "global")


COMMANDS: Final[dict[str, CommandFunction]] = {"settings": settings, "svc": svc}
