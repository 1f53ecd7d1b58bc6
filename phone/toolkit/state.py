"""The state of a phone: values that never change once made, under a top of references that are replaced.

`State.copy()` is a snapshot: it copies the top and shares everything below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from turncredit.phone.toolkit.handlers import Arguments, Do
from turncredit.phone.toolkit.tables import Table, Value

__all__ = [
    "CURRENT_KEYBOARD",
    "ENABLED_KEYBOARDS",
    "HOME",
    "OWN_KEYBOARD",
    "AppPage",
    "Event",
    "File",
    "LogLine",
    "Notification",
    "Snackbar",
    "State",
    "Task",
    "default_settings",
    "tuple_text",
]

HOME: Final = "com.android.launcher3"
"""The package of the home screen."""
OWN_KEYBOARD: Final = "com.android.inputmethod/.Keyboard"
CURRENT_KEYBOARD: Final = "default_input_method"
"""The secure setting that says which keyboard is in use."""
ENABLED_KEYBOARDS: Final = "enabled_input_methods"
"""The secure setting that lists those which may be; not set: only the phone's own."""

Settings = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class AppPage:
    """One open screen: which, with what parameters, and what its user has done to it so far."""

    package: str
    screen: str
    params: Arguments = ()
    values: Mapping[str, Value] = field(default_factory=dict)  # of fields, switches, tabs; by key
    scroll: int | None = None  # pixels from the start; None: where the screen begins
    focus: str = ""  # key of the field with the cursor
    selection: tuple[int, int] = (0, 0)  # of its text; equal: a cursor
    keyboard: bool = False
    toolbar: bool = False  # cut, copy, paste

    def with_value(self, key: str, value: Value) -> AppPage:
        """Return the page with a value under a key."""
        return replace(self, values={**self.values, key: value})

    def key(self) -> tuple[object, ...]:
        """Return the page as nested tuples of plain values."""
        params = tuple((name, value.name if isinstance(value, Do) else repr(value)) for name, value in self.params)
        view = (self.scroll, self.focus, self.selection, self.keyboard, self.toolbar)
        return (self.package, self.screen, params, tuple(sorted(self.values.items())), view)

    @cached_property
    def text(self) -> str:
        """The key as text."""
        return repr(self.key())


@dataclass(frozen=True)
class Task:
    """An app in recent apps: its back stack, the page in front last."""

    package: str
    pages: tuple[AppPage, ...]

    @cached_property
    def text(self) -> str:
        """The package and the texts of the pages: the `repr` of nested tuples."""
        return f"({self.package!r}, {tuple_text([page.text for page in self.pages])})"


@dataclass(frozen=True, slots=True)
class File:
    """A file of the phone's storage; `modified` in seconds since 1970."""

    data: bytes
    modified: int = 0


@dataclass(frozen=True, slots=True)
class Notification:
    """An entry of the notification shade."""

    package: str
    title: str
    text: str
    when: int
    on_tap: Do | None = None
    tag: str = ""  # a newer notification of the app with the same tag replaces it


@dataclass(frozen=True, slots=True)
class Snackbar:
    """A short message at the bottom, until the next input."""

    text: str
    label: str = ""
    package: str = ""
    on_tap: Do | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An action that runs when the clock gets to a time."""

    when: int
    package: str
    action: Do


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the system's log."""

    when: int
    level: str  # V, D, I, W or E
    tag: str
    text: str


@dataclass(slots=True)
class State:
    """Everything that can change. The values are immutable or never changed in place."""

    clock: int  # seconds since 1970-01-01 of local time
    settings: Settings
    seed: int | str = 0  # of the content of all apps; never changes
    databases: dict[str, dict[str, Table]] = field(default_factory=dict)  # by package; absent: not opened yet
    files: Mapping[str, File] | None = None  # by absolute path; None: storage not opened yet
    tasks: tuple[Task, ...] = ()  # the one in front first
    windows: tuple[AppPage, ...] = ()  # of the system, above the app: shade, permission dialog
    clipboard: str = ""
    snackbar: Snackbar | None = None
    notifications: tuple[Notification, ...] = ()
    permissions: frozenset[tuple[str, str]] = frozenset()  # granted: (package, permission)
    events: tuple[Event, ...] = ()
    screen_on: bool = True
    directories: frozenset[str] = frozenset()  # that were made and hold no file
    log: tuple[LogLine, ...] = ()  # the newest last; not a part of the situation
    outside: bool = False  # adb has worked on it; not a part of the situation

    @property
    def day(self) -> int:
        """The date of the clock, in days since 1970-01-01."""
        return self.clock // 86_400

    def setting(self, name: str, namespace: str) -> str:
        """Return a setting, "" if it is not set."""
        return self.settings[namespace].get(name, "")

    def tables(self, package: str) -> dict[str, Table] | None:
        """Return the tables of an app, None if it was not opened yet."""
        return self.databases.get(package)

    def open_tables(self, package: str, tables: dict[str, Table]) -> None:
        """Give an app its first tables."""
        self.databases[package] = tables

    def copy(self) -> State:
        """Return a snapshot, which shares all values with this state."""
        return replace(self, databases={package: dict(tables) for package, tables in self.databases.items()})


_SETTINGS: Final[dict[str, dict[str, str]]] = {
    "system": {
        "accelerometer_rotation": "0",
        "alarm_alert": "Sunrise",
        "font_scale": "1.0",
        "haptic_feedback_enabled": "1",
        "ringtone": "Meadow",
        "screen_brightness": "102",
        "screen_brightness_mode": "0",
        "screen_off_timeout": "60000",
        "time_12_24": "24",
        "user_rotation": "0",
        "volume_alarm": "6",
        "volume_music": "5",
        "volume_ring": "5",
    },
    "secure": {
        "android_id": "5d1f0c2ab9e47736",
        CURRENT_KEYBOARD: OWN_KEYBOARD,
        "flashlight_enabled": "0",
        "location_mode": "3",
        "night_display_activated": "0",
        "ui_night_mode": "1",
        "user_setup_complete": "1",
    },
    "global": {
        "adb_enabled": "1",
        "airplane_mode_on": "0",
        "auto_time": "0",
        "bluetooth_on": "1",
        "device_name": "Phone",
        "development_settings_enabled": "1",
        "low_power": "0",
        "mobile_data": "1",
        "wifi_on": "1",
        "zen_mode": "0",
    },
}


def tuple_text(texts: list[str]) -> str:
    """Return the `repr` of a tuple from those of what is in it."""
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def default_settings() -> Settings:
    """Return the settings of a new phone: namespace -> name -> text, as Android keeps them."""
    return {space: dict(values) for space, values in _SETTINGS.items()}
