"""Simulated phones and their tasks behind the operations of AndroidWorld's server, without HTTP.

Not included: another set of apps or templates than those of this package.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, Final

import numpy as np

from turncredit.envs.android.actions import BadAction, parse
from turncredit.envs.android.elements import leaves
from turncredit.envs.android.performing import perform
from turncredit.envs.android.phones import task_phone
from turncredit.envs.android.task_source import SimulatedTask
from turncredit.envs.android.tasks.template import SPLITS, all_templates, make_task, split_of
from turncredit.envs.android.values import JsonObject, Options
from turncredit.envs.errors import EnvError
from turncredit.envs.validation import choice, integer, number
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.tools.android.node import write_xml

__all__ = ["ANDROID_WORLD", "AndroidWorldPhone", "AndroidWorldPhones", "Refused"]

ANDROID_WORLD: Final = "android_world"
"""The task family that the server was started with."""
_MOST_INSTANCES: Final = 1000
_HOME: Final = 3


class Refused(EnvError):
    """A request that cannot be done; `status` is that of HTTP."""

    def __init__(self, message: str, status: int = 400) -> None:
        """Keep message and status."""
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        """Return the message."""
        return str(self.args[0])


class AndroidWorldPhone:
    """One phone with one suite of tasks; one task at a time is on the phone.

    Args:
        split: of the tasks in the family `android_world`; the other families are the splits themselves.
        instances: of each task in the suite.
        seed: of the suite: which instances it holds.
        injections: share of the tasks whose phone carries instructions to the agent.
    """

    def __init__(self, split: str = "train", instances: int = 2, seed: int = 42, injections: float = 0.0) -> None:
        self._split, self._injections = choice("split", split, SPLITS), number("injections", injections, 0.0, 1.0)
        self._goals: dict[str, tuple[str, str]] = {}
        self.reinitialize(instances, seed, ANDROID_WORLD)
        self._idle()

    def _idle(self) -> None:
        """Take a phone on which no task was started."""
        self._task: SimulatedTask | None = None
        self._started = ("", 0)
        self._id, self._answer, self._gave_up = "", "", False
        phone = task_phone("androidworld")
        self._device: Any = DirectDevice(phone)
        self._apps: Mapping[str, str] = {app.name: app.package for app in phone.apps.values() if not app.hidden}

    def reinitialize(self, instances: int, seed: int, family: str) -> None:
        """Draw another suite. The task on the phone stays.

        Raises:
            Refused: there is no such family, or `instances` is out of bounds.
        """
        if family not in (ANDROID_WORLD, *SPLITS):
            raise Refused(f"Invalid task family: {family!r}; there are {', '.join((ANDROID_WORLD, *SPLITS))}")
        try:
            integer("n_task_combinations", instances, 1, _MOST_INSTANCES)
        except EnvError as error:
            raise Refused(str(error)) from None
        split = self._split if family == ANDROID_WORLD else family
        drawn = {name: [_number(name, split, seed, i) for i in range(instances)] for name in sorted(all_templates())}
        self.suite: dict[str, list[str]] = {
            name: [f"{name}/{number}" for number in numbers if number is not None]
            for name, numbers in drawn.items()
            if numbers[0] is not None
        }

    def id_of(self, task_type: str, index: int) -> str:
        """Return the id that the task has in `turncredit/Android-v0`.

        Raises:
            Refused: the suite has no such task.
        """
        ids = self.suite.get(task_type)
        if ids is None:
            raise Refused(f"the suite has no task {task_type[:80]!r}; GET /suite/task_list lists them", 404)
        if not 0 <= index < len(ids):
            raise Refused(f"the task {task_type} has the instances 0 to {len(ids) - 1}, got {index}", 404)
        return ids[index]

    def initialize(self, task_type: str, index: int) -> JsonObject:
        """Start a task on a new phone; return its id and its limit of steps."""
        self._id = self.id_of(task_type, index)
        self._task = self._make(self._id)
        self._started, self._answer, self._gave_up = (task_type, index), "", False
        self._device, self._apps = self._task.device, self._task.apps
        return {"task": self._id, "step_limit": self._task.step_limit}

    def _make(self, id: str) -> SimulatedTask:
        name, _, instance = id.rpartition("/")
        return SimulatedTask(make_task(name, int(instance), self._injections))

    def _current(self, task_type: str, index: int) -> SimulatedTask:
        """Return the task on the phone, which must be this one."""
        id = self.id_of(task_type, index)
        if self._task is None:
            raise Refused(f"{task_type} {index} was not started: POST /task/initialize does that", 409)
        if (task_type, index) != self._started or id != self._id:
            started = "{} {}".format(*self._started)
            raise Refused(
                f"the phone has the task {started}, not {task_type} {index}; clients that send the header X-Session "
                "have a phone of their own",
                409,
            )
        return self._task

    def tear_down(self, task_type: str, index: int) -> None:
        """End the task; the phone is then one without a task."""
        self._current(task_type, index)
        self._idle()

    def score(self, task_type: str, index: int) -> tuple[float, tuple[str, ...]]:
        """Return 1.0 if the phone is now as the task asks, else 0.0; and what is wrong."""
        verdict = self._current(task_type, index).verdict(self._answer, self._gave_up)
        return float(verdict.won), verdict.reasons

    def goal(self, task_type: str, index: int) -> tuple[str, str]:
        """Return what a task asks for, and the first wording of its template."""
        id = self.id_of(task_type, index)
        if id not in self._goals:
            if len(self._goals) >= _MOST_INSTANCES:
                self._goals.clear()
            task = self._task if self._task is not None and id == self._id else self._make(id)
            self._goals[id] = task.goal, all_templates()[task_type].goals[0]
        return self._goals[id]

    def reset(self, go_home: bool) -> None:
        """Forget the agent's answer, and go to the home screen if wanted."""
        self._answer, self._gave_up = "", False
        if go_home:
            self._device.key(_HOME)

    def execute(self, fields: Options) -> None:
        """Do a JSON action. `press_enter` false, which the original does not have, leaves out Enter after typing.

        Raises:
            Refused: the action is invalid, or the screen does not allow it. Nothing was done.
        """
        action_fields = dict(fields)
        press_enter = action_fields.pop("press_enter", True)
        if not isinstance(press_enter, bool):
            raise Refused(f"press_enter must be true or false, got {press_enter!r:.80}")
        if action_fields.get("action_type") == "unknown":  # does nothing in the original, and is not an error there
            return
        try:
            text = json.dumps(action_fields)
            json.dumps(action_fields, ensure_ascii=False).encode()
            action = parse(text)
            if action.action_type == "input_text":
                action = replace(action, press_enter=press_enter)
            listed = leaves(self._device.dump(), self._device.size()) if action.index is not None else ()
            perform(action, self._device, listed, self._apps)
        except BadAction as error:
            raise Refused(str(error)) from None
        except UnicodeEncodeError:
            raise Refused("the action holds half of a surrogate pair, which is no character") from None
        if action.action_type == "answer":
            self._answer = str(action.text)
        elif action.ends:
            self._gave_up = action.goal_status == "infeasible"

    def screenshot(self) -> bytes:
        """Return the JSON of the screen's pixels, [H, W, 3]."""
        self._device.settle()
        image = self._device.screenshot().astype(np.uint32)
        height, width, _ = image.shape
        colours, places = np.unique((image[..., 0] << 16) | (image[..., 1] << 8) | image[..., 2], return_inverse=True)
        words = [f"[{c >> 16},{c >> 8 & 255},{c & 255}]" for c in colours.tolist()]  # a screen has few colours
        written = list(map(words.__getitem__, places.reshape(-1).tolist()))
        rows = ",".join(f"[{','.join(written[i : i + width])}]" for i in range(0, height * width, width))
        return f'{{"pixels":[{rows}]}}'.encode()

    def dump(self) -> JsonObject:
        """Return the accessibility tree as XML, the size of the screen, the apps, and the key of the state."""
        state = self._task.state() if self._task is not None else self._device.phone.state_key()
        return {
            "xml": write_xml(self._device.dump()),
            "size": list(self._device.size()),
            "apps": list(self._apps),
            "state": f"{state} {self._answer}" if self._answer else state,
        }


def _number(name: str, split: str, seed: int, instance: int) -> int | None:
    """Return the number of an instance of a suite; None if the template has none in the split."""
    template = all_templates()[name]
    first = int(sha256(f"{seed}_{name}_{instance}".encode()).hexdigest(), 16) % 10**6
    return next((number for number in range(first, first + 200) if split_of(template, number) == split), None)


class AndroidWorldPhones:
    """A phone for each session. Clients that name no session share one phone, as those of the original do.

    Args:
        make: makes a phone.
        most: sessions at once; a further one is refused.
        idle: seconds without a request after which a session loses its phone where another needs one.
        clock: for tests.
    """

    def __init__(
        self,
        make: Callable[[], AndroidWorldPhone],
        most: int = 64,
        idle: float = 600.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._make, self._most, self._idle, self._clock = make, integer("sessions", most, 1), idle, clock
        self._phones: dict[str, AndroidWorldPhone] = {}
        self._used: dict[str, float] = {}
        self.lock = Lock()
        """Held while a phone works: phones share caches of layouts and fonts."""

    def __len__(self) -> int:
        """Return the number of phones."""
        return len(self._phones)

    def get(self, session: str) -> AndroidWorldPhone:
        """Return the phone of a session, a new one at its first request.

        Raises:
            Refused: all phones are in use.
        """
        clock = self._clock()
        if session not in self._phones:
            if len(self._phones) >= self._most:
                oldest = min(self._used, key=self._used.__getitem__)
                if clock - self._used[oldest] < self._idle:
                    raise Refused(f"all {self._most} phones of this server are in use; try again later", 503)
                self.drop(oldest)
            self._phones[session] = self._make()
        self._used[session] = clock
        return self._phones[session]

    def drop(self, session: str) -> None:
        """Take the phone of a session away."""
        self._phones.pop(session, None)
        self._used.pop(session, None)
