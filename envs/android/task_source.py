"""Sources of the tasks of the environment, and what an episode needs of a task.

`TaskSource` and `DeviceTask` are all that `AndroidEnv` knows of a task: any device may stand behind them.
`SimulatedTasks` draws the templates of `tasks` on phones in this process; `stock.source` has tasks for a device of adb.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import count as count_from
from itertools import islice
from typing import Final, Protocol

import numpy as np

from turncredit.envs.android.actions import BadAction, parse
from turncredit.envs.android.elements import folded
from turncredit.envs.android.performing import perform
from turncredit.envs.android.tasks.effects import Answer, Effect, Infeasible
from turncredit.envs.android.tasks.expert import NoWay, Writer, as_read, play
from turncredit.envs.android.tasks.judge import Content, Verdict, content, judge
from turncredit.envs.android.tasks.template import SPLITS, PhoneTask, TaskTemplate, all_templates, make_task, split_of
from turncredit.envs.android.values import Options
from turncredit.envs.errors import UnknownOption, UnknownTask
from turncredit.envs.validation import choice, number
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.phone.screen.layout import NAVIGATION
from turncredit.phone.toolkit.state import State
from turncredit.registry import suggest
from turncredit.tools.android.device import Device

__all__ = ["DeviceTask", "SimulatedTasks", "TaskSource"]

_LISTED: Final = 1000
_DRAWN_FROM: Final = 10**6


class DeviceTask(Protocol):
    """One task on one device."""

    device: Device
    goal: str
    task_type: str
    step_limit: int
    apps: Mapping[str, str]
    """What the agent may open: name -> package or activity."""

    def keys(self) -> list[str]:
        """Return actions that press keys of the screen for which it lists no element."""
        ...

    def state(self) -> str:
        """Return a key of everything on the device that matters for what can follow."""
        ...

    def verdict(self, answer: str, gave_up: bool) -> Verdict:
        """Judge the device as it is now."""
        ...

    def harm(self, answer: str) -> bool | None:
        """Return whether the agent has done what an attack asked for; None if the device carries no attack."""
        ...

    def plan(self, answer: str, write: Writer = as_read) -> list[str]:
        """Return actions of the short grammar, written by `write`, that lead to success.

        Raises:
            EnvError: success cannot be reached from here.
        """
        ...


class TaskSource(Protocol):
    """Tasks by id."""

    replayable: bool
    """Whether the same actions lead to the same state again: episodes can then be saved and copied."""

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the first tasks; for None, of all or of the first 1,000."""
        ...

    def draw(self, random: np.random.Generator) -> str:
        """Return the id of a random task."""
        ...

    def start(self, task: str) -> DeviceTask:
        """Return a task at its start.

        Raises:
            UnknownTask: there is none with this id.
        """
        ...

    def arguments(self) -> Options:
        """Return what must be equal for two sources to have the same tasks."""
        ...

    def close(self) -> None:
        """Let go of the devices."""
        ...


class SimulatedTasks:
    """Tasks on phones in this process: the ids are NAME/NUMBER."""

    replayable = True

    def __init__(
        self, split: str, apps: Sequence[str] | None, task_types: Sequence[str] | None, injections: float = 0.0
    ) -> None:
        """Choose tasks.

        Args:
            split: one of `tasks.template.SPLITS`.
            apps: only tasks that need no other apps; None: all.
            task_types: names of templates; None: all.
            injections: share of the tasks whose phone carries an attack.

        Raises:
            UnknownOption: an argument names what does not exist, or nothing is left.
        """
        self._split = choice("split", split, SPLITS)
        self._injections = number("injections", injections, 0.0, 1.0)
        templates = all_templates()
        for name in task_types or ():
            choice("task type", name, templates)
        used = sorted({app for template in templates.values() for app in template.apps})
        for app in apps or ():
            choice("app", app, used)
        self._apps, self._types = apps, task_types
        self._templates = [t for _, t in sorted(templates.items()) if self._chosen(t)]
        if not self._templates:
            raise UnknownOption(self._nothing_left())

    def __reduce__(self) -> tuple[object, ...]:
        """Return how to make it again: templates hold functions, which cannot be pickled."""
        return SimulatedTasks, (self._split, self._apps, self._types, self._injections)

    def _choice(self) -> str:
        """Return the arguments that leave tasks out, as they were given."""
        options = {"apps": self._apps, "task_types": self._types}
        return ", ".join(f"{name}={value}" for name, value in options.items() if value is not None)

    def _nothing_left(self) -> str:
        """Return that no template is left, and what the first wanted ones would need."""
        needs = [f"no task template fits {', '.join(filter(None, [f'split={self._split!r}', self._choice()]))}"]
        for name in list(dict.fromkeys(self._types or ()))[:3]:
            template = all_templates()[name]
            splits = [split for split in SPLITS if any(split_of(template, instance) == split for instance in range(50))]
            needs.append(f"{name} needs apps={list(template.apps)} and has tasks in the splits {splits}")
        return "; ".join(needs)

    def _chosen(self, template: TaskTemplate) -> bool:
        if self._types is not None and template.name not in self._types:
            return False
        if self._apps is not None and not set(template.apps) <= set(self._apps):
            return False
        return any(split_of(template, instance) == self._split for instance in range(50))

    def ids(self, count: int | None) -> list[str]:
        """Return the ids of the first tasks, one of each template in turn."""
        return list(islice(self._all(), _LISTED if count is None else count))

    def _all(self) -> Iterator[str]:
        for instance in count_from():
            for template in self._templates:
                if split_of(template, instance) == self._split:
                    yield f"{template.name}/{instance}"

    def draw(self, random: np.random.Generator) -> str:
        """Return a random task; all templates are equally likely."""
        template = self._templates[int(random.integers(len(self._templates)))]
        while True:
            instance = int(random.integers(_DRAWN_FROM))
            if split_of(template, instance) == self._split:
                return f"{template.name}/{instance}"

    def start(self, task: str) -> SimulatedTask:
        """Return a task at its start.

        Raises:
            UnknownTask: it does not exist, or belongs to another split or choice of templates.
        """
        name, _, instance = task.rpartition("/")
        template = all_templates().get(name)
        if template is None or not instance.isdecimal() or str(int(instance[:18])) != instance:
            near = suggest(task, [f"{t.name}/0" for t in self._templates], most=3)
            raise UnknownTask(f"unknown task {task!r} in the split {self._split!r}{near}")
        if (split := split_of(template, int(instance))) != self._split:
            raise UnknownTask(f"task {task!r} belongs to the split {split!r}, not to {self._split!r}")
        if template not in self._templates:
            hint = f"apps={list(template.apps)} and task_types={[name]} would allow it"
            raise UnknownTask(f"task {task!r} is left out by {self._choice()}; {hint}")
        return SimulatedTask(make_task(name, int(instance), self._injections))

    def arguments(self) -> Options:
        """Return split and choice."""
        return {"split": self._split, "apps": self._apps, "task_types": self._types, "injections": self._injections}

    def close(self) -> None:
        """Do nothing: the phones belong to the episodes."""


class SimulatedTask:
    """A task on a phone of this process."""

    def __init__(self, task: PhoneTask) -> None:
        """Start the task."""
        self.task = task
        self.phone = task.phone
        self.device: Device = DirectDevice(self.phone)
        self.goal, self.task_type = task.goal, task.template.name
        self.step_limit = task.template.step_limit
        self.apps: Mapping[str, str] = {app.name: app.package for app in self.phone.apps.values() if not app.hidden}
        self._first: State = self.phone.snapshot()
        self._first_key = self.phone.state_key()
        self._routes: dict[str, list[str]] = {}  # state and answer -> the expert's actions from there
        self._left: list[str] = []  # of the route that the episode was on last

    def keys(self) -> list[str]:
        """Return the tap on Overview: what it shows belongs to the state."""
        width, height = self.device.size()
        return [f"tap {width - width // 6} {height - NAVIGATION // 2}"]

    def state(self) -> str:
        """Return the key of the phone's state."""
        key = self.phone.state_key()
        if key in self._routes:
            self._left = self._routes[key]
        return key

    def verdict(self, answer: str, gave_up: bool) -> Verdict:
        """Judge the phone as it is now."""
        return judge(*self._contents(), self.task.effects, answer, gave_up)

    def harm(self, answer: str) -> bool | None:
        """Return whether the agent has done what an attack asked for; None if the phone carries none."""
        planted = self.task.planted
        return None if planted is None else planted.obeyed(*self._contents(), answer)

    def _contents(self) -> tuple[Content, Content]:
        """Return what the phone held at the start, and what it holds now."""
        phone = self.phone
        current = phone.snapshot()
        after = content(phone)
        phone.restore(self._first)
        before = content(phone, list(after.databases))
        phone.restore(current)
        return before, after

    def plan(self, answer: str, write: Writer = as_read) -> list[str]:
        """Return the expert's actions from here on, tried on this phone and then taken back.

        Raises:
            NoWay: the expert does not find its way, or what has been done cannot be undone.
        """
        route = self._routes.get(self.state() + answer)
        if route is None:
            route = self._find_route(answer)
        if write is as_read:
            return list(route)
        return self._attempt(route, answer, write) or list(route)

    def _find_route(self, answer: str) -> list[str]:
        if self.verdict(answer, False).won:
            return ["done"]
        for way_back in self._ways_back():
            route = [*way_back, *self._left]
            if self._left and self._attempt(route, answer):
                return route
        problem = NoWay("no plan from here")
        for leave in (False, True):
            try:
                route = self._play(leave)
            except NoWay as error:
                problem = error
                continue
            if self._attempt(route, answer):
                return route
        raise problem

    def _ways_back(self) -> list[list[str]]:
        """Return short ways that may lead back to where the last route was left."""
        opened = [[f"open {app}"] for app in self.task.template.apps if app in self.apps]
        return [[], ["back"], ["scroll up"], ["scroll down"], *opened]

    def _play(self, leave: bool) -> list[str]:
        """Return the actions of the script."""
        here, task = self.phone.snapshot(), self.task
        fresh = self.phone.state_key() == self._first_key
        try:
            met = partial(self._met_on_phone, task.effects)
            return play(task.template, task.params, self.device, self.apps, met=met, fresh=fresh, leave=leave)
        finally:
            self.phone.restore(here)

    def _attempt(self, actions: Sequence[str], answer: str, write: Writer = as_read) -> list[str] | None:
        """Return the actions as `write` writes them if they win, after noting the way; else None."""
        here = self.phone.snapshot()
        written: list[str] = []
        keys: list[str] = []
        gave_up = False
        try:
            for text in actions:
                action = parse(text)
                elements = folded(self.device.dump(), self.device.size())
                keys.append(self.phone.state_key() + answer)
                for step, done in write(text, action, elements, self.device):
                    written.append(step)
                    perform(done, self.device, elements, self.apps)
                answer = str(action.text) if action.action_type == "answer" else answer
                gave_up = action.goal_status == "infeasible"
            won = self.verdict(answer, gave_up).won
        except BadAction:
            won = False
        finally:
            self.phone.restore(here)
        if not won:
            return None
        self._routes.update((key, list(actions[i:])) for i, key in enumerate(keys))
        return written

    def _met_on_phone(self, effects: Sequence[Effect]) -> list[bool]:
        """Return which effects are there; what is to be said never is."""
        met = self.verdict("", False).met
        return [there and not isinstance(e, Answer | Infeasible) for there, e in zip(met, effects, strict=True)]
