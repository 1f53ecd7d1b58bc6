"""The console of an emulator, which `adb -s emulator-PORT emu ...` talks to: messages, calls, rotation."""

from __future__ import annotations

import asyncio
import contextlib
import re
from asyncio import StreamReader, StreamWriter
from typing import Final

from turncredit.phone.intents import Intent, broadcast
from turncredit.phone.phone import Phone
from turncredit.phone.toolkit.app import BrokenApp

__all__ = ["run_console_line", "serve_console"]

SMS_RECEIVED: Final = "android.provider.Telephony.SMS_RECEIVED"
PHONE_STATE: Final = "android.intent.action.PHONE_STATE"
_HTTP: Final = re.compile(r" HTTP/\d")
_HELP: Final = (
    "Android console commands:\n    help\n    sms send\n    gsm call|accept|cancel|list\n    rotate\n    quit"
)


async def serve_console(phone: Phone, reader: StreamReader, writer: StreamWriter) -> None:
    """Answer lines until `quit`, the end, or one that is too long."""
    try:
        writer.write(b"Android Console: a simulated phone\r\nOK\r\n")
        while line := await reader.readline():
            text = line.decode("utf-8", "replace").strip()
            if text in ("quit", "exit") or _HTTP.search(text):  # a web page, whose body would be commands
                break
            if text:
                writer.write((run_console_line(phone, text).replace("\n", "\r\n") + "\r\n").encode("utf-8", "replace"))
                await writer.drain()
    except (OSError, ValueError, asyncio.LimitOverrunError):
        pass
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def run_console_line(phone: Phone, text: str) -> str:
    """Return what the console answers: lines, the last one 'OK' or 'KO: why'."""
    words = text.split(None, 3)
    command = " ".join(words[:2])
    try:
        if words[0] in ("help", "?"):
            return f"{_HELP}\nOK"
        if words[0] == "auth":
            return "OK"
        if command == "sms send":
            return _sms(phone, words[2:])
        if command in ("gsm call", "gsm accept", "gsm cancel", "gsm busy"):
            return _call(phone, words[1], words[2:3])
        if command == "gsm list":
            number = phone.state.settings.get("property", {}).get("gsm.call.number", "")
            return f"inbound from  {number} : incoming\nOK" if number else "OK"
        if command == "avd name":
            return "simulated_phone\nOK"
        if command == "avd status":
            return "virtual device is running\nOK"
        if words[0] == "rotate":
            phone.set_setting("user_rotation", str((phone.rotation + 1) % 4))
            return "OK"
        if words[0] == "kill":
            return "KO: a simulated phone ends with its server"
    except BrokenApp as error:
        return f"KO: {' '.join(str(error).split())}"
    return f"KO: unknown command, try 'help': {text[:60]!r}"


def _sms(phone: Phone, args: list[str]) -> str:
    if len(args) < 2:
        return "KO: missing arguments, usage: sms send <phonenumber> <text message>"
    extras = {"address": args[0], "number": args[0], "body": args[1], "text": args[1]}
    reached = broadcast(phone, Intent(SMS_RECEIVED, extras=extras))
    return "OK" if reached else "KO: no app of this phone receives messages"


def _call(phone: Phone, action: str, args: list[str]) -> str:
    if not args:
        return f"KO: missing argument, usage: gsm {action} <phonenumber>"
    state = {"call": "RINGING", "accept": "OFFHOOK"}.get(action, "IDLE")
    number = args[0] if state != "IDLE" else ""
    values = {"gsm.call.state": state.casefold(), "gsm.call.number": number}
    settings = phone.state.settings
    phone.change(settings={**settings, "property": {**settings.get("property", {}), **values}})
    broadcast(phone, Intent(PHONE_STATE, extras={"state": state, "number": args[0], "incoming_number": args[0]}))
    return "OK"
