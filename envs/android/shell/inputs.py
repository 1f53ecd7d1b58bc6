"""`input`: touches, text and keys."""

from __future__ import annotations

from typing import Final

from turnwise.envs.android.phone.keys import KEY_CODES
from turnwise.envs.android.shell.command import Call, CommandError, CommandFunction, number

_SOURCES: Final = frozenset(("touchscreen", "keyboard", "mouse", "dpad", "stylus", "trackball", "touchpad", "default"))
_LONG: Final = 1000  # milliseconds of a long press
_OLD_NAMES: Final = {"ENTER": 66, "NUMPAD_ENTER": 160, "SEARCH": 84, "CALL": 5, "ENDCALL": 6, "VOLUME_MUTE": 164}


def input_(call: Call) -> None:
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


def _points(call: Call, args: list[str], least: int, most: int) -> list[int]:
    if not least <= len(args) <= most:
        raise CommandError(f"Error: Invalid arguments for command: input\nexpected {least} to {most} numbers", 255)
    return [number(call, arg) for arg in args]


def _tap(call: Call, args: list[str]) -> None:
    x, y = _points(call, args, 2, 2)
    call.phone.tap(x, y)


def _swipe(call: Call, args: list[str]) -> None:
    x1, y1, x2, y2, *rest = _points(call, args, 4, 5)
    call.phone.swipe(x1, y1, x2, y2, rest[0] if rest else 300)


def _motion(call: Call, args: list[str]) -> None:
    """A finger that goes down and up again is a tap; moves in between are not kept."""
    if args and args[0].upper() in ("DOWN", "MOVE", "UP", "CANCEL"):
        x, y = _points(call, args[1:], 2, 2)
        if args[0].upper() == "UP":
            call.phone.tap(x, y)
    else:
        raise CommandError("Error: Invalid arguments for command: input\nmotionevent DOWN|UP|MOVE|CANCEL x y", 255)


def _text(call: Call, args: list[str]) -> None:
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


def _keys(call: Call, args: list[str]) -> None:
    codes = [key_code(arg) for arg in args if not arg.startswith("--")]
    if not codes:
        raise CommandError("Error: Insufficient arguments for command: keyevent", 255)
    for code in codes:
        call.phone.key(code)
        if "--doubletap" in args:
            call.phone.key(code)


def _combination(call: Call, args: list[str]) -> None:
    if args[:1] == ["-t"]:
        args = args[2:]
    call.phone.key(*[key_code(arg) for arg in args])


def _nothing(call: Call, args: list[str]) -> None:
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
