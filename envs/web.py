"""What environments in a browser have in common: a window with a page in it, what is seen in it, and how it renders.

A `Window` holds one tab and what was done in it. It pickles as the actions done; the environment that wakes it opens
its page again and lets it do them once more, which leads to the same page, as episodes are repeatable.

Left out on purpose: tasks, rewards and ends, which are the environment's, and the browser (`turnwise.tools.browser`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np

from turnwise.envs.errors import EnvError, EnvironmentDied, UnknownOption
from turnwise.envs.spaces import Text
from turnwise.envs.text import TextEnv
from turnwise.envs.validation import flag, integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from turnwise.tools.browser import PageView, Tab

__all__ = ["BUDGET", "FREE", "BrowserEnv", "BrowserWindow", "seconds", "told"]

BUDGET: Final = 8000
"""Most characters of a page in an observation, about."""
FREE: Final = ("press[...]",)
"""Forms of actions that every page takes and nobody can list; writable elements add type[e3, ...]."""


def seconds(deadline: object) -> float:
    """Return the seconds for each call of the browser.

    Raises:
        UnknownOption: they are no number above 0, or more than a day.
    """
    from turnwise.tools.browser import BadBrowserOption, check_seconds

    try:
        return check_seconds("deadline", deadline)
    except BadBrowserOption as error:
        raise UnknownOption(str(error)) from error


@contextmanager
def told() -> Iterator[None]:
    """Turn what the browser raises into the errors of environments.

    Raises:
        EnvironmentDied: the browser or the page is lost, and the episode with it.
        UnknownOption: the browser was given a value that it cannot use.
        EnvError: there is no browser, or the page cannot be opened.
    """
    from turnwise.tools.browser import BadBrowserOption, BrowserDied, BrowserError

    try:
        yield
    except BrowserDied as error:
        raise EnvironmentDied(f"{error}; this episode is lost, and reset() starts another one") from error
    except BadBrowserOption as error:
        raise UnknownOption(str(error)) from error
    except BrowserError as error:
        raise EnvError(str(error)) from error


class BrowserWindow:
    """A tab, the view of its page, and the actions done in it."""

    def __init__(self, *, screenshot: bool, budget: int, size: tuple[int, int]) -> None:
        """Make an empty window.

        Args:
            screenshot: observations are {"text", "image"}, else texts.
            budget: most characters of a page in an observation, about.
            size: width and height of the image.

        Raises:
            UnknownOption: a value cannot be used.
        """
        self.screenshot = flag("screenshot", screenshot)
        self.budget = integer("budget", budget, 100, of="characters")
        self.size = size
        self.taken: list[str] = []
        self.tab: Tab | None = None
        self.view: PageView
        self.note = ""
        self.lost = ""
        """Why the page is no more: a lost page is not opened again by itself, as its episode is over."""

    def space(self) -> gymnasium.Space[Any]:
        """Return the observation space."""
        width, height = self.size
        image = gymnasium.spaces.Box(0, 255, (height, width, 3), np.uint8)
        return gymnasium.spaces.Dict({"text": Text(), "image": image}) if self.screenshot else Text()

    @property
    def asleep(self) -> bool:
        """Whether the page is not open: before the first `open`, after `close`, a loss, or unpickling."""
        return self.tab is None

    def open(self, opened: Callable[[], Tab]) -> None:
        """Open a page in place of the one before.

        Raises:
            EnvError: it cannot be opened.
        """
        self.close()
        self.taken, self.note, self.lost = [], "", ""
        with told():
            self.tab = opened()
            self._look()

    def act(self, action: str) -> bool:
        """Do an action; return whether it was carried out. Why it was not stands in the next observation.

        Raises:
            EnvironmentDied: the browser or the page is lost.
        """
        self.taken.append(action)
        with self._living() as tab:
            outcome = tab.act(action)
            self.note = outcome.note
            self._look()
        return outcome.done

    def script(self, code: str, argument: Any = None) -> Any:
        """Return what a script returns in the page.

        Raises:
            EnvironmentDied: the browser or the page is lost.
        """
        with self._living() as tab:
            return tab.script(code, argument)

    def wake(self, opened: Callable[[], Tab]) -> None:
        """After unpickling, open the page again and do once more what was done in it; else do nothing.

        Raises:
            EnvironmentDied: the page was lost, or closed.
        """
        if self.lost:
            raise EnvironmentDied(self.lost)
        if self.tab is None:
            taken = self.taken
            self.open(opened)
            for action in taken:
                self.act(action)

    def observation(self, head: str, *, body: str | None = None) -> Any:
        """Return what is observed: some lines of the environment's own, notes, and the page.

        Args:
            head: the lines before it ("" for none).
            body: stands in place of the page.
        """
        notes = f"Note: {self.note}" if self.note else ""
        page = self.view.text(self.budget, address=False) if body is None else body
        text = "\n".join(part for part in (head, notes, page) if part)
        return {"text": text, "image": self.image()} if self.screenshot else text

    def image(self) -> NDArray[np.uint8]:
        """Return the upper left part of the page, as large as the window, uint8 [height, width, 3].

        Raises:
            EnvironmentDied: the browser or the page is lost.
        """
        width, height = self.size
        with self._living() as tab:
            return tab.screenshot()[:height, :width]

    def admissible(self) -> list[str]:
        """Return the actions that can be listed."""
        return self.view.actions()

    def free(self) -> list[str]:
        """Return the forms of the actions that cannot."""
        fields = [f"type[{e.ref}, ...]" for e in self.view.elements.values() if e.writable and not e.disabled]
        return [*fields, *FREE]

    def close(self) -> None:
        """Close the page; a second time does nothing."""
        tab, self.tab = self.tab, None
        if tab is not None:
            tab.close()
        self.lost = self.lost or "the page was closed; reset() opens another one"

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the tab."""
        return self.__dict__ | {"tab": None}

    def _look(self) -> None:
        assert self.tab is not None
        self.view = self.tab.look()

    @contextmanager
    def _living(self) -> Iterator[Tab]:
        if self.tab is None:
            raise EnvironmentDied(self.lost or "no page was opened; reset() opens one")
        try:
            with told():
                yield self.tab
        except EnvironmentDied as error:
            self.lost = str(error)
            self.close()
            raise


class BrowserEnv(TextEnv):
    """A text environment that is played in a window of a browser."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"]}  # noqa: RUF012 (Gymnasium's attribute)
    observation_space: gymnasium.Space[Any]
    EXAMPLE_ACTION = "click[e3]"
    _window: BrowserWindow

    def render(self) -> Any:
        """Return the last action and its answer ("ansi"), or the page as an image ("rgb_array"); else None."""
        if self.render_mode != "rgb_array" or self.task_id is None:
            return super().render()
        self._window.wake(self._enter)
        return self._window.image()

    def close(self) -> None:
        """Close the page."""
        self._window.close()

    @abstractmethod
    def _enter(self) -> Tab:
        """Open the page of the task."""
