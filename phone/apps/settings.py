"""Settings: network, devices, display, sound, apps, date and time, about. Everything is a setting of the system."""

from __future__ import annotations

from turncredit.phone.screen.parts import format_date
from turncredit.phone.toolkit.app import App, Context
from turncredit.phone.toolkit.handlers import do, opens
from turncredit.phone.toolkit.tables import Columns
from turncredit.phone.toolkit.widgets import (
    Avatar,
    Button,
    Card,
    Dialog,
    Divider,
    Empty,
    Item,
    Radio,
    Row,
    Screen,
    Section,
    Slider,
    Spacer,
    Switch,
    Text,
    TextField,
    Widget,
    cancel_or,
)

TONES = ("Meadow", "Harbour", "Sunrise", "Copper bell", "Quiet rain")
FONT_SIZES = {"Small": "0.85", "Default": "1.0", "Large": "1.15", "Largest": "1.3"}
TIMEOUTS = {"15 seconds": "15000", "30 seconds": "30000", "1 minute": "60000", "5 minutes": "300000"}
_PLACES = ("Lindenhof", "Corner Cafe", "Blue Heron", "Attic", "Workshop", "Library", "Garden House", "Studio 5")
_GADGETS = ("Headphones", "Car audio", "Keyboard", "Watch", "Speaker", "Fitness band")


def fill(ctx: Context) -> None:
    """Draw the networks and the devices in the neighbourhood."""
    random = ctx.random
    places = random.shuffled(_PLACES)[:5]
    rows: list[Columns] = [
        {
            "name": f"{owner} {random.pick(('Wi-Fi', 'Net', 'Guest'))}",
            "secured": random.between(0, 1),
            "signal": 4 - i // 2,
        }
        for i, owner in enumerate(places)
    ]
    rows[0] |= {"saved": 1, "connected": 1}
    ctx.db.fill("networks", rows)
    gadgets = random.shuffled(_GADGETS)[:4]
    ctx.db.fill(
        "devices", [{"name": name, "paired": int(i < 2), "connected": int(i < 1)} for i, name in enumerate(gadgets)]
    )


def settings(ctx: Context) -> Screen:
    """The overview, which a search filters."""
    query = str(ctx.get("query", "")).casefold()
    sections = [item for item in _overview(ctx) if query in f"{item.title} {item.subtitle}".casefold()]
    rows: list[Widget] = [Spacer(8), *sections] if sections else [Empty("search", "Nothing found")]
    return Screen("Settings", rows, top=[TextField("query", "Search settings", icon="search"), Spacer(4)])


def _overview(ctx: Context) -> list[Item]:
    wifi = "Off" if ctx.setting("wifi_on", "global") != "1" else _connected(ctx) or "On"
    return [
        Item("Network & internet", f"Wi-Fi: {wifi}", "wifi", on_tap=do(show, screen="network")),
        Item("Connected devices", "Bluetooth, pairing", "devices", on_tap=do(show, screen="bluetooth")),
        Item("Apps", "Permissions of apps", "apps", on_tap=do(show, screen="apps")),
        Item("Notifications", "Do not disturb", "bell", on_tap=do(show, screen="notifications")),
        Item("Battery", "Battery Saver", "battery", on_tap=do(show, screen="battery")),
        Item("Sound & vibration", "Volume, ringtone", "volume", on_tap=do(show, screen="sound")),
        Item("Display", "Dark theme, font size, brightness", "brightness", on_tap=do(show, screen="display")),
        Item("Location", "Use of your location", "pin", on_tap=do(show, screen="location")),
        Item("Date & time", f"{ctx.now:%H:%M}", "clock", on_tap=do(show, screen="date_time")),
        Item("About phone", ctx.setting("device_name", "global"), "info", on_tap=do(show, screen="about")),
    ]


def _connected(ctx: Context) -> str:
    return next((str(row["name"]) for row in ctx.db.rows("networks", connected=1)), "")


def show(ctx: Context, screen: str) -> None:
    """Open a section."""
    ctx.open(APP.screen(screen))


def _switch(
    ctx: Context, title: str, icon: str, namespace: str, name: str, subtitle: str = "", on: str = "1"
) -> Switch:
    checked = ctx.setting(name, namespace) == on
    off = {"2": "1", "24": "12"}.get(on, "0")
    change = do(turn, namespace=namespace, name=name, on=on, off=off)
    return Switch(title, checked, change, subtitle=subtitle, icon=icon)


def turn(ctx: Context, namespace: str, name: str, on: str, off: str) -> None:
    """Set a setting to its value for on or off."""
    ctx.set_setting(name, on if ctx.value else off, namespace)


def slide(ctx: Context, name: str) -> None:
    """Set a setting of the system to the slider's value."""
    ctx.set_setting(name, str(ctx.value))


def network(ctx: Context) -> Screen:
    """Wi-Fi with its networks, mobile data, airplane mode."""
    body: list[Widget] = [
        _switch(ctx, "Wi-Fi", "wifi", "global", "wifi_on"),
        _switch(ctx, "Mobile data", "signal", "global", "mobile_data"),
        _switch(ctx, "Airplane mode", "airplane", "global", "airplane_mode_on"),
    ]
    if ctx.setting("wifi_on", "global") == "1":
        body.append(Section("Networks"))
        for row in ctx.db.rows("networks", order=lambda row: (-row["connected"], row["_id"])):
            state = "Connected" if row["connected"] else "Saved" if row["saved"] else ""
            lock = "Secured" if row["secured"] else "Open"
            body.append(Item(row["name"], state or lock, "wifi", on_tap=do(open_network, id=row["_id"])))
    return Screen("Network & internet", body)


def open_network(ctx: Context, id: int) -> None:
    """Connect to a network, after asking for the password of one that is not saved."""
    row = ctx.db.get("networks", id)
    if row and row["connected"]:
        ctx.open(network_detail, id=id)
    elif row and row["secured"] and not row["saved"]:
        ctx.open(password, id=id)
    elif row:
        connect(ctx, id)


def network_detail(ctx: Context, id: int) -> Dialog:
    """A network that is connected."""
    row = ctx.db.get("networks", id) or {"name": "", "signal": 0}
    buttons = [Button("Forget", do(forget, id=id), kind="text"), Button("Done", None, kind="text")]
    return Dialog(row["name"], [Text(f"Connected, signal {row['signal']} of 4")], buttons)


def password(ctx: Context, id: int) -> Dialog:
    """Ask for a password."""
    row = ctx.db.get("networks", id) or {"name": ""}
    buttons = cancel_or("Connect", do(check, id=id), kind="text")
    return Dialog(row["name"], [TextField("password", "Password", password=True)], buttons)


def check(ctx: Context, id: int) -> None:
    """Connect if the password has the eight characters that it must have."""
    if len(str(ctx.form["password"])) >= 8:
        connect(ctx, id)
    else:
        ctx.snackbar("The password must have at least 8 characters")


def connect(ctx: Context, id: int) -> None:
    """Use a network instead of the one so far."""
    for row in ctx.db.rows("networks", connected=1):
        ctx.db.update("networks", row["_id"], connected=0)
    ctx.db.update("networks", id, connected=1, saved=1)


def forget(ctx: Context, id: int) -> None:
    """Leave a network and forget its password."""
    ctx.db.update("networks", id, connected=0, saved=0)


def bluetooth(ctx: Context) -> Screen:
    """Bluetooth with its devices."""
    body: list[Widget] = [_switch(ctx, "Bluetooth", "bluetooth", "global", "bluetooth_on")]
    if ctx.setting("bluetooth_on", "global") == "1":
        for title, paired in (("Saved devices", 1), ("Available devices", 0)):
            rows = ctx.db.rows("devices", paired=paired)
            body += [Section(title)] if rows else []
            for row in rows:
                state = "Connected" if row["connected"] else "Saved" if paired else "Tap to pair"
                body.append(Item(row["name"], state, "devices", on_tap=do(pair, id=row["_id"])))
    return Screen("Connected devices", body)


def pair(ctx: Context, id: int) -> None:
    """Pair a device, or connect or disconnect a saved one."""
    row = ctx.db.get("devices", id)
    if row:
        ctx.db.update("devices", id, paired=1, connected=int(not row["connected"]))


def display(ctx: Context) -> Screen:
    """Brightness, dark theme, night light, font size, timeout, rotation."""
    sizes = {value: name for name, value in FONT_SIZES.items()}
    timeouts = {value: name for name, value in TIMEOUTS.items()}
    brightness = int(ctx.setting("screen_brightness") or "0")
    return Screen(
        "Display",
        [
            Slider(
                "Brightness level", brightness, 0, 255, on_change=do(slide, name="screen_brightness"), icon="brightness"
            ),
            _switch(ctx, "Adaptive brightness", "contrast", "system", "screen_brightness_mode"),
            _switch(ctx, "Dark theme", "moon", "secure", "ui_night_mode", on="2"),
            _switch(ctx, "Night Light", "sun", "secure", "night_display_activated"),
            Divider(),
            Item(
                "Font size", sizes.get(ctx.setting("font_scale"), "Custom"), "text", on_tap=do(show, screen="font_size")
            ),
            Item(
                "Screen timeout",
                timeouts.get(ctx.setting("screen_off_timeout"), "Custom"),
                "clock",
                on_tap=do(show, screen="timeout"),
            ),
            _switch(ctx, "Auto-rotate screen", "rotate", "system", "accelerometer_rotation"),
        ],
    )


def font_size(ctx: Context) -> Screen:
    """Four sizes, and a sample."""
    radios = _radios(ctx, FONT_SIZES, "font_scale")
    sample = Card([Text("Sample", style="subtitle"), Text("The ferry leaves at noon, and the baker opens at six.")])
    return Screen("Font size", [*radios, Spacer(16), sample])


def timeout(ctx: Context) -> Screen:
    """When the screen turns off."""
    return Screen("Screen timeout", _radios(ctx, TIMEOUTS, "screen_off_timeout"))


def tone(ctx: Context, name: str) -> Screen:
    """A choice of tones for `ringtone` or `alarm_alert`."""
    return Screen("Ringtone" if name == "ringtone" else "Alarm sound", _radios(ctx, {t: t for t in TONES}, name))


def _radios(ctx: Context, choices: dict[str, str], name: str) -> list[Widget]:
    current = ctx.setting(name)
    return [Radio(title, value == current, do(put, name=name, value=value)) for title, value in choices.items()]


def put(ctx: Context, name: str, value: str) -> None:
    """Set a setting of the system."""
    ctx.set_setting(name, value)


def sound(ctx: Context) -> Screen:
    """Volumes, tones, vibration."""
    volumes = (
        ("Media volume", "volume_music", 15),
        ("Ring volume", "volume_ring", 7),
        ("Alarm volume", "volume_alarm", 7),
    )
    sliders = [Slider(t, int(ctx.setting(n) or "0"), 0, most, on_change=do(slide, name=n)) for t, n, most in volumes]
    return Screen(
        "Sound & vibration",
        [
            *sliders,
            Divider(),
            Item("Phone ringtone", ctx.setting("ringtone"), "music", on_tap=opens(tone, name="ringtone")),
            Item("Default alarm sound", ctx.setting("alarm_alert"), "alarm", on_tap=opens(tone, name="alarm_alert")),
            _switch(ctx, "Touch vibration", "vibration", "system", "haptic_feedback_enabled"),
        ],
    )


def notifications(ctx: Context) -> Screen:
    """Do not disturb."""
    return Screen("Notifications", [_switch(ctx, "Do not disturb", "moon", "global", "zen_mode")])


def battery(ctx: Context) -> Screen:
    """Charge and saver."""
    card = Card([Text("78%", style="headline"), Text("About 1 day left", style="caption")])
    saver = _switch(ctx, "Battery Saver", "battery", "global", "low_power", "Limits background activity")
    return Screen("Battery", [Spacer(8), card, saver])


def location(ctx: Context) -> Screen:
    """Whether apps may know where the phone is."""
    return Screen("Location", [_switch(ctx, "Use location", "pin", "secure", "location_mode", on="3")])


def apps(ctx: Context) -> Screen:
    """All apps by name."""
    shown = sorted((app for app in ctx.phone.apps.values() if not app.hidden), key=lambda app: app.name)
    rows = [Item(app.name, app.package, avatar=app.name, on_tap=opens(app_info, package=app.package)) for app in shown]
    return Screen("Apps", rows)


def app_info(ctx: Context, package: str) -> Screen:
    """An app with its permissions."""
    app = ctx.phone.apps[package]
    switches: list[Widget] = []
    for name in app.permissions:
        title = name.rsplit(".", 1)[-1].replace("_", " ").capitalize()
        checked = (package, name) in ctx.phone.state.permissions
        switches.append(Switch(title, checked, do(permit, package=package, permission=name)))
    head: list[Widget] = [Row([Avatar(app.name, app.icon, 56), Text(app.name, style="headline")]), Spacer(8)]
    close = Button("Force stop", do(stop, package=package), kind="tonal")
    rows = switches or [Item("No permissions requested")]
    return Screen("App info", [*head, close, Section("Permissions"), *rows])


def permit(ctx: Context, package: str, permission: str) -> None:
    """Grant a permission, or take it away."""
    ctx.phone.grant(package, permission, bool(ctx.value))


def stop(ctx: Context, package: str) -> None:
    """Close an app."""
    ctx.phone.stop(package)


def date_time(ctx: Context) -> Screen:
    """The clock's format."""
    moment = ctx.now
    return Screen(
        "Date & time",
        [
            _switch(ctx, "Set time automatically", "clock", "global", "auto_time"),
            Item("Date", format_date(moment.date().isoformat())),
            Item("Time", f"{moment:%H:%M}"),
            _switch(ctx, "Use 24-hour format", "", "system", "time_12_24", on="24"),
        ],
    )


def about(ctx: Context) -> Screen:
    """The phone's name and versions."""
    return Screen(
        "About phone",
        [
            Item("Device name", ctx.setting("device_name", "global"), on_tap=do(show, screen="rename")),
            Item("Phone number", "+1 555 0100"),
            Item("Model", "Turncredit One"),
            Item("Android version", "13"),
        ],
    )


def rename(ctx: Context) -> Dialog:
    """Ask for the phone's name."""
    field = TextField("name", "Device name", ctx.setting("device_name", "global"))
    return Dialog("Device name", [field], cancel_or("OK", do(save_name), kind="text"))


def save_name(ctx: Context) -> None:
    """Take the new name unless it is empty."""
    name = str(ctx.form["name"]).strip()
    if name:
        ctx.set_setting("device_name", name, "global")


APP = App(
    package="com.android.settings",
    name="Settings",
    icon="settings",
    colour="#5f6368",
    activity=".Settings",
    schema={
        "networks": {"name": str, "secured": bool, "signal": int, "saved": bool, "connected": bool},
        "devices": {"name": str, "paired": bool, "connected": bool},
    },
    fill=fill,
    screens=(
        settings,
        network,
        network_detail,
        password,
        bluetooth,
        display,
        font_size,
        timeout,
        tone,
        sound,
        notifications,
        battery,
        location,
        apps,
        app_info,
        date_time,
        about,
        rename,
    ),
    intents={
        "android.settings.SETTINGS": "settings",
        "android.settings.WIFI_SETTINGS": "network",
        "android.settings.BLUETOOTH_SETTINGS": "bluetooth",
        "android.settings.DISPLAY_SETTINGS": "display",
        "android.settings.SOUND_SETTINGS": "sound",
    },
)
