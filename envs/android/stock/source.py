"""Tasks on stock apps as a `TaskSource`, for a device that adb lists: an emulator, a real phone, or our own."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import count as count_from
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from turncredit.envs.android.stock.observation import observe, readable, restore, watched_settings
from turncredit.envs.android.stock.screen import SteadyDevice
from turncredit.envs.android.stock.stage import Stage, StockTemplate
from turncredit.envs.android.stock.templates import STOCK_TEMPLATES
from turncredit.envs.android.tasks.expert import Writer, as_read
from turncredit.envs.android.tasks.judge import Content, Verdict, judge
from turncredit.envs.android.tasks.template import SPLITS, Params, split_of, written_goal
from turncredit.envs.android.values import Options
from turncredit.envs.errors import EnvError, NoExpert, UnknownOption, UnknownTask
from turncredit.envs.validation import choice
from turncredit.tools.android.adb import AdbDevice
from turncredit.tools.android.device import Device, DeviceError, DeviceLost
from turncredit.tools.android.node import write_xml
from turncredit.tools.android.smart_socket import AdbServerClient
from turncredit.tools.keyed_random import KeyedRandom

__all__ = ["APP_PACKAGES", "StockTask", "StockTasks"]

APP_PACKAGES: Final[Mapping[str, tuple[str, ...]]] = {
    "Calendar": ("com.google.android.calendar", "com.android.calendar", "org.turncredit.calendar"),
    "Clock": ("com.google.android.deskclock", "com.android.deskclock"),
    "Contacts": ("com.google.android.contacts", "com.android.contacts", "org.turncredit.contacts"),
    "Files": ("com.google.android.documentsui", "com.android.documentsui", "org.turncredit.files"),
    "Messages": ("com.google.android.apps.messaging", "com.android.messaging", "org.turncredit.messages"),
    "Phone": ("com.google.android.dialer", "com.android.dialer", "org.turncredit.dialer"),
    "Settings": ("com.android.settings",),
}
"""Stock apps and the packages that they may have."""

_LISTED: Final = 1000
_DRAWN_FROM: Final = 10**6
_ATTEMPTS: Final = 30
_HOME: Final = 3  # key code
_OPTIONS: Final = ("timeout", "recovery", "settle_limit", "settle_pause", "settle_equal")


class StockTasks:
    """Tasks on one device: the ids are NAME/NUMBER. It is connected when the first task is asked for."""

    replayable = False

    def __init__(
        self,
        serial: str,
        split: str = "train",
        apps: Sequence[str] | None = None,
        task_types: Sequence[str] | None = None,
        connection: Options | None = None,
        connect: Callable[[], Device] | None = None,
    ) -> None:
        """Choose tasks.

        Args:
            serial: as `adb devices` lists the device.
            split: "train", "instances" or "templates".
            apps: only tasks that need no other apps; None: all.
            task_types: names of templates; None: all.
            connection: timeout of a request, and recovery, settle_limit and settle_pause of `AdbDevice`, in seconds.
            connect: what connects the device instead of `AdbDevice`.

        Raises:
            UnknownOption: an argument names what does not exist, or nothing is left.
        """
        if not isinstance(serial, str) or not serial:
            raise UnknownOption(f"device must be a serial as `adb devices` lists it, got {serial!r}")
        self._split = choice("split", split, SPLITS)
        for name in task_types or ():
            choice("task type of a device", name, STOCK_TEMPLATES)
        for app in apps or ():
            choice("app of a device", app, APP_PACKAGES)
        self._serial, self._apps, self._types = serial, apps, task_types
        self._connection = _checked(connection)
        self._connect = connect
        self._templates = [template for _, template in sorted(STOCK_TEMPLATES.items()) if self._chosen(template)]
        if not self._templates:
            raise UnknownOption(
                f"no task template of a device fits split={split!r}, apps={apps!r} and task_types={task_types!r}"
            )
        self._claim: IO[str] | None = None
        self._device: Device | None = None
        self._offered: list[StockTemplate] = []
        self._installed: dict[str, str] = {}
        self._parts: list[str] = []
        self._abilities: set[str] = set()
        self._task: StockTask | None = None

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to make it again, unconnected."""
        arguments = (self._serial, self._split, self._apps, self._types, self._connection, self._connect)
        return StockTasks, arguments

    def _chosen(self, template: StockTemplate) -> bool:
        if self._types is not None and template.name not in self._types:
            return False
        if self._apps is not None and not set(template.apps) <= set(self._apps):
            return False
        return any(split_of(template, instance) == self._split for instance in range(50))

    # The device

    def _ready(self) -> Device:
        """Return the device, connected and found out about once.

        Raises:
            EnvError: another environment drives it, or it can do none of the tasks.
            DeviceLost: it cannot be reached.
        """
        if self._device is not None:
            return self._device
        claim = _claimed(self._serial)
        device = self._connect() if self._connect else _connected(self._serial, **self._connection)
        packages = set(re.findall(r"(?m)^package:(\S+)", device.shell("pm list packages")))
        packages_by_app = {
            app: next((candidate for candidate in names if candidate in packages), "")
            for app, names in APP_PACKAGES.items()
        }
        self._installed = {app: package for app, package in packages_by_app.items() if package}
        self._parts = readable(device)
        self._abilities = {*self._parts, *_abilities(device)}
        self._offered = [candidate for candidate in self._templates if self._able(candidate)]
        if not self._offered:
            names = ", ".join(candidate.name for candidate in self._templates)
            raise EnvError(f"the device {self._serial!r} shows adb too little for the tasks {names}")
        self._device, self._claim = device, claim
        return device

    def _able(self, template: StockTemplate) -> bool:
        """Return whether the device has and shows what a template needs."""
        return set(template.needs) <= self._abilities and set(template.apps) <= set(self._installed)

    def close(self) -> None:
        """Bring the device back to what it was before the last task, as far as it can be reached, and let go of it."""
        with suppress(DeviceError):
            self._finish()
        if self._device is not None:
            self._device.close()
        if self._claim is not None:
            self._claim.close()
        self._device = self._claim = self._task = None

    def _finish(self) -> None:
        """Undo the last task."""
        if self._task is not None:
            self._task.undo()
            self._task = None

    # The tasks

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the first tasks that the device can do, one of each template in turn."""
        return list(islice(self._all(), _LISTED if count is None else count))

    def _all(self) -> Iterator[str]:
        self._ready()
        for instance in count_from():
            for template in self._offered:
                if split_of(template, instance) == self._split:
                    yield f"{template.name}/{instance}"

    def draw(self, random: np.random.Generator) -> str:
        """Return a random task; all templates that the device can do are equally likely."""
        self._ready()
        template = self._offered[int(random.integers(len(self._offered)))]
        while True:
            instance = int(random.integers(_DRAWN_FROM))
            if split_of(template, instance) == self._split:
                return f"{template.name}/{instance}"

    def start(self, task: str) -> StockTask:
        """Undo the last task, and prepare this one. A template whose start the device refuses is offered no more.

        Raises:
            UnknownTask: it does not exist, belongs to another split, or is nothing for this device.
            EnvError: the device does not take its start.
            DeviceLost: the device cannot be reached.
        """
        name, _, instance = task.rpartition("/")
        template = next((candidate for candidate in self._templates if candidate.name == name), None)
        if template is None or not instance.isdecimal() or str(int(instance[:18])) != instance:
            names = [f"{candidate.name}/0" for candidate in self._templates]
            raise UnknownTask.of(task, names, f"the split {self._split!r} of a device")
        if (split := split_of(template, int(instance))) != self._split:
            raise UnknownTask(f"task {task!r} belongs to the split {split!r}, not to {self._split!r}")
        device = self._ready()
        if not self._able(template):
            needs = ", ".join((*template.needs, *template.apps))
            raise UnknownTask(f"the device {self._serial!r} cannot do {task!r}, which needs {needs}")
        self._finish()
        parts = [part for part in self._parts if part != "alarm" or part in template.needs]
        self._task = StockTask(template, int(instance), device, parts, self._installed)
        try:
            self._task.prepare()
        except DeviceLost:
            raise
        except DeviceError as error:
            self._finish()
            self._offered = [candidate for candidate in self._offered if candidate is not template] or self._offered
            raise EnvError(f"task {task!r} cannot be prepared: {error}") from None
        return self._task

    def arguments(self) -> Options:
        """Return device, split and choice."""
        return {"device": self._serial, "split": self._split, "apps": self._apps, "task_types": self._types}


def _checked(connection: Options | None) -> Options:
    options = dict(connection or {})
    for name, value in options.items():
        choice("option of a connection", name, _OPTIONS)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
            raise UnknownOption(f"the option {name!r} of a connection must be a number from 0 to 3600, got {value!r}")
    return options


def _connected(serial: str, *, timeout: float = 30.0, **options: Any) -> Device:
    return AdbDevice(serial, AdbServerClient(timeout=timeout), **options)


def _claimed(serial: str) -> IO[str]:
    """Return a lock on a device, which lasts until it is closed or this process ends.

    Raises:
        EnvError: somebody else has it.
    """
    name = re.sub(r"[^\w.-]", "_", serial)
    lock = (Path(tempfile.gettempdir()) / f"turncredit-device-{os.getuid()}-{name}.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise EnvError(f"the device {serial!r} is driven by another environment; a device plays one episode") from None
    return lock


def _abilities(device: Device) -> set[str]:
    """Return "emulator" for one, and "cable" if adb does not come by Wi-Fi."""
    shown = device.shell("getprop ro.build.characteristics; getprop ro.kernel.qemu; getprop ro.hardware")
    emulator = bool(re.search(r"\bemulator\b|^1$|\branchu\b|\bgoldfish\b", shown, re.MULTILINE))
    host = device.serial.rpartition(":")[0]
    cable = not host or host in ("127.0.0.1", "localhost", "[::1]")
    return {name for name, there in (("emulator", emulator), ("cable", cable)) if there}


class StockTask:
    """A task on a device."""

    def __init__(
        self, template: StockTemplate, number: int, device: Device, parts: Sequence[str], apps: Mapping[str, str]
    ) -> None:
        """Take note of what the device holds; `prepare` makes the start of the task."""
        self.template, self._number, self._parts = template, number, parts
        self.apps: Mapping[str, str] = apps
        self.task_type, self.step_limit, self.goal = template.name, template.step_limit, ""
        self._device = device
        self.device: Device = SteadyDevice(device)
        self.params: Params = {}
        self._original = observe(device, parts)
        self._before = self._original

    def prepare(self) -> None:
        """Draw the parameters, prepare the device, and go to the home screen.

        Raises:
            DeviceError: the device does not take it.
        """
        for attempt in range(_ATTEMPTS):
            random = KeyedRandom(f"{self.template.name}/{self._number}/{attempt}/stock")
            params = self.template.draw(Stage(self._device, random, self._original, self.apps))
            if params is not None:
                break
        else:
            raise DeviceError(f"{self._device.serial} offers no such task")
        self.params = params
        self.goal = written_goal(random.pick(self.template.goals), params)
        self.device.key(_HOME)
        self._before = self.content()

    def content(self) -> Content:
        """Return what the device holds now."""
        return observe(self._device, self._parts, self._before)

    def keys(self) -> list[str]:
        """Return nothing: where the keys of a device are is not known."""
        return []

    def state(self) -> str:
        """Return the digest of the watched settings and of the screen."""
        root, size = self.device.dump(), self.device.size()
        shown = f"{watched_settings(self._device)} {size} {write_xml(root)}"
        return blake2b(shown.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def verdict(self, answer: str, gave_up: bool) -> Verdict:
        """Judge the device as it is now."""
        return judge(self._before, self.content(), self.template.effects(self.params), answer, gave_up)

    def harm(self, answer: str) -> bool | None:
        """Return None: a device carries no attack."""
        return None

    def plan(self, answer: str, write: Writer = as_read) -> list[str]:
        """Refuse: nobody knows the screens of every device.

        Raises:
            NoExpert: always.
        """
        raise NoExpert("there is no expert for the apps of a device; it plays the simulated phone alone")

    def undo(self) -> None:
        """Bring the device back to what it held before the task, as far as adb can."""
        restore(self._device, self._original, self._parts)
