"""`pm`: the packages of the phone, their data and permissions. Nothing can be installed: there is no Java here."""

from __future__ import annotations

from typing import Final

from turncredit.phone.intents import answering
from turncredit.phone.shell.activities import parse_intent
from turncredit.phone.shell.command import CommandCall, CommandError, CommandFunction
from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.tables import empty_tables

_ALIASES: Final = {
    "com.android.providers.contacts": "org.turncredit.contacts",
    "com.android.providers.telephony": "org.turncredit.messages",
    "com.android.providers.calendar": "org.turncredit.calendar",
}
REFUSED: Final = "this phone is simulated and cannot run APKs; its apps are listed by `pm list packages`"


def pm(call: CommandCall) -> int | None:
    """Run one of the actions of `pm`."""
    action = _ACTIONS.get(call.args[0]) if call.args else None
    if action is None:
        actions = ", ".join(_ACTIONS)
        raise CommandError(f"Error: unknown command '{call.rest()[:80]}'; this phone has pm {actions}", 255)
    return action(call, _without_user(call.args[1:]))


def _without_user(args: list[str]) -> list[str]:
    if "--user" in args:
        at = args.index("--user")
        return args[:at] + args[at + 2 :]
    return args


def _app(call: CommandCall, name: str) -> App | None:
    return call.phone.apps.get(_ALIASES.get(name, name))


def _list(call: CommandCall, args: list[str]) -> None:
    if args[:1] == ["users"]:
        call.print("Users:\n\tUserInfo{0:Owner:c13} running")
    elif args[:1] == ["features"]:
        call.print("feature:android.hardware.touchscreen")
    elif args[:1] == ["permissions"]:
        for name in sorted({name for app in call.phone.apps.values() for name in app.permissions}):
            call.print(f"permission:{name}")
    elif args[:1] in (["packages"], ["package"]):
        _list_packages(call, args[1:])
    else:
        raise CommandError("Error: pm list packages | permissions | features | users", 255)


def _list_packages(call: CommandCall, args: list[str]) -> None:
    filters = [arg for arg in args if not arg.startswith("-")]
    for app in sorted(call.phone.apps.values(), key=lambda app: app.package):
        system = app.hidden or app.package.startswith("com.android.")
        shown = not (("-3" in args and system) or ("-s" in args and not system) or "-d" in args)
        if shown and all(text in app.package for text in filters):
            path = f"{_path(app)}=" if "-f" in args else ""
            call.print(f"package:{path}{app.package}")


def _path(app: App) -> str:
    return f"/data/app/{app.package}/base.apk"


def _show_path(call: CommandCall, args: list[str]) -> int:
    app = _app(call, args[0]) if args else None
    if app is None:
        return 1
    call.print(f"package:{_path(app)}")
    return 0


def clear(call: CommandCall, args: list[str]) -> int:
    """Empty the databases of an app, take back its permissions and close it."""
    app = _app(call, args[0]) if args else None
    if app is None:
        call.print("Failed")
        return 1
    phone = call.phone
    phone.stop(app.package)
    phone.tables(app.package)
    phone.state.databases[app.package] = empty_tables(app.schema)
    permissions = frozenset(held for held in phone.state.permissions if held[0] != app.package)
    events = tuple(event for event in phone.state.events if event.package != app.package)
    shown = tuple(notification for notification in phone.state.notifications if notification.package != app.package)
    own = f"/data/data/{app.package}/"
    files = {path: file for path, file in phone.files.items() if not path.startswith(own)}
    phone.change(permissions=permissions, events=events, notifications=shown, files=files)
    if app.empty:
        app.empty(Context(phone, app.package))
    call.print("Success")
    return 0


def _grant(call: CommandCall, args: list[str]) -> None:
    _permit(call, args, True)


def _revoke(call: CommandCall, args: list[str]) -> None:
    _permit(call, args, False)


def _permit(call: CommandCall, args: list[str], granted: bool) -> None:
    app = _app(call, args[0]) if len(args) == 2 else None
    if app is None:
        raise CommandError(f"Exception occurred while executing 'grant': Unknown package: {args[:1]}", 255)
    call.phone.grant(app.package, args[1], granted)


def _query(call: CommandCall, args: list[str]) -> None:
    """Print the activities for an intent."""
    apps, options = _answering(call, args)
    if "--components" in options:
        for app in apps:
            call.print(app.component)
        return
    call.print(f"{len(apps)} activities found:" if apps else "No activities found")
    for at, app in enumerate(apps):
        call.print(f"  Activity #{at}:")
        _print_activity(call, app, options, "    ")


def _resolve(call: CommandCall, args: list[str]) -> None:
    """Print the activity that `am start` would start."""
    apps, options = _answering(call, args)
    if not apps:
        call.print("No activity found")
    elif "--components" in options:
        call.print(apps[0].component)
    else:
        _print_activity(call, apps[0], options, "")


def _answering(call: CommandCall, args: list[str]) -> tuple[list[App], set[str]]:
    if "--query-flags" in args:
        at = args.index("--query-flags")
        args = args[:at] + args[at + 2 :]
    intent, options = parse_intent(args)
    return answering(call.phone, intent), options


def _print_activity(call: CommandCall, app: App, options: set[str], indent: str) -> None:
    call.print(f"{indent}priority=0 preferredOrder=0 match=0x108000 specificIndex=-1 isDefault=true")
    if "--brief" in options:
        call.print(f"{indent}{app.component}")
        return
    name = app.package + app.activity if app.activity.startswith(".") else app.activity
    call.print(f"{indent}ActivityInfo:\n{indent}  name={name}\n{indent}  packageName={app.package}")
    call.print(f"{indent}  enabled=true exported=true directBootAware=false")


def _install(call: CommandCall, args: list[str]) -> int:
    call.print(f"Failure [INSTALL_FAILED_NO_MATCHING_ABIS: {REFUSED}]")
    return 1


def _uninstall(call: CommandCall, args: list[str]) -> int:
    call.print("Failure [DELETE_FAILED_INTERNAL_ERROR: the apps of this simulated phone cannot be removed]")
    return 1


def _nothing(call: CommandCall, args: list[str]) -> None:
    """Accept what changes nothing here."""


_ACTIONS: Final = {
    "list": _list,
    "path": _show_path,
    "clear": clear,
    "grant": _grant,
    "revoke": _revoke,
    "query-activities": _query,
    "query-intent-activities": _query,
    "resolve-activity": _resolve,
    "install": _install,
    "install-create": _install,
    "install-write": _install,
    "uninstall": _uninstall,
    "enable": _nothing,
    "trim-caches": _nothing,
}

COMMANDS: Final[dict[str, CommandFunction]] = {"pm": pm}
