"""Tasks of a server with AndroidWorld's HTTP interface, as a Gymnasium environment.

The server is the original's container, with an emulator in it, or `turncredit serve phone --androidworld`. Actions are
those of `turncredit/Android-v0`. The server lists its elements at /dump; the original does not, and gives screenshots
only, so that its phone is operated by coordinates.

Not included: snapshots, forks and an expert, for which a server has no request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from turncredit.envs.android.actions import Action, BadAction, NotAnAction, parse
from turncredit.envs.android.elements import ScreenElement, leaves
from turncredit.envs.android.failures import DeviceFailures
from turncredit.envs.android.phone_agent import phone_agent
from turncredit.envs.android.pointing import AgentPoints
from turncredit.envs.android.screen_text import FORMATS, admissible_at, scrolls
from turncredit.envs.android.values import Info, JsonObject, Observation, Options
from turncredit.envs.errors import EnvError, EnvironmentDied, UnknownOption, UnknownTask
from turncredit.envs.info import NO_FORKS
from turncredit.envs.spaces import Text
from turncredit.envs.text import TextEnv
from turncredit.envs.validation import choice, integer, number
from turncredit.tools.android.androidworld_client import AndroidWorldClient, RequestRefused
from turncredit.tools.android.device import DeviceError
from turncredit.tools.android.node import BadDump, Node, parse_xml

__all__ = ["AndroidWorldEnv"]

_OBSERVATIONS: Final = ("text", "screen")
_SUITE: Final = ("n_task_combinations", "seed", "task_family")
_INSTRUCTIONS: Final = (
    "You operate a phone. Reply with one action: tap X Y | long press X Y | type TEXT (into the field with the focus) "
    "| scroll up/down | swipe left/right | enter | open APP | back | home | wait | answer TEXT (for questions, before "
    "done) | done | infeasible (the task cannot be done). Where elements are listed, a number may stand for X Y, and "
    "type N TEXT replaces the text of field N.\n"
)


class _Screen(NamedTuple):
    """What the server shows."""

    text: str
    state: str
    size: tuple[int, int]
    root: Node | None = None  # None: this server does not list elements
    elements: Sequence[ScreenElement] = ()
    apps: Sequence[str] = ()
    pixels: NDArray[np.uint8] | None = None


@dataclass
class _Run:
    """The task that is on the server's phone."""

    kind: str
    index: int
    goal: str
    step_limit: int
    ended: bool = False
    torn_down: bool = False
    score: float = 0.0
    reasons: list[str] = field(default_factory=list)


class AndroidWorldEnv(TextEnv):
    """Do the tasks of an AndroidWorld server. The task ids are TYPE/INDEX.

    An invalid action changes nothing, and the observation says why. `done` and `infeasible` end the episode with the
    score of the server; the reward is 1 for a score of 1, else 0. A server that cannot be reached raises
    `EnvironmentDied`; the next reset tries again.

    Args:
        url: address of the server.
        observation: "text": the screen's elements, which the original does not list; "screen":
            {"text": str, "image": uint8 [H, W, 3]}.
        format: of the text: "compact", "m3a" or "t3a".
        task_types: a type of task, or a list of them; None: all of the suite.
        suite: arguments of a suite that the server makes first: n_task_combinations, seed, task_family. None: its own.
        step_limit: turns of a task, where the server does not say (the original does not).
        size: width and height of the image in pixels.
        points: how points are written, as for `turncredit/Android-v0`; None: in pixels of the screen, where the
            admissible actions name elements by their numbers. `snap` needs a server that lists elements.
        timeout: seconds for one attempt of a request; the start of a task takes an emulator a while.
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        UnknownOption: an argument is missing or invalid.
    """

    metadata: Info = {  # noqa: RUF012 (Gymnasium's attribute)
        "render_modes": ["ansi", "rgb_array"],
        "agent": phone_agent,
        NO_FORKS: "an emulator keeps its own clock, so the same taps need not lead to the same screen",
    }
    EXAMPLE_ACTION = "tap 540 1200"

    def __init__(
        self,
        url: str | None = None,
        observation: str = "text",
        format: str = "compact",
        task_types: str | Sequence[str] | None = None,
        suite: Mapping[str, int | str] | None = None,
        step_limit: int = 30,
        size: tuple[int, int] = (540, 1200),
        points: str | Sequence[int] | Mapping[str, object] | None = None,
        timeout: float = 120.0,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if url is None:
            raise UnknownOption("AndroidWorld needs the url of a server, such as url=http://127.0.0.1:5000")
        self._images = choice("observation", observation, _OBSERVATIONS) == "screen"
        self._format = FORMATS[choice("format", format, FORMATS)]
        self._types = [task_types] if isinstance(task_types, str) else task_types
        self._suite = dict(suite) if suite is not None else None
        for name in self._suite or ():
            choice("argument of a suite", name, _SUITE)
        self._limit = integer("step_limit", step_limit, 1)
        if not isinstance(size, tuple | list) or len(size) != 2:
            raise UnknownOption(f"size must be a pair of width and height, got {size!r}")
        self._size = integer("size", size[0], 16, 4096), integer("size", size[1], 16, 4096)
        self._points = AgentPoints.of(points, self._size)
        self._timeout = number("timeout", timeout, 0.01, 1e6)
        self._url = url
        self._client = self._connect()
        self._lengths: dict[str, int] | None = None  # type of task -> instances; 0: not asked yet
        self._run: _Run | None = None
        self._screen = _Screen("", "", (0, 0))
        if self._images:
            image = gymnasium.spaces.Box(0, 255, (self._size[1], self._size[0], 3), np.uint8)
            self.observation_space: gymnasium.Space[Observation] = gymnasium.spaces.Dict(
                {"text": Text(), "image": image}
            )

    def _connect(self) -> AndroidWorldClient:
        try:
            return AndroidWorldClient(self._url, timeout=self._timeout)
        except DeviceError as error:
            raise UnknownOption(str(error)) from None

    def __getstate__(self) -> Info:
        """Refuse: the episode is on the server's phone, of which there cannot be two."""
        raise EnvError("an episode on a server cannot be copied")

    def _known(self) -> dict[str, int]:
        """Return the types of the suite's tasks, asked once."""
        if self._lengths is None:
            with DeviceFailures():
                if self._suite is not None:
                    self._client.reinitialize(**self._suite)
                names = self._client.task_list()
            for name in self._types or ():
                choice("task type", name, names)
            self._lengths = dict.fromkeys(self._types or names, 0)
        return self._lengths

    def _length(self, kind: str) -> int:
        lengths = self._known()
        if not lengths[kind]:
            with DeviceFailures():
                lengths[kind] = self._client.task_length(kind)
        return lengths[kind]

    def list_tasks(self, count: int | None) -> list[str]:
        """Return the first ids, one of each type in turn."""
        kinds = list(self._known())
        ids: list[str] = []
        index = 0
        while kinds and (count is None or len(ids) < count):
            kinds = [kind for kind in kinds if index < self._length(kind)]
            ids += [f"{kind}/{index}" for kind in kinds]
            index += 1
        return ids[:count]

    def draw_task(self) -> str:
        """Return a random task; all types are equally likely."""
        kinds = list(self._known())
        kind = kinds[int(self.np_random.integers(len(kinds)))]
        return f"{kind}/{int(self.np_random.integers(self._length(kind)))}"

    def start_task(self, task: str, options: Options) -> Observation:
        """Start a task on the server's phone."""
        kind, _, number = task.rpartition("/")
        kinds = self._known()
        length = self._length(kind) if kind in kinds else 0
        if not number.isdecimal() or not int(number[:9]) < length or str(int(number[:9])) != number:
            raise UnknownTask.of(task, [f"{name}/0" for name in kinds], f"the suite of {self._url}")
        self._tear_down()
        self._run = None
        with DeviceFailures():
            self._client.reset()
            answer = self._client.initialize(kind, int(number))
            goal = self._client.goal(kind, int(number))
        limit = answer.get("step_limit")
        self._run = _Run(kind, int(number), goal, limit if isinstance(limit, int) and limit > 0 else self._limit)
        self._look()
        return self._observe(f"{_INSTRUCTIONS}{self._points.words}Your task is to: {goal}\n")

    def take_action(self, action: str) -> tuple[Observation, float, bool]:
        """Send an action to the server."""
        run, problem = self._running(), ""
        try:
            parsed = self._points.in_pixels(self._parsed(action), self._screen.elements, self._screen.size)
            fields = self._as_json(parsed)
            with DeviceFailures():
                self._client.execute(fields)
        except (BadAction, RequestRefused) as error:
            problem = f"Invalid action: {' '.join(str(error).split())}.\n"
        else:
            if parsed.ends:
                with DeviceFailures():
                    run.score, run.reasons = self._client.score(run.kind, run.index)
                run.ended = True
        if not problem:
            self._look()
        if run.ended:
            self._tear_down()
        return self._observe(problem), float(run.ended and run.score >= 1.0), not problem

    def _parsed(self, action: str) -> Action:
        try:
            return parse(action)
        except NotAnAction as error:
            from turncredit.envs.android.examples import explained

            raise explained(error, self._examples()) from None

    def _examples(self) -> list[str]:
        """Return actions that the screen allows."""
        from turncredit.envs.android.examples import examples

        screen, numbered = self._screen, self._screen.root is not None
        return examples(screen.elements, screen.size, (), numbered=numbered, scale=self._points.scale)

    def _running(self) -> _Run:
        if self._run is None:
            raise EnvironmentDied(f"the episode on {self._url} could not be started; call reset()")
        return self._run

    def _as_json(self, action: Action) -> JsonObject:
        """Return an action of the agent in the terms of the server, whose numbers of elements may be others."""
        screen = self._screen
        if action.x2 is not None and screen.root is None:  # our own server lists elements, and knows such swipes
            raise BadAction("AndroidWorld has no swipe between two points: give a direction, such as swipe left")
        names = ("action_type", "text", "direction", "goal_status", "app_name", "keycode", "x2", "y2")
        fields = {name: getattr(action, name) for name in names if getattr(action, name) is not None}
        if action.clear_text:
            fields["clear_text"] = True
        if action.action_type == "input_text" and not action.press_enter and screen.root is not None:
            fields["press_enter"] = False  # the original always presses it
        if action.index is not None:
            fields |= self._place(action, screen)
        elif action.x is not None and action.y is not None:
            width, height = screen.size
            if not (0 <= action.x < width and 0 <= action.y < height):
                raise BadAction(f"({action.x}, {action.y}) is not on the screen of {width} x {height} pixels")
            fields |= {"x": action.x, "y": action.y}
        return fields

    def _place(self, action: Action, screen: _Screen) -> dict[str, int]:
        """Return where an element is, for the server."""
        if screen.root is None:
            raise BadAction(f"this server does not list elements: give coordinates, such as {self._examples()[0]}")
        index, elements = action.index, screen.elements
        if index is None or not 0 <= index < len(elements):
            choices = f"the elements are 0 to {len(elements) - 1}" if elements else "the screen shows no elements"
            raise BadAction(f"there is no element {index}: {choices}")
        element = elements[index]
        if action.action_type in ("scroll", "swipe"):
            listed = leaves(screen.root, screen.size)
            same = next((other.index for other in listed if other.node is element.node), None)
            if same is None:
                raise BadAction(f"element {index} cannot be moved through this server; scroll the screen as a whole")
            return {"index": same}
        if action.action_type == "input_text" and not element.node.editable:
            raise BadAction(f"element {index} is not a text field")
        x, y = element.center
        return {"x": x, "y": y}

    def _look(self) -> None:
        """Read the screen from the server."""
        with DeviceFailures():
            answer = self._client.dump()
            pixels = self._client.screenshot() if self._images or answer is None else None
        if answer is not None:
            self._screen = self._read(answer)._replace(pixels=pixels)
        elif not self._images:
            raise EnvError(
                f"the server at {self._url} gives screenshots only, as the original does: use observation='screen'"
            )
        elif pixels is not None:
            height, width = pixels.shape[:2]
            text = f"A screen of {width} x {height} pixels; its elements are not listed. Act by coordinates."
            self._screen = _Screen(
                text, blake2b(pixels.tobytes(), digest_size=16).hexdigest(), (width, height), pixels=pixels
            )

    def _read(self, answer: Options) -> _Screen:
        try:
            root, _ = parse_xml(answer["xml"])
            width, height = map(int, answer["size"])
            apps, state = [str(name) for name in answer["apps"]], str(answer["state"])
        except (KeyError, TypeError, ValueError, AttributeError, BadDump) as error:
            raise EnvError(f"{self._url}/dump does not list the elements of a screen: {error!r}") from None
        elements = self._format.elements(root, (width, height))
        return _Screen(self._format.text(elements, scrolls(root)), state, (width, height), root, elements, apps)

    def _observe(self, head: str) -> Observation:
        text = f"{head}{self._screen.text}"
        return {"text": text, "image": self._picture()} if self._images else text

    def _picture(self) -> NDArray[np.uint8]:
        """Return the screen at the size of the observation.

        Raises:
            ModuleNotFoundError: the extra `android` is not installed.
        """
        try:
            from PIL import Image
        except ModuleNotFoundError:
            from turncredit.installation import MissingPackage, needs

            raise MissingPackage(needs("screenshots need Pillow", "android")) from None
        pixels = self._screen.pixels
        if pixels is None:
            with DeviceFailures():
                pixels = self._client.screenshot()
            self._screen = self._screen._replace(pixels=pixels)
        image = Image.fromarray(pixels).resize(self._size, Image.Resampling.BOX)
        return np.array(image, dtype=np.uint8)

    def is_over(self) -> bool:
        """Return whether the agent has said that it is done."""
        return self._run is not None and self._run.ended

    def get_info(self, valid: bool) -> Info:
        """Return the `info` dictionary."""
        run, screen = self._running(), self._screen
        info: Info = {
            "task": f"{run.kind}/{run.index}",
            "state": screen.state,
            "valid": valid,
            "score": run.score,
            "won": run.ended and run.score >= 1.0,
            "task_type": run.kind,
            "step_limit": run.step_limit,
        }
        if screen.root is not None:
            able = admissible_at(screen.elements, scrolls(screen.root), screen.apps, self._points.scale, screen.size)
            info["admissible_actions"] = [] if run.ended else able
        if run.ended and run.reasons:
            info["reasons"] = tuple(run.reasons)
        return info

    def render(self) -> Observation:
        """Return the screen as uint8 [H, W, 3], or the last exchange as text, as `render_mode` says."""
        if self.render_mode == "rgb_array" and self._run is not None:
            return self._picture()
        return super().render()

    def _tear_down(self) -> None:
        """End the task on the server, if one is there; a failure is the next request's to tell."""
        run = self._run
        if run is not None and not run.torn_down:
            run.torn_down = True
            with suppress(DeviceError):
                self._client.tear_down(run.kind, run.index)

    def close(self) -> None:
        """Give the server's phone back, if it was this environment's own."""
        self._client.close()
        super().close()
