"""One phone that people play in the browser, while adb drives it too: its task, the steps so far, the verdict."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Final, NamedTuple

import numpy as np

from turncredit.envs.android.actions import BadAction, parse
from turncredit.envs.android.elements import ScreenElement, folded
from turncredit.envs.android.performing import perform
from turncredit.envs.android.phones import task_phone
from turncredit.envs.android.site.action_writer import Written, in_words, only_the_cursor, write
from turncredit.envs.android.site.inputs import Input, do, placed
from turncredit.envs.android.site.reasons import for_people
from turncredit.envs.android.task_source import SimulatedTask, SimulatedTasks
from turncredit.envs.android.tasks.judge import Verdict
from turncredit.envs.android.tasks.template import SPLITS, all_templates, split_of
from turncredit.envs.android.values import JsonObject
from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.phone.adb.direct_device import DirectDevice
from turncredit.phone.adb.server import AdbServer
from turncredit.phone.phone import Phone

__all__ = ["LARGEST_SEED", "Choice", "NotNow", "PhonePlayer", "PlayedAction", "Save", "catalogue"]

LARGEST_SEED: Final = 10**9
_WIDTHS: Final = (270, 1080)  # of pictures, in pixels
_LONGEST_ANSWER: Final = 2000


class PlayedAction(NamedTuple):
    """An action of the environment, and the pixel that a finger tapped or held (None: the action is no such touch)."""

    action: str
    touch: tuple[int, int] | None = None


Save = Callable[[str, str, Sequence[PlayedAction], bool], Mapping[str, str]]
"""Saves an episode, given split, task, actions and whether it was won; returns {"file": where} or {"name", "text"}."""


class NotNow(EnvError):
    """The page asks for what is not possible at this moment."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be played: a task of a split, or a phone without one."""

    split: str = "train"
    template: str = ""  # "": any
    seed: int | None = None  # of the template's instance, or of the choice of a task; None: any
    apps: tuple[str, ...] = ()  # (): all
    free: bool = False

    def start(self) -> SimulatedTask | Phone:
        """Return the task at its start, or a phone.

        Raises:
            EnvError: there is no such task.
        """
        if self.seed is not None and not 0 <= self.seed <= LARGEST_SEED:
            raise UnknownOption(f"the seed must be a whole number from 0 to {LARGEST_SEED:,}, got {self.seed:,}")
        if self.free:
            return task_phone(self.seed or 0)
        tasks = SimulatedTasks(self.split, self.apps or None, [self.template] if self.template else None)
        if self.template and self.seed is not None:
            return tasks.start(f"{self.template}/{self.seed}")
        return tasks.start(tasks.draw(np.random.default_rng(self.seed)))


@dataclass(slots=True)
class _Episode:
    """What has happened since the start."""

    task: SimulatedTask | None
    steps: list[tuple[str, str]] = field(default_factory=list)  # in words; who: you, expert or adb
    actions: list[PlayedAction] | None = field(default_factory=list)  # None: something was done that no action does
    answer: str = ""
    verdict: Verdict | None = None
    ran_out: bool = False
    last: Written | None = None
    saved: str = ""

    @property
    def over(self) -> bool:
        """Whether no step counts any more."""
        return self.verdict is not None


class PhonePlayer:
    """A phone with an adb port, for the page. Its methods may be called from several threads."""

    def __init__(self, choice: Choice, adb_port: int = 0, save: Save | None = None) -> None:
        """Start a phone.

        Args:
            choice: what is played first.
            adb_port: 0 for a free one.
            save: saves an episode; None: episodes cannot be saved.

        Raises:
            EnvError: there is no such task.
            PortInUse: another program has the port.
        """
        self.version = 0
        self._lock = RLock()
        self._save = save
        self._touch: JsonObject = {}
        started = choice.start()
        self._begin(started)
        self.adb = AdbServer(self._device.phone, adb_port)

    def close(self) -> None:
        """Close the adb port."""
        self.adb.close()

    # What is played

    def start(self, choice: Choice) -> None:
        """Play something else.

        Raises:
            EnvError: there is no such task. The phone stays as it is.
        """
        started = choice.start()
        with self._lock:
            self._begin(started)
            self.adb.show(self._device.phone)

    def again(self) -> None:
        """Play the same from the start."""
        with self._lock:
            task, phone = self._episode.task, self._device.phone
            fresh = task_phone(phone.seed) if task is None else _same_task(task)
            self._begin(fresh)
            self.adb.show(self._device.phone)

    def _begin(self, started: SimulatedTask | Phone) -> None:
        task = started if isinstance(started, SimulatedTask) else None
        phone = started if isinstance(started, Phone) else started.phone
        self._device = DirectDevice(phone)
        self._apps = {app.name: app.package for app in phone.apps.values() if not app.hidden}
        self._episode = _Episode(task)
        self._touch = {}
        self._seen = phone.changes
        self._key = phone.state_key()
        self.version += 1

    @contextmanager
    def _phone(self) -> Iterator[Phone]:
        """Hold the phone while adb waits, after noting what came over adb, and note what has changed."""
        with self._lock, self.adb.paused() as phone:
            self._note_others(phone)
            try:
                yield phone
            finally:
                self._seen, self._key = phone.changes, phone.state_key()

    def _note_others(self, phone: Phone) -> None:
        """Note that somebody has changed the phone over adb."""
        if phone.changes == self._seen or phone.state_key() == self._key:
            self._seen = phone.changes
            return
        episode = self._episode
        if not episode.over:
            episode.actions, episode.last = None, None
            if not episode.steps or episode.steps[-1][1] != "adb":
                episode.steps.append(("Changes over adb", "adb"))
        self._touch = {}
        self._seen, self._key = phone.changes, phone.state_key()
        self.version += 1

    # What is done

    def act(self, user_input: Input) -> None:
        """Do what a person did."""
        with self._phone() as phone:
            episode = self._episode
            user_input = placed(user_input, phone, self._elements())
            before, key = phone.snapshot(), self._key
            self._touched(user_input.kind, "you", user_input.x, user_input.y, user_input.x2, user_input.y2)
            do(phone, user_input)
            after = phone.state_key()
            if after == key or episode.over:
                episode.last = None if episode.over else episode.last
                return
            last = episode.last if episode.last is not None and episode.last.after == key else None
            if only_the_cursor(self._device, before):
                episode.last = None if last is None else replace(last, after=after)
                return
            step, instead = write(self._device, self._apps, user_input, before, last)
            if instead:
                episode.steps.pop()
                if episode.actions:
                    episode.actions.pop()
            self._add(step, "you")

    def say(self, text: str) -> None:
        """Answer, or end the episode, with an action of the environment that needs no screen.

        Raises:
            NotNow: no episode is running, or the action is another one.
        """
        with self._phone():
            self._running()
            if len(text) > _LONGEST_ANSWER:
                raise NotNow(f"an answer has at most {_LONGEST_ANSWER:,} characters, got {len(text):,}")
            try:
                kind = parse(text).action_type
            except BadAction:
                kind = ""
            if kind not in ("answer", "status"):
                raise NotNow(
                    "the answer is empty" if text.startswith("answer") else "say answer ..., done or infeasible"
                )
            self._take(text, "you")

    def expert(self) -> str:
        """Let the expert take its next action, and return that action.

        Raises:
            NotNow: no episode is running.
            EnvError: the expert has no plan from here.
        """
        with self._phone():
            task = self._running()
            action = task.plan(self._episode.answer)[0]
            self._take(action, "expert")
            return action

    def _running(self) -> SimulatedTask:
        if self._episode.task is None:
            raise NotNow("there is no task: start one first")
        if self._episode.over:
            raise NotNow("the episode is over: start another task, or the same again")
        return self._episode.task

    def _take(self, text: str, who: str) -> None:
        """Take an action of the environment."""
        action, elements = parse(text), self._elements()
        before = self._device.phone.snapshot()
        perform(action, self._device, elements, self._apps)
        if action.index is not None:
            self._touched(action.action_type, who, *elements[action.index].center)
        else:
            self._touched(action.action_type, who, action.x or 0, action.y or 0)
        if action.action_type == "answer" or (action.ends and action.text):
            self._episode.answer = str(action.text)
        words = in_words(text, elements)
        self._add(Written(text, words, before, self._device.phone.state_key()), who)
        if action.ends and self._episode.task is not None:
            self._end(action.goal_status == "infeasible")

    def _add(self, step: Written, who: str) -> None:
        episode = self._episode
        episode.steps.append((step.words, who))
        episode.last = step
        if step.action is None:
            episode.actions = None
        elif episode.actions is not None:
            episode.actions.append(PlayedAction(step.action, step.touch))
        task = episode.task
        ends = step.action is not None and parse(step.action).ends
        if task is not None and len(episode.steps) >= task.step_limit and not ends:
            episode.ran_out = True
            self._end(False)

    def _end(self, gave_up: bool) -> None:
        episode = self._episode
        if episode.task is None:
            return
        episode.verdict = episode.task.verdict(episode.answer, gave_up)
        if episode.ran_out:
            limit = f"the task allows {episode.task.step_limit} steps, and nobody said done by then"
            verdict = episode.verdict
            episode.verdict = Verdict(False, verdict.score, (limit, *verdict.reasons), verdict.met)
        self.version += 1

    def _touched(self, kind: str, who: str, x: int, y: int, x2: int = 0, y2: int = 0) -> None:
        self.version += 1
        self._touch = {"number": self.version, "kind": kind, "who": who, "x": x, "y": y, "x2": x2, "y2": y2}

    def save(self) -> Mapping[str, str]:
        """Save the episode as a demonstration, and return where, or what.

        Raises:
            NotNow: it cannot be saved, and why.
        """
        with self._phone():
            episode = self._episode
            problem = self._unsavable()
            if problem or self._save is None or episode.task is None or episode.actions is None:
                raise NotNow(problem or "this server does not save episodes")
            template, number = episode.task.task.template, int(episode.task.task.id.rpartition("/")[2])
            won = episode.verdict is not None and episode.verdict.won
            saved = self._save(split_of(template, number), episode.task.task.id, episode.actions, won)
            episode.saved = saved.get("file", "") or saved.get("name", "")
            self.version += 1
            return saved

    def _unsavable(self) -> str:
        """Return why the episode cannot be saved, "" if it can."""
        episode = self._episode
        if episode.task is None:
            return "there is no task to demonstrate"
        if episode.ran_out:
            return "the episode took all the steps that the task allows"
        if not episode.over:
            return "the episode is not over"
        if episode.actions is None:
            return "the phone was also changed in a way that no action of the environment does"
        return ""

    # What it shows

    @property
    def stirred(self) -> bool:
        """Whether something may have come over adb since the last look."""
        return self._device.phone.changes != self._seen

    def watch(self) -> None:
        """Note what came over adb."""
        with self._phone():
            pass

    def status(self) -> JsonObject:
        """Return everything that the page shows, as JSON."""
        with self._phone() as phone:
            episode = self._episode
            return {
                "version": self.version,
                "screen": self._key,
                "size": list(phone.size),
                "on": phone.state.screen_on,
                "task": None if episode.task is None else _task(episode.task),
                "seed": str(phone.seed),
                "steps": [{"words": words, "who": who} for words, who in episode.steps],
                "answer": episode.answer,
                "verdict": None if episode.verdict is None else self._verdict(episode.verdict),
                "unsavable": self._unsavable(),
                "saved": episode.saved,
                "elements": [_element(element, phone.size) for element in self._elements()],
                "touch": self._touch,
                "adb": {"serial": self.adb.serial, "clients": self.adb.clients},
            }

    def _verdict(self, verdict: Verdict) -> JsonObject:
        names = {app.package: app.name for app in self._device.phone.apps.values()}
        reasons = [for_people(reason, names) for reason in verdict.reasons]
        return {"won": verdict.won, "score": verdict.score, "reasons": reasons}

    def _elements(self) -> list[ScreenElement]:
        return folded(self._device.dump(), self._device.size())

    def picture(self, width: int) -> bytes:
        """Return the screen as PNG, scaled to a width.

        Raises:
            NotNow: the width is out of range.
        """
        if not _WIDTHS[0] <= width <= _WIDTHS[1]:
            raise NotNow(f"a picture is {_WIDTHS[0]} to {_WIDTHS[1]} pixels wide, got {width}")
        with self._phone() as phone:
            full = phone.size
            image = phone.screenshot((width, round(width * full[1] / full[0])))
        file = io.BytesIO()
        image.save(file, "PNG", compress_level=1)
        return file.getvalue()


def catalogue() -> dict[str, list[JsonObject]]:
    """Return the templates of every split, with their apps."""
    listed: dict[str, list[JsonObject]] = {split: [] for split in SPLITS}
    for name, template in sorted(all_templates().items()):
        entry = {"name": name, "apps": list(template.apps), "steps": template.step_limit}
        for split in sorted({split_of(template, number) for number in range(50)}):
            listed[split].append(entry)
    return listed


def _same_task(task: SimulatedTask) -> SimulatedTask:
    name, _, number = task.task.id.rpartition("/")
    return SimulatedTasks(split_of(task.task.template, int(number)), None, [name]).start(task.task.id)


def _task(task: SimulatedTask) -> JsonObject:
    name, _, number = task.task.id.rpartition("/")
    return {
        "id": task.task.id,
        "goal": task.goal,
        "template": name,
        "number": int(number),
        "split": split_of(task.task.template, int(number)),
        "apps": list(task.task.template.apps),
        "limit": task.step_limit,
    }


def _element(element: ScreenElement, size: tuple[int, int]) -> JsonObject:
    left, top, right, bottom = element.node.bounds
    bounds = [max(0, left), max(0, top), min(size[0], right), min(size[1], bottom)]
    label = ", ".join(part for part in (element.label, element.value if element.kind == "field" else "") if part)
    return {"index": element.index, "label": label, "kind": element.kind, "bounds": bounds}
