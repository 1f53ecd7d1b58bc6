"""Commands that say little of their own: echo and its kin, what runs other commands, processes, and what is refused."""

from __future__ import annotations

import re
from typing import Final

from turncredit.phone.shell.activities import am
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, number
from turncredit.phone.shell.keyboards import ime
from turncredit.phone.shell.packages import pm
from turncredit.phone.shell.settings import settings

_LONGEST_SLEEP: Final = 3600  # seconds: every alarm of that time rings


def echo(call: CommandCall) -> None:
    """Print the arguments."""
    args = list(call.args)
    flags = ""
    while args and re.fullmatch(r"-[neE]+", args[0]):
        flags += args.pop(0)
    text = " ".join(args)
    if "e" in flags:
        text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\\\", "\\")
    call.write((text + ("" if "n" in flags else "\n")).encode("utf-8", "surrogateescape"))


def printf(call: CommandCall) -> None:
    """Print by a format with %s and %d."""
    if not call.args:
        raise CommandError("printf: needs a format")
    form, values = call.args[0], list(call.args[1:])
    text = re.sub(r"%([sd%])", lambda m: "%" if m[1] == "%" else (values.pop(0) if values else ""), form)
    text = text.replace("\\n", "\n").replace("\\t", "\t").replace("\\r", "\r").replace("\\\\", "\\")
    call.write(text.encode("utf-8", "surrogateescape"))


def true(call: CommandCall) -> int:
    """Succeed."""
    return 0


def false(call: CommandCall) -> int:
    """Fail."""
    return 1


def test(call: CommandCall) -> int:
    """Test files, texts and numbers."""
    args = list(call.args)
    if call.name == "[":
        if args[-1:] != ["]"]:
            raise CommandError("[: missing ']'", 2)
        args.pop()
    negated = args[:1] == ["!"]
    return int(_holds(call, args[1:] if negated else args) == negated)


def _holds(call: CommandCall, args: list[str]) -> bool:
    if len(args) == 2 and args[0] in ("-e", "-f", "-d", "-s", "-r", "-w", "-x"):
        entry = call.storage.find(call.path(args[1]))
        if entry is None:
            return False
        return {"-f": not entry.directory, "-d": entry.directory, "-s": entry.size > 0}.get(args[0], True)
    if len(args) == 2 and args[0] in ("-n", "-z"):
        return bool(args[1]) == (args[0] == "-n")
    if len(args) == 3 and args[1] in ("=", "==", "!="):
        return (args[0] == args[2]) == (args[1] != "!=")
    comparisons = {"-eq": "__eq__", "-ne": "__ne__", "-lt": "__lt__", "-le": "__le__", "-gt": "__gt__", "-ge": "__ge__"}
    if len(args) == 3 and args[1] in comparisons:
        return bool(getattr(number(call, args[0]), comparisons[args[1]])(number(call, args[2])))
    if len(args) <= 1:
        return bool(args and args[0])
    raise CommandError(f"{call.name}: cannot test {' '.join(args)!r}", 2)


def sleep(call: CommandCall) -> None:
    """Let the phone's clock move on by a minute for every second, as `DirectDevice.wait` does; nobody waits."""
    text = call.args[0] if call.args else ""
    if not re.fullmatch(r"\d{1,6}(\.\d*)?", text) or float(text) > _LONGEST_SLEEP:
        raise CommandError(f"sleep: bad time '{text}': a number of seconds up to {_LONGEST_SLEEP}")
    call.phone.advance(round(60 * float(text)))


def run_words(call: CommandCall) -> int:
    """Run the command in the arguments: `toybox ls`, `su 0 id`, `sh -c '...'`, `nohup`, `timeout 3 ls`."""
    words = list(call.args)
    if call.name in ("timeout", "su") and words[:1] and words[0] not in ("-c", "-"):
        words = words[1:]
    if call.name == "su" and not words:
        return 0
    if words[:1] == ["-c"]:
        words = ["sh", *words] if call.name in ("su", "sh") else words
    if call.name == "sh" and words[:1] != ["sh"]:
        text = call.read(words[0]) if words else call.stdin
        words = ["sh", "-c", text.decode("utf-8", "replace")]
    if call.name == "run-as":
        words = words[1:]
    if not words or call.run is None:
        raise CommandError(f"{call.name}: needs a command")
    result = call.run(words, call.input)
    call.write(result.stdout)
    call.err += result.stderr
    return int(result.code)


def cmd(call: CommandCall) -> int | None:
    """Talk to a service: package, activity, settings, input_method, statusbar, uimode, wifi, ..."""
    service, *words = call.args or [""]
    services = {"package": pm, "activity": am, "settings": settings, "input_method": ime}
    if service in services:
        call.args = words
        return services[service](call)
    action = " ".join(words)
    switches = {
        ("wifi", "set-wifi-enabled enabled"): ("wifi_on", "1"),
        ("wifi", "set-wifi-enabled disabled"): ("wifi_on", "0"),
        ("bluetooth_manager", "enable"): ("bluetooth_on", "1"),
        ("bluetooth_manager", "disable"): ("bluetooth_on", "0"),
        ("notification", "set_dnd on"): ("zen_mode", "1"),
        ("notification", "set_dnd off"): ("zen_mode", "0"),
        ("connectivity", "airplane-mode enable"): ("airplane_mode_on", "1"),
        ("connectivity", "airplane-mode disable"): ("airplane_mode_on", "0"),
    }
    if (service, action) in switches:
        name, value = switches[service, action]
        call.phone.set_setting(name, value, "global")
    elif service == "statusbar" and action in ("expand-notifications", "expand-settings"):
        call.phone.open_shade()
    elif service == "statusbar" and action == "collapse":
        call.phone.change(windows=())
    elif service == "uimode" and action in ("night yes", "night no"):
        call.phone.set_setting("ui_night_mode", "2" if action == "night yes" else "1", "secure")
    elif service == "uimode" and action == "night":
        call.print(f"Night mode: {'yes' if call.phone.setting('ui_night_mode', 'secure') == '2' else 'no'}")
    elif service == "-l":
        call.print(
            "Currently running services:\n  activity\n  connectivity\n  package\n  settings\n  statusbar\n  wifi"
        )
    else:
        call.warn(
            f"cmd: Can't find service: {service}" if not action else f"cmd {service}: no {action!r} on this phone"
        )
        return 20
    return 0


def ps(call: CommandCall) -> None:
    """Print one process for each open app."""
    call.print("USER           PID  PPID     VSZ    RSS WCHAN            ADDR S NAME")
    call.print("root             1     0   10000   1000 0                   0 S init")
    call.print("system        1000     1   10000   1000 0                   0 S system_server")
    for package, process in _processes(call):
        call.print(f"u0_a{process % 1000:<9} {process}  1000   10000   1000 0                   0 S {package}")


def _processes(call: CommandCall) -> list[tuple[str, int]]:
    every = list(call.phone.apps)
    return [(task.package, 2000 + every.index(task.package)) for task in call.phone.state.tasks]


def pidof(call: CommandCall) -> int:
    """Print the process of an open app."""
    numbers = [str(process) for package, process in _processes(call) if package in call.args]
    if numbers:
        call.print(" ".join(numbers))
    return int(not numbers)


def which(call: CommandCall) -> int:
    """Print where commands lie."""
    from turncredit.phone.shell.table import find_command

    missing = [name for name in call.args if find_command(name) is None]
    for name in call.args:
        if name not in missing:
            call.print(f"/system/bin/{name}")
    return int(bool(missing))


def nothing(call: CommandCall) -> None:
    """Accept what changes nothing on this phone."""


def reboot(call: CommandCall) -> int:
    """Refuse."""
    raise CommandError("reboot: a simulated phone does not reboot: start another one")


def app_process(call: CommandCall) -> int:
    """Refuse to run Java."""
    raise CommandError(f"{call.name}: this phone is simulated and runs no Java; its port 9008 speaks for uiautomator2")


COMMANDS: Final[dict[str, CommandFunction]] = {
    "[": test,
    ":": true,
    "app_process": app_process,
    "busybox": run_words,
    "cmd": cmd,
    "dalvikvm": app_process,
    "echo": echo,
    "env": run_words,
    "exec": run_words,
    "false": false,
    "nohup": run_words,
    "pidof": pidof,
    "printf": printf,
    "ps": ps,
    "reboot": reboot,
    "run-as": run_words,
    "sendevent": nothing,
    "setenforce": nothing,
    "sh": run_words,
    "sleep": sleep,
    "start": nothing,
    "stop": nothing,
    "su": run_words,
    "sync": nothing,
    "test": test,
    "timeout": run_words,
    "toybox": run_words,
    "true": true,
    "wait": nothing,
    "which": which,
}
