"""The services that a stream can be opened to, by the names that adb uses."""

from __future__ import annotations

import re
import struct
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from turncredit.phone.adb.connection import AdbStream
from turncredit.phone.adb.sync import serve_sync
from turncredit.phone.adb.uiautomator import PORT, serve_http
from turncredit.phone.phone import Phone
from turncredit.phone.shell import InputNeeded, Result, Session, run

__all__ = ["FEATURES", "find_service"]

FEATURES: Final = ("shell_v2", "cmd", "stat_v2", "ls_v2", "fixed_push_mkdir")
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
_FRAME: Final = struct.Struct("<BI")
_MOST_INPUT: Final = 64 << 20
_PROMPT: Final = b"phone:/ # "
_ANSWERS: Final = {
    "root": "adbd is already running as root\n",
    "unroot": "adbd of a simulated phone always runs as root\n",
    "remount": "remount succeeded\n",
    "reboot": "error: a simulated phone does not reboot: start another one\n",
    "tcpip": "error: a simulated phone listens on its own TCP port\n",
    "usb": "error: a simulated phone has no USB\n",
    "disable-verity": "verity is off on a simulated phone\n",
    "enable-verity": "error: a simulated phone has no verity\n",
}

Service = Callable[[AdbStream], Awaitable[None]]


def find_service(phone: Phone, name: str) -> Service | None:
    """Return the service with a name such as "shell,v2:ls" or "sync:", or None if the phone has none."""
    kind, _, argument = name.partition(":")
    kind, *options = kind.split(",")
    if kind == "shell":
        framed = "v2" in options
        if not argument:
            return partial(_interactive, phone, framed, "raw" not in options)
        return partial(_framed if framed else _plain, phone, argument)
    if kind == "exec":
        return partial(_plain, phone, argument)
    if kind == "sync":
        return partial(serve_sync, phone)
    if kind == "tcp" and argument == str(PORT):
        return partial(serve_http, phone)
    if kind in _ANSWERS:
        return partial(_say, _ANSWERS[kind])
    return None


async def _say(text: str, stream: AdbStream) -> None:
    await stream.write(text.encode())


async def _run(phone: Phone, command: str, read: Callable[[int], Awaitable[bytes]], merged: bool) -> Result:
    """Run a command; if it reads standard input, wait for all of that and run it from the start."""
    sized = re.search(r"\binstall\b.* -S '?(\d+)", command)
    if sized:  # adb sends the APK before it reads why there was no use in that
        await read(int(sized[1]))
        return run(phone, command, merged=merged)
    before = phone.snapshot()
    try:
        return run(phone, command, None, merged)
    except InputNeeded:
        phone.restore(before)
    return run(phone, command, await read(_MOST_INPUT), merged)


async def _plain(phone: Phone, command: str, stream: AdbStream) -> None:
    """Bytes as they are, output and errors together; input ends when the client closes."""

    async def read(most: int) -> bytes:
        pieces, size = [], 0
        while size < most and (data := await stream.read()):
            pieces.append(data)
            size += len(data)
        return b"".join(pieces)

    result = await _run(phone, command, read, True)
    await stream.write(result.stdout + result.stderr)


async def _framed(phone: Phone, command: str, stream: AdbStream) -> None:
    """Shell protocol v2: input, output and errors apart, and the exit code."""

    async def read(most: int) -> bytes:
        pieces, size = [], 0
        while size < most:
            kind, length = _FRAME.unpack(await stream.read_exactly(_FRAME.size))
            data = await _take(stream, length)
            if kind == _CLOSE_STDIN:
                break
            if kind == _STDIN:
                pieces.append(data)
                size += len(data)
        return b"".join(pieces)

    result = await _run(phone, command, read, False)
    await stream.write(_frames(result.stdout, result.stderr) + _frame(_EXIT, bytes([result.code % 256])))


async def _take(stream: AdbStream, length: int) -> bytes:
    """Return the data of a frame; a longer one than there can be ends the stream."""
    return await stream.read_exactly(length) if length <= _MOST_INPUT else await stream.read_exactly(1 << 62)


def _frame(kind: int, data: bytes) -> bytes:
    return _FRAME.pack(kind, len(data)) + data


def _frames(stdout: bytes, stderr: bytes) -> bytes:
    parts = []
    for kind, data in ((_STDOUT, stdout), (_STDERR, stderr)):
        parts += [_frame(kind, data[at : at + 65536]) for at in range(0, len(data), 65536)]
    return b"".join(parts)


async def _interactive(phone: Phone, framed: bool, echo: bool, stream: AdbStream) -> None:
    """A shell that runs line after line until `exit` or the end of input."""
    session, waiting = Session(phone, merged=True), b""

    async def show(data: bytes) -> None:
        data = data.replace(b"\n", b"\r\n") if echo else data
        await stream.write(_frames(data, b"") if framed else data)

    await show(_PROMPT if echo else b"")
    ended = False
    while not ended:
        data = b""
        if framed:
            kind, length = _FRAME.unpack(await stream.read_exactly(_FRAME.size))
            content = await _take(stream, length)
            ended = kind == _CLOSE_STDIN
            data = content if kind == _STDIN else b""
        else:
            data = await stream.read()
            ended = not data
        ended = ended or b"\x04" in data
        waiting += data.replace(b"\r", b"\n").replace(b"\x04", b"\n")
        if len(waiting) > _MOST_INPUT:
            break
        if echo and data:
            await show(data.replace(b"\r", b"\n").replace(b"\x04", b""))
        *lines, waiting = waiting.split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "surrogateescape").strip()
            result = session.run(text)
            leave = text.split(" ")[0] == "exit"
            await show(result.stdout + result.stderr + (_PROMPT if echo and not leave else b""))
            if leave:
                ended = True
                break
    if framed:
        await stream.write(_frame(_EXIT, bytes([session.status % 256])))
