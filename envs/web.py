"""What browser environments share: a window with one tab, the actions taken in it, observations, and rendering.

A `BrowserWindow` is pickled as its list of actions. After unpickling, the environment opens its page again and repeats
them, which leads to the same page because episodes are deterministic. Tasks, rewards and ends are up to the
environment; the browser itself is in `turncredit.tools.browser`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import numpy as np

from turncredit.envs.browser_sight import BrowserSight
from turncredit.envs.errors import EnvError, EnvironmentDied, UnknownOption
from turncredit.envs.spaces import Text
from turncredit.envs.text import TextEnv
from turncredit.envs.validation import integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from turncredit.tools.browser import PageView, Tab

__all__ = ["BUDGET", "BrowserEnv", "BrowserWindow", "check_deadline", "translate_errors"]

_SCROLLS: Final = 40  # until an element can be seen
BUDGET: Final = 8000
"""Approximate maximum length of a page in an observation, in characters."""


def check_deadline(deadline: object) -> float:
    """Return the time limit of each browser call in seconds.

    Raises:
        UnknownOption: it is not a number > 0, or longer than a day.
    """
    from turncredit.tools.browser import BadBrowserOption, check_seconds

    try:
        return check_seconds("deadline", deadline)
    except BadBrowserOption as error:
        raise UnknownOption(str(error)) from error


@contextmanager
def translate_errors() -> Iterator[None]:
    """Convert errors of the browser to errors of environments.

    Raises:
        EnvironmentDied: the browser or the page crashed, so the episode is lost.
        UnknownOption: the browser rejected an argument.
        EnvError: no browser is installed, or the page cannot be opened.
    """
    from turncredit.tools.browser import BadBrowserOption, BrowserDied, BrowserError

    try:
        yield
    except BrowserDied as error:
        raise EnvironmentDied(f"{error}; this episode is lost, call reset() to start another one") from error
    except BadBrowserOption as error:
        raise UnknownOption(str(error)) from error
    except BrowserError as error:
        raise EnvError(str(error)) from error


class BrowserWindow:
    """A tab, the view of its page, and the actions taken in it."""

    def __init__(self, sight: BrowserSight, budget: int = BUDGET) -> None:
        """Create an empty window.

        Args:
            sight: what the agent sees.
            budget: approximate maximum length of a page in an observation, in characters.

        Raises:
            UnknownOption: an argument is invalid.
        """
        self.sight = sight
        self.budget = integer("budget", budget, 100, of="characters")
        self.touched: list[tuple[float, float]] = []
        """Where the last action touched the image, as shares of its width and height."""
        self.taken: list[str] = []
        self.tab: Tab | None = None
        self.view: PageView
        self.note = ""
        self.lost = ""
        """Why the page is gone. A lost page is not reopened automatically, because its episode is over."""

    def space(self) -> gymnasium.Space[Any]:
        """Return the observation space."""
        width, height = self.sight.size
        image = gymnasium.spaces.Box(0, 255, (height, width, 3), np.uint8)
        return gymnasium.spaces.Dict({"text": Text(), "image": image}) if self.sight.images else Text()

    @property
    def asleep(self) -> bool:
        """Whether no page is open: before `open`, after `close` or a crash, or after unpickling."""
        return self.tab is None

    def open(self, opened: Callable[[], Tab]) -> None:
        """Open a page and close the previous one.

        Raises:
            EnvError: the page cannot be opened.
        """
        self.close()
        self.taken, self.note, self.lost, self.touched = [], "", "", []
        with translate_errors():
            self.tab = opened()
            self._look()

    def act(self, action: str) -> bool:
        """Take an action; return whether it was possible. If not, the next observation says why.

        Raises:
            EnvironmentDied: the browser or the page crashed.
        """
        from turncredit.tools.browser import ActionResult, InvalidAction, parse

        self.taken.append(action)
        parsed = parse(action)
        read = parsed.reason if isinstance(parsed, InvalidAction) else self.sight.read(parsed)
        with self._living() as tab:
            self.touched = [] if isinstance(read, str) else self.sight.touched(read, self.view)
            outcome = ActionResult(False, read) if isinstance(read, str) else tab.act(read)
            self.note = outcome.note
            self._look()
        return outcome.done

    def act_by_points(self, action: str) -> bool:
        """Take an action that names an element with the mouse and the keys alone; return whether it was possible.

        The page is scrolled until the element can be seen. What was done is in `taken`.

        Raises:
            EnvironmentDied: the browser or the page crashed.
        """
        from turncredit.tools.browser import InvalidAction, parse

        parsed = parse(action)
        if isinstance(parsed, InvalidAction) or not parsed.ref:
            return self.act(action)
        for _ in range(_SCROLLS):
            element = self.view.elements.get(parsed.ref)
            if element is None or element.center is None or self.sight.visible(element):
                break
            if not self.act("scroll[up]" if element.center[1] < 0 else "scroll[down]"):
                return False
        if element is None or element.center is None or parsed.kind not in ("click", "type"):
            return False
        return all(map(self.act, self.sight.by_points(parsed, element.center)))

    def script(self, code: str, argument: object = None) -> Any:
        """Return the result of a script in the page.

        Raises:
            EnvironmentDied: the browser or the page crashed.
        """
        with self._living() as tab:
            return tab.script(code, argument)

    def wake(self, opened: Callable[[], Tab]) -> None:
        """After unpickling, open the page and repeat the actions; otherwise do nothing.

        Raises:
            EnvironmentDied: the page crashed or was closed.
        """
        if self.lost:
            raise EnvironmentDied(self.lost)
        if self.tab is None:
            taken = self.taken
            self.open(opened)
            for action in taken:
                self.act(action)

    def observation(self, head: str, *, body: str | None = None) -> Any:
        """Return the observation: lines of the environment, notes, and the page.

        Args:
            head: lines before the page; "" for none.
            body: text that replaces the page.
        """
        notes = f"Note: {self.note}" if self.note else ""
        page = self._page() if body is None else body
        text = "\n".join(part for part in (head, notes, page) if part)
        if not self.sight.images:
            return text
        return {"text": text, "image": self.sight.marked(self.image(), self.view)}

    def _page(self) -> str:
        """Return what the text says of the page."""
        if self.sight.elements:
            return self.view.text(self.budget, address=False)
        return "\n".join(f"Note: {note}" for note in self.view.notes)

    def image(self) -> NDArray[np.uint8]:
        """Return the visible part of the page, uint8 [height, width, 3].

        Raises:
            EnvironmentDied: the browser or the page crashed.
        """
        width, height = self.sight.size
        with self._living() as tab:
            return tab.screenshot()[:height, :width]

    def admissible(self) -> list[str]:
        """Return the actions that can be listed."""
        return self.sight.admissible(self.view)

    def free(self) -> list[str]:
        """Return the forms of the actions that cannot be listed."""
        return self.sight.free(self.view)

    def detach(self) -> Tab | None:
        """Return the tab without closing it; the window is as it is after `close`. None if no page is open."""
        tab, self.tab = self.tab, None
        self.close()
        return tab

    def close(self) -> None:
        """Close the page, if it is open."""
        tab, self.tab = self.tab, None
        if tab is not None:
            tab.close()
        self.lost = self.lost or "the page was closed; call reset() to open another one"

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the tab."""
        return self.__dict__ | {"tab": None}

    def _look(self) -> None:
        assert self.tab is not None
        self.view = self.tab.look()

    @contextmanager
    def _living(self) -> Iterator[Tab]:
        if self.tab is None:
            raise EnvironmentDied(self.lost or "no page is open; call reset() first")
        try:
            with translate_errors():
                yield self.tab
        except EnvironmentDied as error:
            self.lost = str(error)
            self.close()
            raise


class BrowserEnv(TextEnv):
    """A text environment that is played in a browser window."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"]}  # noqa: RUF012 (Gymnasium's attribute)
    observation_space: gymnasium.Space[Any]
    EXAMPLE_ACTION = "click[e3]"
    _window: BrowserWindow

    def render(self) -> Any:
        """Return the last action and observation ("ansi"), or an image of the page ("rgb_array"); otherwise None."""
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
