"""`uiautomator`, `screencap` and `wm`: what the screen shows, and its size."""

from __future__ import annotations

import io
import struct
from typing import Final

from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, take_options

DENSITY: Final = 420
_SHOWN: Final = ("/dev/tty", "/dev/stdout", "/proc/self/fd/1", "/dev/fd/1")


def uiautomator(call: CommandCall) -> None:
    """Write the accessibility tree into a file, or to a terminal."""
    args = [arg for arg in call.args if not arg.startswith("--")]
    if args[:1] != ["dump"]:
        raise CommandError("Usage: uiautomator dump [--compressed] [FILE]; tests are APKs, which cannot run here")
    name = args[1] if len(args) > 1 else "/sdcard/window_dump.xml"
    data = call.phone.xml().encode("utf-8", "replace")
    if name in _SHOWN:
        call.write(data)
    else:
        call.storage.write(call.path(name), data)
    call.print(f"UI hierchary dumped to: {name}")


def screencap(call: CommandCall) -> None:
    """Write a screenshot, as PNG with -p or for names that end so, else as raw RGBA behind four numbers."""
    options, names = take_options(call, "ph", "d")
    try:
        image = call.phone.screenshot()
    except ModuleNotFoundError as error:
        raise CommandError(f"screencap: {error}") from None
    if "p" in options or (names and names[0].endswith(".png")):
        stream = io.BytesIO()
        image.save(stream, "PNG", compress_level=1)
        data = stream.getvalue()
    else:
        data = struct.pack("<IIII", *image.size, 1, 0) + image.convert("RGBA").tobytes()
    if names:
        call.storage.write(call.path(names[0]), data)
    else:
        call.write(data)


def wm(call: CommandCall) -> None:
    """Print size and density; the screen of this phone has one size."""
    if call.args == ["size"]:
        width, height = sorted(call.phone.size)
        call.print(f"Physical size: {width}x{height}")
    elif call.args == ["density"]:
        call.print(f"Physical density: {DENSITY}")
    elif call.args in (["size", "reset"], ["density", "reset"]):
        return
    elif call.args[:1] in (["dismiss-keyguard"], ["user-rotation"]):
        _rotate(call)
    else:
        raise CommandError(f"wm: {call.rest()!r} is not supported: the screen of this phone has one size", 255)


def _rotate(call: CommandCall) -> None:
    """Turn the screen for `wm user-rotation lock 1`."""
    turns = [arg for arg in call.args[1:] if arg in ("0", "1", "2", "3")]
    if call.args[0] == "user-rotation" and turns:
        call.phone.set_setting("user_rotation", turns[0])


COMMANDS: Final[dict[str, CommandFunction]] = {"uiautomator": uiautomator, "screencap": screencap, "wm": wm}
