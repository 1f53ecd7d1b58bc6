"""The content of a device that adb shows without root: settings, contacts, messages, calls, files, the next alarm.

`observe` returns it as the `Content` that the judge compares. Only what people change is watched: other settings
change by themselves on a real device. Databases of apps stay closed without root.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from turncredit.envs.android.tasks.judge import Content
from turncredit.phone.toolkit.tables import Columns, Row
from turncredit.tools.android.device import Device, DeviceError, DeviceLost

__all__ = [
    "ADB",
    "FOLDERS",
    "PARTS",
    "SETTINGS",
    "WatchedSetting",
    "add_contact",
    "bind",
    "change_setting",
    "observe",
    "readable",
    "restore",
    "shown_rows",
    "watched_settings",
]

ADB: Final = "adb"
"""The package under which an observed `Content` keeps its tables."""

FOLDERS: Final = ("/sdcard/Download", "/sdcard/Documents")
"""Whose files are watched."""

_PATIENCE: Final = 3.0  # seconds that a radio has to turn on or off
_MOST_BYTES: Final = 1 << 16  # of a changed file, which is read whole


@dataclass(frozen=True, slots=True)
class WatchedSetting:
    """A setting, and the commands that set it properly where `settings put` alone does not take effect."""

    namespace: str
    name: str
    commands: Mapping[str, str] = field(default_factory=dict)  # value -> command


def _by(command: str, on: str, off: str, values: tuple[str, str] = ("1", "0")) -> dict[str, str]:
    return {values[0]: f"{command} {on}", values[1]: f"{command} {off}"}


SETTINGS: Final[tuple[WatchedSetting, ...]] = (
    WatchedSetting("global", "wifi_on", _by("svc wifi", "enable", "disable")),
    WatchedSetting("global", "bluetooth_on", _by("svc bluetooth", "enable", "disable")),
    WatchedSetting("global", "airplane_mode_on", _by("cmd connectivity airplane-mode", "enable", "disable")),
    WatchedSetting("global", "zen_mode", _by("cmd notification set_dnd", "on", "off")),
    WatchedSetting("global", "low_power"),
    WatchedSetting("global", "device_name"),
    WatchedSetting("global", "auto_time"),
    WatchedSetting("secure", "ui_night_mode", _by("cmd uimode night", "yes", "no", ("2", "1"))),
    WatchedSetting("secure", "night_display_activated"),
    WatchedSetting("secure", "location_mode"),
    WatchedSetting("system", "accelerometer_rotation"),
    WatchedSetting("system", "screen_brightness"),
    WatchedSetting("system", "screen_brightness_mode"),
    WatchedSetting("system", "font_scale"),
    WatchedSetting("system", "screen_off_timeout"),
    WatchedSetting("system", "time_12_24"),
)
_SPACES: Final = ("system", "secure", "global")


@dataclass(frozen=True, slots=True)
class _ShownTable:
    """Rows that a provider shows to the shell: the columns that are compared, free text last."""

    uri: str
    columns: tuple[str, ...]


_TABLES: Final[Mapping[str, _ShownTable]] = {
    "contacts": _ShownTable("content://com.android.contacts/data/phones", ("data1", "display_name")),
    "messages": _ShownTable("content://sms", ("type", "address", "body")),
    "calls": _ShownTable("content://call_log/calls", ("type", "duration", "number")),
}
PARTS: Final = (*_TABLES, "files", "alarm")
"""What a template may need besides the settings, which every device shows."""


def shown_rows(device: Device, table: str) -> dict[int, Columns]:
    """Return the rows of "contacts", "messages" or "calls" by id.

    Raises:
        DeviceError: the device does not show them.
    """
    source = _TABLES[table]
    columns = ("_id", *source.columns)
    text = device.shell(f"content query --uri {source.uri} --projection {':'.join(columns)}")
    form = ", ".join(f"{name}=(?P<{name}>.*{'?' if name != columns[-1] else ''})" for name in columns)
    rows = {}
    for piece in re.split(r"(?m)^(?=Row: \d+ _id=\d)", text)[1:]:
        if match := re.fullmatch(rf"Row: \d+ {form}\n?", piece, re.DOTALL):
            rows[int(match["_id"])] = {name: match[name].rstrip("\n") for name in source.columns}
    if "Error" in text and not rows:
        raise DeviceError(f"{device.serial} does not show {table}: {text.strip().splitlines()[-1][:200]}")
    return rows


def readable(device: Device) -> list[str]:
    """Return the parts that a device shows.

    Raises:
        DeviceLost: the device is gone.
    """
    names = []
    for part in PARTS:
        try:
            observe(device, [part])
        except DeviceLost:
            raise
        except DeviceError:
            continue
        names.append(part)
    return names


def observe(device: Device, parts: Iterable[str], before: Content | None = None) -> Content:
    """Return what a device holds now.

    Args:
        device: which.
        parts: of `PARTS`, besides the settings.
        before: an earlier content; files that differ from it are read, of the others only the digest is known.

    Raises:
        DeviceError: the device does not show one of the parts.
        DeviceLost: the device is gone.
    """
    parts = set(parts)
    tables = {name: shown_rows(device, name) for name in _TABLES if name in parts}
    settings = watched_settings(device)
    if "alarm" in parts:
        settings["dumpsys"] = {"next_alarm": _next_alarm(device)}
    files = _files(device, before.files if before else None) if "files" in parts else {}
    return Content({ADB: tables}, settings, files, (device.activity().partition("/")[0], "", {}))


def watched_settings(device: Device) -> dict[str, dict[str, str]]:
    """Return the settings of `SETTINGS` by namespace; one that the device lacks is ""."""
    text = device.shell("; echo; ".join(f"echo ={space}; settings list {space}" for space in _SPACES))
    values: dict[str, dict[str, str]] = {space: {} for space in _SPACES}
    space = ""
    for line in text.splitlines():
        name, _, value = line.partition("=")
        if not name and value in values:
            space = value
        elif space and name:
            values[space].setdefault(name, value)
    result: dict[str, dict[str, str]] = {}
    for setting in SETTINGS:
        result.setdefault(setting.namespace, {})[setting.name] = values[setting.namespace].get(setting.name, "")
    return result


def _next_alarm(device: Device) -> str:
    """Return when the next alarm of a clock rings, as YYYY-MM-DD HH:MM, or ""."""
    _, heading, section = device.shell("dumpsys alarm").partition("Next alarm clock information")
    if not heading:
        raise DeviceError(f"{device.serial} does not tell its next alarm")
    match = re.search(r"= (\d{4}-\d\d-\d\d \d\d:\d\d)", section[:300])
    return match[1] if match else ""


def _files(device: Device, before: Mapping[str, bytes] | None) -> dict[str, bytes]:
    """Return the files of `FOLDERS`: their digest, or what is in them if that is not the digest of before."""
    folders = " ".join(FOLDERS)
    text = device.shell(f"find {folders} -type f -exec md5sum {{}} + 2> /dev/null; true")
    contents = {}
    for line in text.splitlines():
        digest, gap, path = line.partition("  ")
        if gap and re.fullmatch("[0-9a-f]{32}", digest):
            same = before is None or before.get(path) == digest.encode()
            contents[path] = digest.encode() if same else device.pull(path)[:_MOST_BYTES]
    return contents


# Changing it


def change_setting(device: Device, namespace: str, name: str, value: str) -> None:
    """Set a watched setting, and wait until the device shows it.

    Raises:
        DeviceError: the device does not take it.
    """
    watched = next(setting for setting in SETTINGS if (setting.namespace, setting.name) == (namespace, name))
    put = f"settings put {namespace} {name} {shlex.quote(value)}" if value else f"settings delete {namespace} {name}"
    for command in filter(None, (watched.commands.get(value, ""), put)):
        try:
            device.shell(command)
        except DeviceLost:
            raise
        except DeviceError:
            continue
        deadline = time.monotonic() + _PATIENCE
        while True:
            if watched_settings(device)[namespace][name] == value:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.2)
    raise DeviceError(f"{device.serial} does not take the setting {namespace} {name} = {value!r}")


def restore(device: Device, before: Content, parts: Iterable[str]) -> None:
    """Bring a device back to an earlier content as far as adb can: settings, new rows, new files, lost contacts.

    What the agent has done to other files than those of the task, and texts that it has sent, stay done.
    """
    current = observe(device, set(parts) - {"alarm"}, before)
    for space, values in before.settings.items():
        for name, value in values.items():
            if space in _SPACES and current.settings[space][name] != value:
                with suppress(DeviceError):
                    change_setting(device, space, name, value)
    for path in current.files:
        if path not in before.files:
            with suppress(DeviceError):
                device.shell(f"rm -f {shlex.quote(path)}")
    for table, rows in current.databases[ADB].items():
        old = before.databases[ADB].get(table, {})
        for key in rows.keys() - old.keys():
            with suppress(DeviceError):
                _delete_row(device, table, key, rows[key])
        for key in old.keys() - rows.keys():
            if table == "contacts":
                with suppress(DeviceError):
                    add_contact(device, old[key]["display_name"], old[key]["data1"])


def _delete_row(device: Device, table: str, key: int, row: Row) -> None:
    uri, where = _TABLES[table].uri, f"_id={key}"
    if table == "contacts":  # a row of theirs is a number: the contact goes with its raw contact
        name = str(row["display_name"]).replace("'", "''")
        uri, where = "content://com.android.contacts/raw_contacts", f"display_name='{name}'"
    device.shell(f"content delete --uri {uri} --where {shlex.quote(where)}")


def bind(values: Mapping[str, tuple[str, object]]) -> str:
    """Return the arguments of `content insert` for columns: name -> (type, value)."""
    return " ".join(f"--bind {shlex.quote(f'{name}:{kind}:{value}')}" for name, (kind, value) in values.items())


def add_contact(device: Device, name: str, number: str) -> None:
    """Add a contact to the device's own account.

    Raises:
        DeviceError: the device does not take it.
    """
    base = "content://com.android.contacts"
    device.shell(f"content insert --uri {base}/raw_contacts --bind account_type:n: --bind account_name:n:")
    text = device.shell(f"content query --uri {base}/raw_contacts --projection _id --sort '_id DESC'")
    newest = re.search(r"_id=(\d+)", text)
    if not newest:
        raise DeviceError(f"{device.serial} does not take new contacts")
    for kind, text in (("name", name), ("phone_v2", number)):
        mime = f"vnd.android.cursor.item/{kind}"
        values = {"raw_contact_id": ("i", newest[1]), "mimetype": ("s", mime), "data1": ("s", text)}
        label = " --bind data2:i:2" if kind == "phone_v2" else ""  # a mobile phone
        device.shell(f"content insert --uri {base}/data {bind(values)}{label}")
