"""The launcher: home screen, app drawer, and recent apps."""

from __future__ import annotations

from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, opens
from turncredit.phone.toolkit.state import HOME
from turncredit.phone.toolkit.widgets import (
    Button,
    Empty,
    Grid,
    IconButton,
    Item,
    Screen,
    Spacer,
    Text,
    TextField,
    Tile,
)

_DOCK = ("org.turncredit.dialer", "org.turncredit.messages", "org.turncredit.browser", "org.turncredit.camera")


def home(ctx: Context) -> Screen:
    """The home screen: clock, date, and the first apps."""
    apps = visible_apps(ctx)
    dock = [app for app in apps if app.package in _DOCK] or apps[:4]
    others = [app for app in apps if app not in dock][:16]
    columns = 8 if ctx.phone.rotation % 2 else 4
    moment = ctx.now
    return Screen(
        "Home",
        style="wallpaper",
        body=[
            Spacer(28 if columns == 4 else 4),
            Text(f"{moment:%H:%M}", style="display", colour="on_wallpaper", align="center", id="clock"),
            Text(
                f"{moment:%A}, {moment.day} {moment:%B}",
                style="subtitle",
                colour="on_wallpaper",
                align="center",
                id="date",
            ),
            Spacer(36 if columns == 4 else 4),
            Grid([_tile(app) for app in others], columns=columns),
        ],
        bottom=[Grid([_tile(app) for app in dock], columns=max(4, len(dock))), _all_apps()],
        on_swipe_up=opens(drawer),
        on_back=do(stay),
    )


def _tile(app: App, kind: str = "home") -> Tile:
    return Tile(app.name, do(launch, package=app.package), icon=app.icon, colour=app.colour, kind=kind)


def _all_apps() -> IconButton:
    return IconButton("up", "All apps", opens(drawer), colour="on_wallpaper")


def drawer(ctx: Context) -> Screen:
    """All apps in the order of their names, with a search."""
    query = str(ctx.get("query", "")).casefold()
    apps = sorted((app for app in visible_apps(ctx) if query in app.name.casefold()), key=lambda app: app.name)
    columns = 8 if ctx.phone.rotation % 2 else 4
    return Screen(
        "Apps",
        style="shade",
        top=[Spacer(8), TextField("query", "Search apps", icon="search")],
        body=[Spacer(8), Grid([_tile(app, "app") for app in apps], columns=columns)]
        if apps
        else [Empty("search", "No apps")],
    )


def recents(ctx: Context) -> Screen:
    """The apps that are open, the latest first; a swipe to the side closes one."""
    rows = [
        Item(
            ctx.phone.apps[task.package].name,
            "Swipe to the side to close",
            avatar=ctx.phone.apps[task.package].name,
            end=IconButton("close", f"Close {ctx.phone.apps[task.package].name}", do(close, package=task.package)),
            on_tap=do(launch, package=task.package),
            on_swipe=do(close, package=task.package),
        )
        for task in ctx.phone.state.tasks
        if not ctx.phone.apps[task.package].hidden
    ]
    if not rows:
        return Screen("Recent apps", [Empty("recents", "No recent apps")], style="shade")
    body = [Spacer(24), Text("Recent apps", style="title"), Spacer(8), *rows, Spacer(16)]
    return Screen("Recent apps", [*body, Button("Clear all", do(close_all), kind="tonal")], style="shade")


def visible_apps(ctx: Context) -> list[App]:
    """Return the apps of the drawer."""
    return [app for app in ctx.phone.apps.values() if not app.hidden]


def launch(ctx: Context, package: str) -> None:
    """Open an app, and forget the drawer."""
    ctx.phone.go_home()
    ctx.start(package)


def stay(ctx: Context) -> None:
    """Do nothing: there is nothing behind the home screen."""


def close(ctx: Context, package: str) -> None:
    """Close an app."""
    ctx.phone.stop(package)


def close_all(ctx: Context) -> None:
    """Close all apps."""
    for task in ctx.phone.state.tasks:
        ctx.phone.stop(task.package)
    ctx.phone.go_home()


APP = App(
    package=HOME,
    name="Launcher",
    icon="home",
    colour="#3c4043",
    screens=(home, drawer, recents),
    activity=".Launcher",
    hidden=True,
)
