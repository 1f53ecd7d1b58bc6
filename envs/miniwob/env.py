"""The tasks of MiniWoB++ in a real browser, as texts: small pages on which one thing is to be done.

An instance is a number: it seeds the page's own generator, so the same id is the same page everywhere. Time stands
still but for half a second with each action: what a page does by timers depends on the actions alone, and there is no
hurry. Reward is the page's own, without its discount for time, at the step that ends the task: from -1 to 1.

Left out on purpose: actions by coordinates (tasks of drawing and dragging can be seen, and hardly won), the original's
fields and its Selenium, FlightWoB.

Source: MiniWoB++ (Liu et al. 2018, arXiv:1802.08802), the pages of its package `miniwob`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from turnwise.envs.errors import EnvError, UnknownOption, UnknownTask
from turnwise.envs.miniwob.catalogue import html_folder, task_name, task_names
from turnwise.envs.validation import choice
from turnwise.envs.web import BUDGET, BrowserEnv, BrowserWindow, seconds

if TYPE_CHECKING:
    from turnwise.tools.browser import Tab

__all__ = ["SPLITS", "MiniWoBEnv"]

SPLITS: Final = ("train", "held_out")
_SIZE: Final = (160, 210)
"""Width and height of the part of the page that holds the task."""
_VIEWPORT: Final = (500, 320)
_TICK: Final = 0.5
_READY: Final = 20
_DEFAULT_COUNT: Final = 1000
_DRAWN_FROM: Final = 10**6
_ID: Final = re.compile(r"(?P<split>\w+)/(?P<name>[\w-]+)/(?P<number>\d{6})")

_START: Final = """
([seed, mode]) => {
  const style = document.createElement('style');
  style.textContent = '#reward-display, #click-canvas { display: none !important }';
  document.head.appendChild(style);
  core.EPISODE_MAX_TIME = 2147483647;
  core.setDataMode(mode);
  Math.seedrandom(seed);
  core.startEpisodeReal();
}
"""
_GOAL: Final = """
() => {
  const said = core.getUtterance();
  return [WOB_TASK_READY, typeof said === 'string' ? said : said.utterance];
}
"""
_VERDICT: Final = "() => [WOB_DONE_GLOBAL, WOB_RAW_REWARD_GLOBAL]"


class MiniWoBEnv(BrowserEnv):
    """Do on a small page what a sentence asks for.

    An action is one of the browser's grammar; what is not possible changes nothing and is explained. Where there is no
    browser, or the page does not start, reset() raises an EnvError; where browser or page are lost, step() raises
    EnvironmentDied. Ids come in rounds: the first instance of every task, then the second of every task.

    Args:
        task: name of a task such as "click-button", or several of them; None for all.
        split: "train" or "held_out": instances of the one are not instances of the other, though pages with few
            variants look alike in both. Pages that have data for tests use it in "held_out".
        screenshot: observations are {"text": str, "image": uint8 [210, 160, 3]}.
        budget: most characters of the page in an observation, about.
        deadline: seconds for each call of the browser.
        render_mode: None, "ansi" or "rgb_array".

    Raises:
        EnvError: the pages are not installed, or a value is not one of the choices.
    """

    def __init__(
        self,
        task: str | Sequence[str] | None = None,
        split: str = "train",
        *,
        screenshot: bool = False,
        budget: int = BUDGET,
        deadline: float = 20.0,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        self._names = _names(task)
        self._split = choice("split", split, SPLITS)
        self._deadline = seconds(deadline)
        self._window = BrowserWindow(screenshot=screenshot, budget=budget, size=_SIZE)
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

    def start_task(self, task: str, options: Mapping[str, Any]) -> Any:
        self._known(task)
        self._task = task
        self._window.open(self._enter)
        self._over, self._reward = False, 0.0
        return self._observation()

    def take_action(self, action: str) -> tuple[Any, float, bool]:
        self._window.wake(self._enter)
        valid = self._window.act(action)
        self._judge()
        return self._observation(), self._reward, valid

    def is_over(self) -> bool:
        return self._over

    def _known(self, task: str) -> tuple[str, int]:
        """Return name and number of an instance of ours."""
        match = _ID.fullmatch(task)
        if match is None or match["split"] != self._split or match["name"] not in self._names:
            where = f"the split {self._split!r}: an id is {self.task_ids(1)[0]!r}, say"
            raise UnknownTask(f"unknown task {task!r} in {where}")
        return match["name"], int(match["number"])

    def _enter(self) -> Tab:
        """Open the page of the instance and start it."""
        from turnwise.tools.browser import open_tab, static_site

        name, number = self._known(self._task)
        address = f"{static_site(str(html_folder())).origin}/miniwob/{name}.html"
        tab = open_tab(
            address, viewport=_VIEWPORT, time_step=_TICK, deadline=self._deadline, all_elements=True, hidden="#query"
        )
        try:
            tab.script(_START, [f"{self._split}/{number}", "train" if self._split == "train" else "test"])
            for _ in range(_READY):
                ready, goal = tab.script(_GOAL)
                if ready:
                    break
                tab.pass_time()
            else:
                raise EnvError(f"the page of {name!r} does not get ready")
        except BaseException:
            tab.close()
            raise
        self._goal = " ".join(str(goal).split())
        return tab

    def _judge(self) -> None:
        """Ask the page whether the task is over."""
        over, reward = self._window.script(_VERDICT)
        self._over = bool(over)
        self._reward = float(reward) if over else 0.0

    def _observation(self) -> Any:
        body = f"The task has ended with reward {self._reward:g}." if self._over else None
        return self._window.observation(f"Goal: {self._goal}", body=body)

    def get_info(self, valid: bool) -> dict[str, Any]:
        name, _ = self._known(self._task)
        window = self._window
        return {
            "task": self._task,
            "task_type": name,
            "state": f"over {self._reward:g}" if self._over else window.view.key(address=name),
            "admissible_actions": [] if self._over else window.admissible(),
            "free_actions": [] if self._over else window.free(),
            "valid": valid,
            "score": min(1.0, max(0.0, self._reward)),
            "won": self._over and self._reward >= 1.0,
        }


def _names(given: object) -> tuple[str, ...]:
    """Return the names of the tasks asked for: one may stand alone."""
    if given is None:
        return tuple(task_name(name) for name in task_names() or ("click-button",))
    # a str is a sequence too, of letters
    if not isinstance(given, str) and not isinstance(given, Sequence):
        raise UnknownOption(f"task is {given!r}; it is the name of a task, a list of them, or None for all")
    names = tuple(task_name(name) for name in ([given] if isinstance(given, str) else given))
    if not names or len(set(names)) < len(names):
        raise UnknownOption(f"task is {given!r}; it holds at least one task, and each once")
    return names
