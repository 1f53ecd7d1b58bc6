"""The notification shade with quick settings, and the dialogs about apps: a permission, one that has failed."""

from __future__ import annotations

from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import Do, do
from turncredit.phone.toolkit.state import Notification
from turncredit.phone.toolkit.widgets import (
    Button,
    Dialog,
    Empty,
    Grid,
    Item,
    Row,
    Screen,
    Section,
    Slider,
    Spacer,
    Text,
    Tile,
    Widget,
)

# Label, icon, namespace, setting, value when on, value when off.
_QUICK = (
    ("Internet", "wifi", "global", "wifi_on", "1", "0"),
    ("Bluetooth", "bluetooth", "global", "bluetooth_on", "1", "0"),
    ("Do not disturb", "moon", "global", "zen_mode", "1", "0"),
    ("Flashlight", "flashlight", "secure", "flashlight_enabled", "1", "0"),
    ("Airplane mode", "airplane", "global", "airplane_mode_on", "1", "0"),
    ("Auto-rotate", "rotate", "system", "accelerometer_rotation", "1", "0"),
    ("Battery Saver", "battery", "global", "low_power", "1", "0"),
    ("Dark theme", "contrast", "secure", "ui_night_mode", "2", "1"),
)


def shade(ctx: Context) -> Screen:
    """Quick settings above the notifications."""
    tiles = [
        Tile(name, do(flip, setting=setting), icon, kind="toggle", selected=ctx.setting(setting, space) == on)
        for name, icon, space, setting, on, _ in _QUICK
    ]
    columns = 4 if ctx.phone.rotation % 2 else 2
    brightness = int(ctx.setting("screen_brightness") or "0")
    moment = ctx.now
    return Screen(
        "Notification shade",
        style="shade",
        body=[
            Row(
                [
                    Text(f"{moment:%H:%M}", style="headline"),
                    Text(f"{moment:%a}, {moment.day} {moment:%b}", align="right"),
                ]
            ),
            Spacer(8),
            Grid(tiles, columns=columns),
            Slider("", brightness, 0, 255, on_change=do(set_brightness), icon="brightness"),
            *_notifications(ctx),
        ],
        on_swipe_up=do(close),
    )


def _notifications(ctx: Context) -> list[Widget]:
    posted = ctx.phone.state.notifications
    if not posted:
        return [Empty("bell", "No notifications")]
    rows: list[Widget] = [_notification(ctx, i, posted[i]) for i in range(len(posted))]
    return [Section("Notifications"), *rows, Spacer(8), Button("Clear all", do(clear), kind="tonal")]


def _notification(ctx: Context, index: int, posted: Notification) -> Item:
    app = ctx.phone.apps[posted.package].name
    return Item(
        posted.title,
        posted.text,
        avatar=app,
        trailing=app,
        on_tap=do(answer, index=index),
        on_swipe=do(drop, index=index),
    )


def flip(ctx: Context, setting: str) -> None:
    """Turn a quick setting on or off."""
    _, _, space, _, on, off = next(quick for quick in _QUICK if quick[3] == setting)
    ctx.set_setting(setting, off if ctx.setting(setting, space) == on else on, space)


def set_brightness(ctx: Context) -> None:
    """Take the brightness from the slider."""
    ctx.set_setting("screen_brightness", str(ctx.value))


def answer(ctx: Context, index: int) -> None:
    """Do what a notification offers, and remove it."""
    posted = ctx.phone.state.notifications[index]
    drop(ctx, index)
    ctx.phone.state.windows = ()
    ctx.start(posted.package)
    ctx.phone.run(posted.on_tap, posted.package)


def drop(ctx: Context, index: int) -> None:
    """Remove a notification."""
    posted = ctx.phone.state.notifications
    ctx.phone.state.notifications = posted[:index] + posted[index + 1 :]


def clear(ctx: Context) -> None:
    """Remove all notifications."""
    ctx.phone.state.notifications = ()


def close(ctx: Context) -> None:
    """Push the shade up."""
    ctx.back()


def permission(ctx: Context, package: str, permission: str, then: Do) -> Dialog:
    """Ask whether an app may do something."""
    app, ability = ctx.phone.apps[package].name, permission.rsplit(".", 1)[-1].replace("_", " ").lower()
    allow = do(decide, package=package, permission=permission, then=then)
    return Dialog(
        f"Allow {app} to use: {ability}?",
        buttons=[Button("Don't allow", None, kind="text"), Button("Allow", allow)],
        modal=True,
        icon="lock",
    )


def decide(ctx: Context, package: str, permission: str, then: Do) -> None:
    """Grant the permission, and go on with what needed it."""
    ctx.phone.grant(package, permission)
    ctx.phone.run(then, package)


def stopped(ctx: Context, package: str) -> Dialog:
    """Say that an app has failed."""
    close_it = Button("Close app", do(close_app, package=package), kind="text")
    return Dialog(f"{ctx.phone.apps[package].name} keeps stopping", buttons=[close_it], modal=True, icon="info")


def close_app(ctx: Context, package: str) -> None:
    """Close an app with all its pages."""
    ctx.phone.stop(package)


APP = App(
    package="com.android.systemui",
    name="System UI",
    icon="settings",
    colour="#3c4043",
    screens=(shade, permission, stopped),
    activity=".Shade",
    hidden=True,
)
