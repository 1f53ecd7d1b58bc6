"""Properties, the clock, who and what the phone is, and its log."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from turncredit.phone.clock_setting import set_clock
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, take_options
from turncredit.phone.toolkit.app import to_datetime

PROPERTIES: Final[dict[str, str]] = {
    "dev.bootcomplete": "1",
    "init.svc.bootanim": "stopped",
    "persist.sys.locale": "en-US",
    "persist.sys.timezone": "UTC",
    "ro.build.characteristics": "emulator",
    "ro.build.display.id": "turncredit simulated phone",
    "ro.build.fingerprint": "turncredit/phone/phone:13/SIM/1:user/release-keys",
    "ro.build.type": "user",
    "ro.build.version.release": "13",
    "ro.build.version.sdk": "33",
    "ro.debuggable": "1",
    "ro.product.brand": "turncredit",
    "ro.product.cpu.abi": "none",
    "ro.product.device": "phone",
    "ro.product.manufacturer": "turncredit",
    "ro.product.model": "Turncredit One",
    "ro.product.name": "phone",
    "ro.serialno": "turncredit",
    "ro.sf.lcd_density": "420",
    "service.bootanim.exit": "1",
    "sys.boot_completed": "1",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


def getprop(call: CommandCall) -> None:
    """Print a property, or all."""
    values = {**PROPERTIES, **call.phone.state.settings.get("property", {})}
    if call.args:
        call.print(values.get(call.args[0], call.args[1] if len(call.args) > 1 else ""))
    else:
        for name, value in sorted(values.items()):
            call.print(f"[{name}]: [{value}]")


def setprop(call: CommandCall) -> None:
    """Set a property that is not read only."""
    if len(call.args) != 2:
        raise CommandError("usage: setprop NAME VALUE")
    name, value = call.args
    if name.startswith("ro.") or not _NAME.fullmatch(name) or len(value) > 91:
        raise CommandError(f"setprop: failed to set property '{name}' to '{value[:100]}'")
    set_property(call, name, value)


def set_property(call: CommandCall, name: str, value: str) -> None:
    """Keep a property in the state of the phone."""
    settings = call.phone.state.settings
    call.phone.change(settings={**settings, "property": {**settings.get("property", {}), name: value}})


def date(call: CommandCall) -> None:
    """Print the clock, in a format if one is given, or set it."""
    options, args = take_options(call, "u", "sdD")
    moment = call.phone.now
    new = options.get("s", "")
    form = next((arg[1:] for arg in args if arg.startswith("+")), "%a %b %e %H:%M:%S UTC %Y")
    if not new and args and not args[0].startswith("+"):
        new = args[0]
    if "d" in options:
        moment = _moment(call, options["d"])
    elif new:
        moment = _moment(call, new)
        set_clock(call.phone, moment)
    seconds = str(int((moment - datetime(1970, 1, 1)).total_seconds()))
    form = form.replace("%s", seconds).replace("%N", "000000000").replace("%e", f"{moment.day:2d}")
    call.print(moment.strftime(form.encode("ascii", "replace").decode().replace("%Z", "UTC").replace("%z", "+0000")))


def _moment(call: CommandCall, text: str) -> datetime:
    """Return the time that a text means: @SECONDS, MMDDhhmm[[CC]YY][.ss] or YYYY-MM-DD [hh:mm[:ss]]."""
    try:
        if text.startswith("@"):
            moment = to_datetime(int(text[1:]))
        elif match := re.fullmatch(r"(\d{8})(\d{2}|\d{4})?(?:\.(\d\d))?", text):
            year = match[2] or str(call.phone.now.year)
            year = ("20" if int(year) < 70 else "19") + year if len(year) == 2 else year
            moment = datetime.strptime(year + match[1], "%Y%m%d%H%M") + timedelta(seconds=int(match[3] or 0))
        elif re.fullmatch(r"\d{8}\.\d{6}", text):
            moment = datetime.strptime(text, "%Y%m%d.%H%M%S")
        else:
            moment = datetime.fromisoformat(text)
        if not 1970 <= moment.year <= 2037:
            raise ValueError
    except (ValueError, OverflowError):
        raise CommandError(f"date: bad date '{text}'; write MMDDhhmm[[CC]YY][.ss], @SECONDS or YYYY-MM-DD") from None
    return moment.replace(tzinfo=None)


def whoami(call: CommandCall) -> None:
    """Print the user."""
    call.print("root")


def id_(call: CommandCall) -> None:
    """Print the user with its groups."""
    call.print("uid=0(root) gid=0(root) groups=0(root),1004(input),1007(log),3003(inet) context=u:r:su:s0")


def uname(call: CommandCall) -> None:
    """Print the system's name."""
    call.print("Linux localhost 5.15.0-simulated #1 SMP none Toybox" if call.args else "Linux")


def uptime(call: CommandCall) -> None:
    """Print the clock and a time since the start."""
    call.print(f" {call.phone.now:%H:%M:%S} up 0 days,  1:00,  0 users,  load average: 0.00, 0.00, 0.00")


def logcat(call: CommandCall) -> None:
    """Print the log, which does not wait for more, or clear it."""
    args = call.args
    if "-c" in args:
        call.phone.change(log=())
        return
    lines = list(call.phone.state.log)
    for flag in ("-t", "-T", "-m"):
        if flag in args and args[-1] != flag and args[args.index(flag) + 1].isdecimal():
            lines = lines[-int(args[args.index(flag) + 1]) :]
    tags = {
        arg.partition(":")[0] for arg in args if re.fullmatch(r"[\w.*-]+:[VDIWEFS]", arg) and not arg.startswith("*")
    }
    brief = "brief" in args
    call.print("--------- beginning of main")
    for line in lines:
        if tags and line.tag not in tags:
            continue
        when = f"{to_datetime(line.when):%m-%d %H:%M:%S}.000  1000  1000 "
        call.print(
            f"{line.level}/{line.tag}( 1000): {line.text}" if brief else f"{when}{line.level} {line.tag}: {line.text}"
        )


def log(call: CommandCall) -> None:
    """Write a line into the log."""
    options, words = take_options(call, "", "ptb")
    call.phone.log(options.get("t", "log"), " ".join(words), options.get("p", "i")[:1].upper())


COMMANDS: Final[dict[str, CommandFunction]] = {
    "date": date,
    "getprop": getprop,
    "id": id_,
    "log": log,
    "logcat": logcat,
    "setprop": setprop,
    "uname": uname,
    "uptime": uptime,
    "whoami": whoami,
}
