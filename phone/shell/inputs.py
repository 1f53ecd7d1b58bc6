"""`input`: touches, text and keys."""

from __future__ import annotations

from typing import Final

from turncredit.phone.screen.keys import KEY_CODES
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, number

_SOURCES: Final = frozenset(("touchscreen", "keyboard", "mouse", "dpad", "stylus", "trackball", "touchpad", "default"))
_LONG_PRESS: Final = 500  # milliseconds of a long press of a key
_OWN_LONG_PRESS: Final = tuple(KEY_CODES[name] for name in ("POWER", "HOME", "APP_SWITCH"))
_OLD_NAMES: Final = {"ENTER": 66, "NUMPAD_ENTER": 160, "SEARCH": 84, "CALL": 5, "ENDCALL": 6, "VOLUME_MUTE": 164}


def input_(call: CommandCall) -> None:
    """Tap, swipe, type, press."""
    args = [arg for arg in call.args if arg not in _SOURCES]
    if args[:1] == ["-d"]:
        args = args[2:]
    if not args:
        raise CommandError("Error: Insufficient arguments for command: input\nUsage: input [<source>] <command>", 255)
    action = _ACTIONS.get(args[0])
    if action is None:
        raise CommandError(f"Error: Unknown command: {args[0]}\nUsage: input [<source>] <command> [<arg>...]", 255)
    action(call, args[1:])


def _points(call: CommandCall, args: list[str], least: int, most: int) -> list[int]:
    if not least <= len(args) <= most:
        raise CommandError(f"Error: Invalid arguments for command: input\nexpected {least} to {most} numbers", 255)
    return [number(call, arg) for arg in args]


def _tap(call: CommandCall, args: list[str]) -> None:
    x, y = _points(call, args, 2, 2)
    call.phone.tap(x, y)


def _swipe(call: CommandCall, args: list[str]) -> None:
    x1, y1, x2, y2, *duration = _points(call, args, 4, 5)
    call.phone.swipe(x1, y1, x2, y2, duration[0] if duration else 300)


def _motion(call: CommandCall, args: list[str]) -> None:
    """A finger that goes down and up again is a tap; moves in between are not kept."""
    if args and args[0].upper() in ("DOWN", "MOVE", "UP", "CANCEL"):
        x, y = _points(call, args[1:], 2, 2)
        if args[0].upper() == "UP":
            call.phone.tap(x, y)
    else:
        raise CommandError("Error: Invalid arguments for command: input\nmotionevent DOWN|UP|MOVE|CANCEL x y", 255)


def _text(call: CommandCall, args: list[str]) -> None:
    if not args:
        raise CommandError("Error: Insufficient arguments for command: text", 255)
    call.phone.text(args[0].replace("%s", " "))


def key_code(name: str) -> int:
    """Return the code of a key by number or name.

    Raises:
        CommandError: there is no such key.
    """
    if name.lstrip("-").isdecimal() and len(name) < 10:
        return int(name)
    short = name.upper().removeprefix("KEYCODE_")
    code = KEY_CODES.get(short, _OLD_NAMES.get(short))
    if code is None:
        raise CommandError(f"Error: Invalid arguments for command: keyevent\nunknown key: {name}", 255)
    return code


def _keys(call: CommandCall, args: list[str]) -> None:
    args, times, long = list(args), 1, False
    while args and args[0].startswith("--"):
        option = args.pop(0)
        if option in ("--duration", "--delay"):
            value = number(call, args.pop(0)) if args else 0
            long = long or (option == "--duration" and value >= _LONG_PRESS)
        elif option in ("--longpress", "--doubletap", "--async"):
            times = 2 if option == "--doubletap" else times
            long = long or option == "--longpress"
        else:
            raise CommandError(f"Error: Invalid arguments for command: keyevent\nunknown option: {option}", 255)
    codes = [key_code(arg) for arg in args]
    if not codes:
        raise CommandError("Error: Insufficient arguments for command: keyevent", 255)
    for code in codes:
        for _ in range(times):
            _press(call, code, long)


def _press(call: CommandCall, code: int, long: bool) -> None:
    """Press a key; where a device opens its power menu or its assistant, which are not here, nothing happens."""
    if not long or code not in _OWN_LONG_PRESS:
        call.phone.key(code)
    elif code == KEY_CODES["POWER"] and not call.phone.state.screen_on:
        call.phone.key(KEY_CODES["WAKEUP"])


def _combination(call: CommandCall, args: list[str]) -> None:
    if args[:1] == ["-t"]:
        args = args[2:]
    call.phone.key(*[key_code(arg) for arg in args])


def _nothing(call: CommandCall, args: list[str]) -> None:
    """A trackball's moves: there is none."""


_ACTIONS: Final = {
    "tap": _tap,
    "swipe": _swipe,
    "draganddrop": _swipe,
    "motionevent": _motion,
    "text": _text,
    "keyevent": _keys,
    "keycombination": _combination,
    "press": _nothing,
    "roll": _nothing,
}

COMMANDS: Final[dict[str, CommandFunction]] = {"input": input_}
