"""Tasks on an Android phone as a Gymnasium environment: a simulated phone in this process, or a device of adb.

An action is one line of the short grammar or one JSON object of AndroidWorld (see `actions`). The reward is 1 at the
`done` (or `infeasible`) that ends a task with success, and 0 elsewhere. A task allows 10 x its complexity in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import gymnasium
import numpy as np

from turncredit.envs.android.actions import Action, BadAction
from turncredit.envs.android.failures import DeviceFailures
from turncredit.envs.android.sight import ScreenView, phone_agent, sight_of
from turncredit.envs.android.stock.source import StockTasks
from turncredit.envs.android.task_source import DeviceTask, SimulatedTasks, TaskSource
from turncredit.envs.android.tasks.judge import Verdict
from turncredit.envs.android.values import Info, Observation, Options
from turncredit.envs.errors import BadSnapshot, EnvError, NotReset, UnknownOption, UnknownTask
from turncredit.envs.info import NO_FORKS
from turncredit.envs.points import Points
from turncredit.envs.snapshot import Fields
from turncredit.envs.spaces import Text
from turncredit.envs.text import SavableEnv
from turncredit.envs.validation import flag
from turncredit.tools.android.device import DeviceError, DeviceLost

__all__ = ["AndroidEnv"]

_FREE: Final = ("tap ...", "type ...", "answer ...", "open ...", "scroll ...", "swipe ...", "long press ...", "{...}")


class AndroidEnv(SavableEnv):
    """Do tasks on a phone: add contacts, set alarms, answer questions about what the phone holds.

    An invalid action changes nothing, and the observation says why. `done` and `infeasible` end the episode; a question
    is answered with `answer` before. The seed determines the task, if none is requested.

    Args:
        observation: "text": the screen's elements; "screen": {"text": str, "image": uint8 [H, W, 3]}; "marks": so too,
            with the numbers of the elements on the image.
        format: of the text: "compact" (short lines), "m3a" or "t3a" (as AndroidWorld's agents see it), or "none", which
            leaves the elements to the picture.
        split: "train", or what training has not seen: "instances", "templates" or "apps".
        apps: only tasks that need no other apps than these; None: all.
        task_types: a template, or a list of them; None: all.
        injections: share of the tasks whose phone carries instructions to the agent, in contacts, messages, names of
            networks and so on. In those, `info["harm"]` says whether the agent has obeyed.
        device: None for simulated phones, or the serial of a device that adb lists: its tasks are those of `stock`, and
            it plays one episode at a time. One that is lost raises `EnvironmentDied`; the next reset tries again.
        connection: with `device`, seconds: timeout of a request; recovery, settle_limit, settle_pause of `AdbDevice`.
        size: width and height of the image in pixels.
        points: how points are written, such as "0..1000" (see `turncredit.envs.points`); None: in pixels of the screen,
            where the expert and the admissible actions touch elements by their numbers. In {"scale": "0..1000", "snap":
            True}, all points of an element lead to one state.
        actions: how the agent's model writes actions: "words", "ui-tars", "qwen" or "androidworld". It chooses the
            prompt and the parser of the agent; `step` takes the same actions always.
        instructions: whether the first observation explains the actions, where `actions` is "words".
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        EnvError: an argument is invalid, or no task fits.
    """

    metadata: Info = {"render_modes": ["ansi", "rgb_array"], "agent": phone_agent}  # noqa: RUF012 (Gymnasium's attribute)
    SNAPSHOT_FORMAT = ("Android", 1)
    EXAMPLE_ACTION = "tap 3"

    def __init__(
        self,
        observation: str = "text",
        format: str = "compact",
        split: str = "train",
        apps: str | Sequence[str] | None = None,
        task_types: str | Sequence[str] | None = None,
        injections: float = 0.0,
        device: str | None = None,
        connection: Options | None = None,
        size: tuple[int, int] = (540, 1200),
        points: Points | None = None,
        actions: str = "words",
        instructions: bool = True,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._sight = sight_of(observation, format, size, points, actions, flag("instructions", instructions))
        chosen = _names("apps", apps), _names("task_types", task_types)
        self._source = _source(device, connection, (split, *chosen), injections)
        if not self._source.replayable:
            self.metadata = self.metadata | {NO_FORKS: "a device goes on by itself between two actions"}
        self._episode: DeviceTask | None = None
        self._played: list[str] = []
        self._answer = ""
        self._verdict: Verdict | None = None
        self._harm: bool | None = None
        self._now: ScreenView | None = None  # the screen after the last action, and the key of its state
        self._key = ""
        self._touched: list[tuple[float, float]] = []  # by the last action, as shares of width and height
        if self._sight.images:
            image = gymnasium.spaces.Box(0, 255, (self._sight.size[1], self._sight.size[0], 3), np.uint8)
            self.observation_space: gymnasium.Space[Observation] = gymnasium.spaces.Dict(
                {"text": Text(), "image": image}
            )

    def __getstate__(self) -> Info:
        """Return the state without the phone, to which the actions lead again.

        Raises:
            EnvError: the episode is on a device, of which there cannot be two.
        """
        if self._episode is not None:
            self._check_replayable("copied")
        return self.__dict__ | {"_episode": None, "_verdict": None, "_now": None}

    def __setstate__(self, state: Info) -> None:
        """Restore the state, and play the episode again."""
        self.__dict__.update(state)
        if self.task_id is not None:
            self._replay(self.task_id, self._played)

    @property
    def episode(self) -> DeviceTask:
        """The current task and its device.

        Raises:
            NotReset: reset() was not called.
        """
        if self._episode is None:
            raise NotReset
        return self._episode

    @property
    def verdict(self) -> Verdict | None:
        """Why the episode was won or lost; None before its end."""
        return self._verdict

    def plan(self) -> list[str]:
        """Return the expert's actions from the current state to success; [] if the task is won.

        Raises:
            NotReset: reset() was not called.
            EnvError: success cannot be reached from here.
        """
        episode = self.episode
        if self._verdict is not None:
            if self._verdict.won:
                return []
            raise EnvError("no plan: the episode has ended without success")
        return episode.plan(self._answer, self._sight.writer)

    def steps_of(self, action: str, touch: tuple[int, int] | None = None) -> Iterator[str]:
        """Yield how this agent does what an action on numbered elements says; take each before the next is asked for.

        Args:
            action: as the expert of the default environment writes it.
            touch: the pixel that it taps or holds; None: the middle of its element.

        Raises:
            NotReset: reset() was not called.
            BadAction: the screen does not allow it.
        """
        yield from self._sight.steps(action, touch, self.episode.device)

    def render(self) -> Observation:
        """Return the screen as uint8 [H, W, 3], or the last exchange as text, as `render_mode` says."""
        if self.render_mode == "rgb_array" and self._episode is not None:
            return self._episode.device.screenshot(self._sight.size)
        return super().render()

    def list_tasks(self, count: int | None) -> list[str]:
        with DeviceFailures():
            return self._source.ids(count)

    def draw_task(self) -> str:
        with DeviceFailures():
            return self._source.draw(self.np_random)

    def start_task(self, task: str, options: Options) -> Observation:
        try:
            with DeviceFailures():
                self._begin(self._source.start(task))
                return self._observe(f"{self._sight.intro}Your task is to: {self.episode.goal}\n")
        except UnknownTask:
            raise
        except EnvError:
            self._episode = None  # the device may be in the middle of its preparation
            raise

    def _begin(self, episode: DeviceTask) -> None:
        self._episode, self._played, self._answer, self._verdict, self._now = episode, [], "", None, None
        self._touched = []
        self._harm = episode.harm("")

    def take_action(self, action: str) -> tuple[Observation, float, bool]:
        self._played.append(action)
        with DeviceFailures():
            problem = self._act(action)
            reward = float(self._verdict.won) if self._verdict is not None else 0.0
            return self._observe(problem), reward, not problem

    def _act(self, text: str) -> str:
        """Take an action; return "" or a line that says why it is invalid."""
        episode = self.episode
        self._touched = []
        try:
            size = episode.device.size()
            action, pixels = self._sight.act(text, episode.device, episode.apps, self._view())
            self._touched = [(x / size[0], y / size[1]) for x, y in pixels]
        except BadAction as error:
            return f"Invalid action: {error}.\n"
        except DeviceLost:
            raise
        except DeviceError as error:  # such as a text that its keyboard cannot type
            self._now = None
            return f"Invalid action: {' '.join(str(error).split())}.\n"
        self._now = None
        self._heed(action)
        return ""

    def _heed(self, action: Action) -> None:
        """Take note of what the agent says."""
        if action.action_type == "answer":
            self._answer = str(action.text)
        elif action.ends:
            self._answer = action.text or self._answer
            self._verdict = self.episode.verdict(self._answer, action.goal_status == "infeasible")
        if self._harm is False:  # harm that was done stays done
            self._harm = self.episode.harm(self._answer)

    def _view(self) -> ScreenView:
        """Return the screen as text."""
        if self._now is None:
            episode = self.episode
            self._key = episode.state()
            self._now = self._sight.look(episode.device, tuple(episode.apps))
        return self._now

    def _observe(self, head: str) -> Observation:
        text = f"{head}{self._view().text}"
        return self._with_image(text) if self._sight.images else text

    def _with_image(self, text: str) -> Info:
        return {"text": text, "image": self._sight.picture(self.episode.device, self._view())}

    def is_over(self) -> bool:
        return self._verdict is not None

    def get_info(self, valid: bool) -> Info:
        episode, verdict, view = self.episode, self._verdict, self._view()
        info: Info = {
            "task": self.task_id or "",
            "state": self._state(),
            "admissible_actions": []
            if verdict
            else [*view.admissible, *self._sight.written(episode.keys(), episode.device.size())],
            "free_actions": [] if verdict else list(_FREE),
            "valid": valid,
            "score": verdict.score if verdict else 0.0,
            "won": verdict is not None and verdict.won,
            "task_type": episode.task_type,
            "step_limit": episode.step_limit,
        }
        if self._touched:
            info["touch"] = self._touched
        if self._harm is not None:
            info["harm"] = self._harm
            info["extras"] = {"harm": int(self._harm)}
        if verdict:
            info["reasons"] = verdict.reasons
        return info

    def _keys(self) -> list[str]:
        """Return the touches of keys that are no elements."""
        return self._sight.written(self.episode.keys(), self.episode.device.size())

    def _state(self) -> str:
        """Return the state key: the phone, and what the agent has answered."""
        return f"{self._key} {self._answer}" if self._answer else self._key

    def snapshot(self) -> bytes:
        """Return the current episode as bytes, for `restore`: its actions, which lead to the same state again.

        Raises:
            NotReset: called before the first reset.
            EnvError: the episode is on a device.
        """
        self._check_replayable("saved")
        action, shown = self.last_exchange
        self.last_exchange = (action, shown["text"]) if self._sight.images else (action, shown)
        try:
            return super().snapshot()
        finally:
            self.last_exchange = (action, shown)

    def restore(self, data: bytes, /) -> tuple[Observation, Info]:
        """Resume the episode of a snapshot, taken from an environment with the same arguments.

        Returns:
            The observation and `info` of that state; `valid` is True.

        Raises:
            BadSnapshot: `data` is not a snapshot of such an environment. The current episode stays as it is.
        """
        shown, info = super().restore(data)
        if self._sight.images:
            self.last_exchange = (self.last_exchange[0], self._with_image(shown))
            return self.last_exchange[1], info
        return shown, info

    def snapshot_arguments(self) -> Info:
        return {**self._source.arguments(), **self._sight.arguments()}

    def save_episode(self) -> Info:
        return {"played": self._played}

    def _check_replayable(self, done: str) -> None:
        if not self._source.replayable:
            raise EnvError(f"an episode on a device cannot be {done}")

    def close(self) -> None:
        """Let go of the device, which is brought back to what it was before the task as far as adb can."""
        self._source.close()
        super().close()

    def load_episode(self, task: str, saved: Fields) -> None:
        self._check_replayable("restored")
        played = saved.texts("played")
        old = self._episode, self._played, self._answer, self._verdict, self._harm
        if not self._replay(task, played):
            self._episode, self._played, self._answer, self._verdict, self._harm = old
            self._now = None
            raise BadSnapshot("the snapshot's 'played' goes on after the end of the episode")

    def _replay(self, task: str, played: Sequence[str]) -> bool:
        """Play a task from the start; return whether all actions come before its end."""
        self._begin(self._source.start(task))
        for action in played:
            if self.is_over():
                return False
            self._played.append(action)
            self._act(action)
        return True


def _source(
    device: str | None,
    connection: Options | None,
    chosen: tuple[str, list[str] | None, list[str] | None],
    injections: float,
) -> TaskSource:
    if device is None:
        if connection is not None:
            raise UnknownOption("connection goes with a device: device='SERIAL'")
        return SimulatedTasks(*chosen, injections)
    if injections:
        raise UnknownOption("injections are planted on simulated phones alone, not on a device")
    return StockTasks(device, *chosen, connection)


def _names(option: str, value: str | Sequence[str] | None) -> list[str] | None:
    if value is None:
        return None
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else []
    if not names or not all(isinstance(name, str) for name in names):
        raise UnknownOption(f"{option} must be a name, or a list of names, got {value!r}")
    return names
