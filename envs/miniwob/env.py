"""MiniWoB++ tasks in a real browser, as text or as an image: small web pages on which one thing has to be done.

A task instance is a number that seeds the page's own generator, so the same id gives the same page everywhere. Time is
frozen and advances by half a second with each action, so timers depend only on the actions. The reward is the page's
own, in [-1, 1], without its time discount, and is paid at the last step.

The expert (`turncredit.envs.miniwob.experts`) plays 36 of the tasks.

Not included: the original's structured observations, and FlightWoB.

Source: MiniWoB++ (Liu et al. 2018, arXiv:1802.08802), pages of the package `miniwob`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from turncredit.envs.browser_agent import browser_agent
from turncredit.envs.browser_sight import sight_of
from turncredit.envs.errors import NoExpert, NotReset, UnknownOption, UnknownTask
from turncredit.envs.info import Info
from turncredit.envs.miniwob.catalogue import task_name, task_names
from turncredit.envs.miniwob.experts import EXPERTS
from turncredit.envs.miniwob.open_pages import keep_page, load_page, start_page, take_page
from turncredit.envs.miniwob.parts import Unsolvable
from turncredit.envs.miniwob.planning import planned, played
from turncredit.envs.points import Points
from turncredit.envs.validation import choice, flag
from turncredit.envs.web import BUDGET, BrowserEnv, BrowserWindow, check_deadline

if TYPE_CHECKING:
    from turncredit.tools.browser import Tab

__all__ = ["SPLITS", "MiniWoBEnv"]

SPLITS: Final = ("train", "held_out")
REWARDS: Final = ("page", "score")
_SIZE: Final = (160, 210)
"""Width and height of the part of the page that contains the task."""
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6
_AGENT: Final = browser_agent(
    "You follow an instruction on a small web page.", "Elements have names such as e3.", _SIZE
)
_ID: Final = re.compile(r"(?P<split>\w+)/(?P<name>[\w-]+)/(?P<number>\d{6})")

_VERDICT: Final = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"


class MiniWoBEnv(BrowserEnv):
    """Follow an instruction on a small web page.

    An action is written in the browser's grammar. An impossible action changes nothing; the observation says why.
    reset() raises EnvError if there is no browser or the page does not start, step() raises EnvironmentDied if the
    browser or the page crashes. Ids alternate: the first instance of every task, then the second of every task, and so
    on.

    Args:
        task: name of a task such as "click-button", or a list of names; None for all.
        split: "train" or "held_out"; the splits have different instances, though pages with few variants may look
            alike. Pages with separate test data use it in "held_out".
        screenshot: whether observations are {"text": str, "image": uint8 [210, 160, 3]}; "only": the text leaves the
            elements of the page to the image; "marks": so it does, and the image shows their numbers (3 is e3).
        points: how points are written, such as "0..1000" (see `turncredit.envs.points`); None: in pixels of the image.
        actions: how the agent's model writes actions: "words", "ui-tars" or "qwen". It chooses the prompt and the
            parser of the agent; `step` takes the same actions always.
        budget: approximate maximum length of the page in an observation, in characters.
        reward: "page": the page's, from -1 to 1; "score": from 0 to 1, so that a wrong click costs no more than none.
        deadline: time limit of each browser call in seconds.
        reload: whether each episode loads its page anew; False: pages that this process has open are started again, as
            the original does, for a tenth of the work (see `turncredit.envs.miniwob.open_pages`).
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        EnvError: the pages are not installed, or an argument is invalid.
    """

    metadata = BrowserEnv.metadata | {"agent": _AGENT}  # Gymnasium's attribute

    def __init__(
        self,
        task: str | Sequence[str] | None = None,
        split: str = "train",
        *,
        screenshot: bool | str = False,
        points: Points | None = None,
        actions: str = "words",
        budget: int = BUDGET,
        reward: str = "page",
        deadline: float = 20.0,
        reload: bool = True,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._names = _names(task)
        self._split = choice("split", split, SPLITS)
        self._deadline = check_deadline(deadline)
        self._reload = flag("reload", reload)
        self._clipped = choice("reward", reward, REWARDS) == "score"
        self._window = BrowserWindow(sight_of(_SIZE, screenshot, points, actions), budget)
        self.observation_space = self._window.space()
        self._task = ""
        self._goal = ""
        self._over = False
        self._reward = 0.0

    def list_tasks(self, count: int | None) -> list[str]:
        names = self._names
        numbers = range(_DEFAULT_COUNT if count is None else count)
        return [f"{self._split}/{names[n % len(names)]}/{n // len(names):06d}" for n in numbers]

    def draw_task(self) -> str:
        name = self._names[int(self.np_random.integers(len(self._names)))]
        return f"{self._split}/{name}/{int(self.np_random.integers(_DRAWN_FROM)):06d}"

    def start_task(self, task: str, options: Mapping[str, object]) -> Any:
        self._known(task)
        self._leave(self._window)
        self._task = task
        self._window.open(self._enter)
        self._over, self._reward = False, 0.0
        return self._observation()

    def take_action(self, action: str) -> tuple[Any, float, bool]:
        self._window.wake(self._enter)
        valid = self._window.act(action)
        self._judge()
        return self._observation(), self._score() if self._clipped else self._reward, valid

    def is_over(self) -> bool:
        return self._over

    def plan(self) -> list[str]:
        """Return the expert's actions from the current page to the full reward; [] if the episode is won.

        Where later actions depend on what earlier ones do to the page, they are tried on the same page in another tab.

        Raises:
            NotReset: before the first reset.
            NoExpert: nobody can plan for this task.
            Unsolvable: the episode is lost, or an element is outside of the image, where points do not reach.
        """
        if self.task_id is None:
            raise NotReset
        name, _ = self._known(self._task)
        if name not in EXPERTS:
            raise NoExpert(f"the task {name!r} has no expert; these have: {', '.join(EXPERTS)}")
        if self._over:
            if self._reward < 1.0:
                raise Unsolvable(f"the episode has ended with the reward {self._reward:g}")
            return []
        self._window.wake(self._enter)
        if not EXPERTS[name].plays:
            return planned(name, self._goal, self._window)
        twin = BrowserWindow(self._window.sight, self._window.budget)
        try:
            twin.open(self._enter)
            for action in self._window.taken:
                twin.act(action)
            return played(name, self._goal, twin)
        finally:
            self._leave(twin)

    def close(self) -> None:
        """Close the page, or keep it for the next episode of this process."""
        self._leave(self._window)

    def _known(self, task: str) -> tuple[str, int]:
        """Return name and number of a task instance."""
        match = _ID.fullmatch(task)
        if match is None or match["split"] != self._split or match["name"] not in self._names:
            example = self.task_ids(1)[0]
            raise UnknownTask(f"unknown task {task!r} in the split {self._split!r}; ids look like {example!r}")
        return match["name"], int(match["number"])

    def _enter(self) -> Tab:
        """Open and start the page of the instance."""
        name, number = self._known(self._task)
        tab = (None if self._reload else take_page(name, self._deadline)) or load_page(name, self._deadline)
        try:
            mode = "train" if self._split == "train" else "test"
            self._goal = start_page(tab, name, f"{self._split}/{number}", mode)
        except BaseException:
            tab.close()
            raise
        return tab

    def _leave(self, window: BrowserWindow) -> None:
        """Keep the page of a window, unless pages are loaded anew."""
        tab = None if self._reload else window.detach()
        if tab is not None:
            keep_page(tab, self._known(self._task)[0], self._deadline)
        window.close()

    def _judge(self) -> None:
        """Read from the page whether the task is over."""
        over, reward = self._window.script(_VERDICT)
        self._over = bool(over)
        self._reward = float(reward) if over else 0.0

    def _score(self) -> float:
        return min(1.0, max(0.0, self._reward))

    def _observation(self) -> object:
        body = f"The task has ended with reward {self._reward:g}." if self._over else None
        return self._window.observation(f"Goal: {self._goal}", body=body)

    def get_info(self, valid: bool) -> Info:
        name, _ = self._known(self._task)
        window = self._window
        info: Info = {
            "task": self._task,
            "task_type": name,
            "state": f"over {self._reward:g}" if self._over else window.view.key(address=name),
            "admissible_actions": [] if self._over else window.admissible(),
            "free_actions": [] if self._over else window.free(),
            "valid": valid,
            "score": self._score(),
            "won": self._over and self._reward >= 1.0,
        }
        if window.touched:
            info["touch"] = window.touched
        return info


def _names(task: object) -> tuple[str, ...]:
    """Return the requested task names."""
    if task is None:
        return tuple(task_name(name) for name in task_names() or ("click-button",))
    # str is a sequence as well
    if not isinstance(task, str) and not isinstance(task, Sequence):
        raise UnknownOption(f"task must be the name of a task, a list of names or None, got {task!r}")
    names = tuple(task_name(name) for name in ([task] if isinstance(task, str) else task))
    if not names or len(set(names)) < len(names):
        raise UnknownOption(f"task must be a non-empty list of different names, got {task!r}")
    return names
