"""The stage of a template of stock apps: the device as adb shows it, which the template may prepare through adb."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from turncredit.envs.android.stock.observation import (
    ADB,
    FOLDERS,
    add_contact,
    bind,
    change_setting,
    observe,
    shown_rows,
)
from turncredit.envs.android.tasks.effects import Effect
from turncredit.envs.android.tasks.judge import Content
from turncredit.envs.android.tasks.template import Params
from turncredit.phone.content.people import person
from turncredit.tools.android.device import Device, DeviceError
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["Stage", "StockTemplate"]

_URIS: Final = {"messages": "content://sms/inbox", "calls": "content://call_log/calls"}


class Stage:
    """A device before the start of a task."""

    def __init__(self, device: Device, random: KeyedRandom, first: Content, apps: Mapping[str, str]) -> None:
        """Draw for a device.

        Args:
            device: which.
            random: depends on the task alone.
            first: what the device held before anything was prepared.
            apps: what it has: name -> package.
        """
        self.device, self.random, self.first, self.apps = device, random, first, apps

    def now(self) -> datetime:
        """Return the device's clock, to the minute."""
        return datetime.fromisoformat(self.device.shell("date +%Y-%m-%dT%H:%M").strip())

    def property(self, name: str) -> str:
        """Return a property of the system."""
        return self.device.shell(f"getprop {name}").strip()

    def setting(self, namespace: str, name: str) -> str:
        """Return a setting as it was before the preparation; "" if the device has none."""
        return self.first.settings[namespace][name]

    def set_setting(self, namespace: str, name: str, value: str) -> None:
        """Change a setting before the task starts."""
        if observe(self.device, ()).settings[namespace][name] != value:
            change_setting(self.device, namespace, name, value)

    def stranger(self) -> tuple[str, str]:
        """Return a name and a number that no contact of the device has."""
        contacts = self.first.databases[ADB].get("contacts", {}).values()
        taken = {word for row in contacts for word in str(row["display_name"]).split()}
        while True:
            someone = person(self.random)
            if not {someone.first, someone.last} & taken:
                return f"{someone.first} {someone.last}", f"555{self.random.between(1000000, 9999999)}"

    def contact(self) -> tuple[int, str, str]:
        """Add a contact; return the id of its number, its name and its number."""
        name, number = self.stranger()
        add_contact(self.device, name, number)
        return self._new("contacts", "display_name", name), name, number

    def message(self, number: str, text: str) -> int:
        """Let a message have arrived just now; return its id."""
        values = {"address": ("s", number), "body": ("s", text), "type": ("i", 1), "date": ("l", self._milliseconds())}
        self.device.shell(f"content insert --uri {_URIS['messages']} {bind(values)}")
        return self._new("messages", "body", text)

    def missed_call(self, number: str) -> int:
        """Let somebody have called in vain just now; return the id of the call."""
        values = {"number": ("s", number), "type": ("i", 3), "duration": ("i", 0), "date": ("l", self._milliseconds())}
        self.device.shell(f"content insert --uri {_URIS['calls']} {bind(values)}")
        return self._new("calls", "number", number)

    def file(self, name: str, text: str) -> str:
        """Write a file into Download; return its path."""
        path = f"{FOLDERS[0]}/{name}"
        self.device.push(text.encode(), path)
        return path

    def _milliseconds(self) -> int:
        return int(self.device.shell("date +%s").strip()) * 1000

    def _new(self, table: str, column: str, value: str) -> int:
        """Return the id of a row that was just added."""
        old = self.first.databases[ADB].get(table, {})
        for key, row in shown_rows(self.device, table).items():
            if key not in old and row[column] == value:
                return key
        raise DeviceError(f"{self.device.serial} does not take new {table} without root")


@dataclass(frozen=True)
class StockTemplate:
    """A kind of task on stock apps. `goal` is one sentence or several of the same meaning, parameters in braces."""

    name: str
    goal: str | tuple[str, ...]
    draw: Callable[[Stage], Params | None]
    effects: Callable[[Params], list[Effect]]
    apps: tuple[str, ...]
    complexity: float = 1.0
    needs: tuple[str, ...] = ()  # of `observed.PARTS`; "emulator": no real network; "cable": adb does not come by Wi-Fi
    split: str = "train"

    @property
    def goals(self) -> tuple[str, ...]:
        """All sentences."""
        return (self.goal,) if isinstance(self.goal, str) else self.goal

    @property
    def step_limit(self) -> int:
        """Steps that an agent has."""
        return int(10 * self.complexity)
