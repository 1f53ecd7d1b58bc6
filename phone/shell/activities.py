"""`am` and `monkey`: starting and stopping apps, broadcasts, the clipboard of Clipper, the text of keyboards."""

from __future__ import annotations

import random
from typing import Final

from turncredit.phone.intents import Intent, NoActivity, broadcast, start_activity
from turncredit.phone.phone import HOME, UnknownApp
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction, number
from turncredit.phone.shell.keyboards import take_broadcast
from turncredit.phone.toolkit.tables import Value

_FLAGS: Final = frozenset(("-W", "-S", "-D", "-N", "-R", "--activity-clear-top", "--activity-single-top"))
_WITH_VALUE: Final = frozenset(("-f", "--user", "--windowingMode", "--display", "--stream", "--receiver-permission"))
_NUMBERS: Final = {"--ei": int, "--el": int, "--ef": float}
_LISTS: Final = {
    f"--{letter}{end}": kind
    for letter, kind in (("es", str), ("ei", int), ("el", int), ("ef", float))
    for end in ("a", "al")
}


def parse_intent(args: list[str]) -> tuple[Intent, set[str]]:
    """Return the intent that the arguments of `am` describe, and the other options."""
    args = list(args)
    extras: dict[str, Value] = {}
    fields: dict[str, str] = {}
    options: set[str] = set()
    names = {"-a": "action", "-d": "data", "-t": "type", "-c": "category", "-n": "component", "-p": "package"}

    def take(option: str) -> str:
        if not args:
            raise CommandError(f'Error: Argument expected after "{option}"', 255)
        return args.pop(0)

    while args:
        word = args.pop(0)
        if word in names:
            fields[names[word]] = take(word)
        elif word in ("-e", "--es", "--eu", "--ecn", "--ez") or word in _NUMBERS or word in _LISTS:
            name = take(word)
            extras[name] = _extra(word, take(word))
        elif word == "--esn":
            extras[take(word)] = ""
        elif word in _WITH_VALUE:
            take(word)
        elif word.startswith("--") or word in _FLAGS:
            options.add(word)
        elif word.startswith("-"):
            raise CommandError(f"Error: Unknown option: {word}", 255)
        else:
            fields["component" if "/" in word and ":" not in word else "data" if ":" in word else "package"] = word
    return Intent(**fields, extras=extras), options


def _extra(option: str, text: str) -> Value:
    try:
        if option in _LISTS:
            return ",".join(str(_LISTS[option](item)) for item in text.split(","))
        return _NUMBERS.get(option, str)(text) if option != "--ez" else text == "true"
    except ValueError:
        raise CommandError(f"Error: {option} needs a number, got {text!r}", 255) from None


def am(call: CommandCall) -> int | None:
    """Run one of the actions of `am`."""
    action = _ACTIONS.get(call.args[0]) if call.args else None
    if action is None:
        actions = ", ".join(_ACTIONS)
        raise CommandError(f"Error: unknown command '{call.rest()[:80]}'; this phone has am {actions}", 255)
    return action(call, call.args[1:])


def _start(call: CommandCall, args: list[str]) -> int:
    intent, options = parse_intent(args)
    call.print(f"Starting: {intent}")
    try:
        if "-S" in options and intent.component:
            call.phone.stop(intent.component.partition("/")[0])
        component = start_activity(call.phone, intent)
    except NoActivity as error:
        call.warn(str(error))
        return 1
    if "-W" in options:
        for line in ("Status: ok", "LaunchState: COLD", f"Activity: {component}", "TotalTime: 1", "WaitTime: 2"):
            call.print(line)
        call.print("Complete")
    return 0


def _broadcast(call: CommandCall, args: list[str]) -> None:
    intent, _ = parse_intent(args)
    call.print(f"Broadcasting: {intent}")
    phone, action, extras = call.phone, intent.action, intent.extras
    if action == "clipper.get":
        call.print(f'Broadcast completed: result=-1, data="{phone.state.clipboard}"')
        return
    if action == "clipper.set":
        phone.change(clipboard=str(extras.get("text", "")))
        call.print('Broadcast completed: result=-1, data="Text is copied into clipboard."')
        return
    if result := take_broadcast(phone, intent):
        call.print(f"Broadcast completed: {result}")
        return
    if action == "android.intent.action.CLOSE_SYSTEM_DIALOGS":
        phone.change(windows=())
    elif action == "android.intent.action.AIRPLANE_MODE":
        phone.set_setting("airplane_mode_on", str(int(bool(extras.get("state")))), "global")
    else:
        broadcast(phone, intent)
    call.print("Broadcast completed: result=0")


def _stop(call: CommandCall, args: list[str]) -> None:
    """Close an app; one that is not there is closed already."""
    names = [arg for arg in args if not arg.startswith("-") and not arg.isdigit()]
    for name in names or [""]:
        if name in call.phone.apps:
            call.phone.stop(name)


def _stack(call: CommandCall, args: list[str]) -> None:
    tasks = call.phone.state.tasks
    if args[:1] == ["list"]:
        width, height = call.phone.size
        for task in tasks:
            app = call.phone.apps[task.package]
            call.print(f"RootTask id={_task_id(call, task.package)} bounds=[0,0][{width},{height}] userId=0")
            call.print(f"  taskId={_task_id(call, task.package)}: {app.component} userId=0 visible={task is tasks[0]}")
    elif args[:1] == ["remove"] and len(args) == 2:
        task_id = number(call, args[1])
        for task in tasks:
            if _task_id(call, task.package) == task_id and task.package != HOME:
                call.phone.stop(task.package)
    else:
        raise CommandError("Error: am stack list | remove TASK", 255)


def _task_id(call: CommandCall, package: str) -> int:
    return 1 + list(call.phone.apps).index(package)


def _user(call: CommandCall, args: list[str]) -> None:
    call.print("0")


def _nothing(call: CommandCall, args: list[str]) -> None:
    """Accept what changes nothing here: `am task lock`, `am wait-for-broadcast-idle`."""


def _instrument(call: CommandCall, args: list[str]) -> int:
    raise CommandError("INSTRUMENTATION_FAILED: this phone is simulated and runs no APKs")


_ACTIONS: Final = {
    "start": _start,
    "start-activity": _start,
    "broadcast": _broadcast,
    "force-stop": _stop,
    "kill": _stop,
    "kill-all": _nothing,
    "stack": _stack,
    "task": _nothing,
    "get-current-user": _user,
    "wait-for-broadcast-idle": _nothing,
    "instrument": _instrument,
}


def monkey(call: CommandCall) -> int:
    """Start an app, and with a count above 1 touch it at random, as the seed of -s says."""
    args, packages, seed, count = list(call.args), [], 0, None
    while args:
        word = args.pop(0)
        if word in ("-p", "-s", "-c", "--throttle") and args:
            value = args.pop(0)
            packages += [value] if word == "-p" else []
            seed = number(call, value) if word == "-s" else seed
        elif word.startswith("--pct-") and args:
            args.pop(0)
        elif not word.startswith("-"):
            count = number(call, word)
    if count is None:
        raise CommandError("** Error: Count not specified", 255)
    try:
        for package in packages:
            if package not in call.phone.apps:  # a name is no package
                raise UnknownApp(package)
            call.phone.launch(package)
    except UnknownApp:
        call.print("** No activities found to run, monkey aborted.")
        return 252
    draw, (width, height) = random.Random(seed), call.phone.size
    for _ in range(min(count, 10_000) - 1):
        call.phone.tap(draw.randrange(width), draw.randrange(height // 20, height * 19 // 20))
    call.print(f"Events injected: {count}")
    return 0


COMMANDS: Final[dict[str, CommandFunction]] = {"am": am, "monkey": monkey}
