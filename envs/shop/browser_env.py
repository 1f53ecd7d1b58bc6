"""WebShop in a real browser, with the goals, prices and rewards of the text environment.

The site of `turncredit.envs.shop.site` runs on loopback in this process. Every episode has its own session and tab. The
agent observes the browser's accessibility tree and acts by the browser's actions; page and reward come from the same
session class as in the text environment.

A search takes two actions (type, then press Enter or click), so an episode may have 30 turns instead of 15; the limit
is Gymnasium's (`max_episode_steps`). Observations contain no addresses: port and session name change between runs.
"""

from __future__ import annotations

import atexit
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from turncredit.envs.browser_agent import browser_agent
from turncredit.envs.browser_sight import BrowserSight, sight_of
from turncredit.envs.errors import EnvError, UnknownOption
from turncredit.envs.info import Info
from turncredit.envs.points import Points
from turncredit.envs.shop.env import WebShopEnv
from turncredit.envs.shop.goal_sources import GoalSource
from turncredit.envs.shop.session import Page, Shop, parse
from turncredit.envs.shop.sources import SOURCES, GeneratedProducts, ProductFiles
from turncredit.envs.shop.tagger import Tagger
from turncredit.envs.web import BUDGET, BrowserEnv, BrowserWindow, check_deadline

if TYPE_CHECKING:
    from turncredit.envs.shop.site.session_store import SessionStore
    from turncredit.tools.browser import PageView, Tab

__all__ = ["WebShopBrowserEnv", "from_keys", "in_browser"]

_VIEWPORT: Final = (1000, 700)
_SEARCH: Final = "Back to Search"
_AGENT: Final = browser_agent(
    "You buy in a web shop what an instruction asks for, with the options that it names; buying ends the episode.",
    "The elements of a page have names such as e3.",
    _VIEWPORT,
)
_TEXT_ONLY: Final = {
    "observation": "its observation is the page",
    "num_prev_obs": "its observation is the page",
    "num_prev_actions": "its observation is the page",
}


class WebShopBrowserEnv(BrowserEnv, WebShopEnv):
    """Buy in a web shop what an instruction asks for, in a real browser.

    Actions are the browser's (see `turncredit.tools.browser`); an invalid action changes nothing and is explained. The
    option "session" of reset() has no effect. reset() raises an EnvError if no browser or not all packages of the site
    are installed; step() raises EnvironmentDied if browser or page are lost.

    Args:
        source: see `WebShopEnv`; one catalogue only.
        paths: see `WebShopEnv`.
        links, reward, payoff, tagger, show_attributes: see `WebShopEnv`.
        screenshot: return observations {"text": str, "image": uint8 [700, 1000, 3]}; "only", "marks": see `MiniWoBEnv`.
        points, actions: see `MiniWoBEnv`.
        budget: approximate largest number of characters of the page in an observation.
        deadline: time limit of each call of the browser in seconds.
        render_mode: None, "ansi" or "rgb_array".
        keys: see `WebShopEnv`. Not available: "observation", "num_prev_obs" and "num_prev_actions".

    Raises:
        EnvError: a file is missing or broken, or an argument is invalid.
    """

    metadata = BrowserEnv.metadata | {"agent": _AGENT}

    def __init__(
        self,
        source: GeneratedProducts | ProductFiles | None = None,
        *paths: object,
        links: str = "ids",
        reward: str = "original",
        payoff: str = "score",
        tagger: str | Tagger = "auto",
        show_attributes: bool = False,
        screenshot: bool | str = False,
        points: Points | None = None,
        actions: str = "words",
        budget: int = BUDGET,
        deadline: float = 20.0,
        render_mode: str | None = None,
        **keys: object,
    ) -> None:
        for name, why in _TEXT_ONLY.items():
            if name in keys:
                raise UnknownOption(f"the shop in a browser has no option {name}: {why}")
        if (many := keys.get("catalogues", getattr(source, "catalogues", 1))) != 1:
            raise UnknownOption(f"catalogues must be 1 in a browser, since a site has one shop, got {many!r}")
        self._deadline = check_deadline(deadline)
        super().__init__(
            SOURCES.of_arguments(type(self), source, paths, keys),
            links=links,
            reward=reward,
            payoff=payoff,
            tagger=tagger,
            show_attributes=show_attributes,
            render_mode=render_mode,
        )
        self._window = BrowserWindow(sight_of(_VIEWPORT, screenshot, points, actions), budget)
        self._number = ""
        self.observation_space = self._window.space()

    def plan(self) -> list[str]:
        """Return the expert's actions from the current page to the best purchase; [] if the episode is won.

        The plan is executed in another tab and session to find out which elements it uses.

        Raises:
            NotReset: before the first reset.
            EnvError: something else has been bought, or no search finds a suitable product.
        """
        actions = super().plan()
        if not actions:
            return []
        self._window.wake(self._enter)
        sessions, name, page = self._site().sessions, _fresh(), self.session.page
        sessions.start(name, self.session.goal, self.session.prices)
        sight = self._window.sight
        window = BrowserWindow(BrowserSight(_VIEWPORT, scale=sight.scale))
        named = sight.scale is None and (sight.elements or sight.marks)
        try:
            window.open(lambda: self._opened(name, page))
            for action in actions:
                in_browser(action, lambda: window.view, window.act if named else window.act_by_points)
            return list(window.taken)
        finally:
            window.close()
            sessions.drop(name)

    @property
    def snapshot(self) -> Any:
        """Not available: the state of a page in a browser, such as typed text, cannot be saved."""
        raise AttributeError("snapshot")

    @property
    def restore(self) -> Any:
        """Not available (see `snapshot`)."""
        raise AttributeError("restore")

    def close(self) -> None:
        """Close the page and leave the site."""
        super().close()
        self._leave()

    def start_task(self, task: str, options: Mapping[str, object]) -> Any:
        super().start_task(task, options)
        self._window.open(self._enter)
        return self._window.observation(self._head())

    def take_action(self, action: str) -> tuple[Any, float, bool]:
        self._window.wake(self._enter)
        valid = self._window.act(action)
        return self._window.observation(self._head()), self._payoff(), valid

    def _head(self) -> str:
        """Return the instruction where the text does not have the page, which shows it at its top alone."""
        return "" if self._window.sight.elements else f"Instruction: {self.session.goal.instruction}"

    def _site(self) -> _RunningSite:
        return _site(self.shop, self._source)

    def _enter(self) -> Tab:
        """Start the episode's session on the site and open its page."""
        session = self.session
        self._leave()
        self._number = _fresh()
        self._session = self._site().sessions.start(self._number, session.goal, session.prices)
        return self._opened(self._number, self.session.page)

    def __getstate__(self) -> dict[str, object]:
        """Return the state without the session's name, which only this process knows."""
        return self.__dict__ | {"_number": ""}

    def _opened(self, name: str, page: Page) -> Tab:
        """Open a page of a session in a new tab."""
        from turncredit.envs.shop.site.addresses import href
        from turncredit.tools.browser import open_tab

        return open_tab(self._site().address + href(name, page), viewport=_VIEWPORT, deadline=self._deadline)

    def _leave(self) -> None:
        if self._number:
            self._site().sessions.drop(self._number)
            self._number = ""

    def get_info(self, valid: bool) -> Info:
        info = super().get_info(valid)
        over = self.session.done
        info["admissible_actions"] = [] if over else self._admissible(info["admissible_actions"])
        info["free_actions"] = [] if over else self._window.free()
        if self._window.touched:
            info["touch"] = self._window.touched
        return info

    def _admissible(self, texts: list[str]) -> list[str]:
        """Return the clicks, and at the search bar an example of a search and how to submit what was typed.

        Args:
            texts: what the text environment lists, including an example of a search.
        """
        actions = self._window.admissible()
        field = next((e for e in self._window.view.elements.values() if e.writable), None)
        if field is None or self._window.sight.admissible(self._window.view) != self._window.view.actions():
            return actions
        searches = [parsed[1] for text in texts if (parsed := parse(text)) and parsed[0] == "search"]
        submit = ["press[Enter]"] if field.focused and field.value else []
        return [*actions, *(f"type[{field.ref}, {words}]" for words in searches), *submit]

    def _state(self) -> str:
        """Return the state key of the text environment and the state of the page.

        The page's state is the text in fields, the focused element, the scroll position, and with screenshots the
        visited products. It does not include the history of pages, which determines where back[] leads.
        """
        view = self._window.view
        held = [(e.ref, e.value, e.focused) for e in view.elements.values() if e.value or e.focused]
        key = self.session.state_key()
        if self._window.sight.images and self.session.visited and not self.session.done:
            key += f" visited={sorted(self.session.visited)}"
        if self.session.done or not (held or view.position[0]):
            return key
        return f"{key} held={blake2b(repr((held, view.position[0])).encode(), digest_size=8).hexdigest()}"


from_keys = SOURCES.constructor(WebShopBrowserEnv)
"""The constructor in Gymnasium's registry."""


def in_browser(action: str, view: Callable[[], PageView], act: Callable[[str], bool]) -> None:
    """Perform an action of the text environment in a browser; elements are found by their names.

    Args:
        action: "search[words]" or "click[text]".
        view: returns the current page.
        act: performs an action in the browser and returns whether it succeeded.

    Raises:
        EnvError: the page has no such element, or the action failed.
    """
    kind, words = parse(action) or ("", "")
    if kind == "search":
        if not any(element.writable for element in view().elements.values()):
            _do(f"click[{_named(view(), _SEARCH.lower())}]", act)
        field = next(element.ref for element in view().elements.values() if element.writable)
        _do(f"type[{field}, {words}]", act)
        _do("press[Enter]", act)
    elif kind == "click":
        _do(f"click[{_named(view(), words)}]", act)
    else:
        raise EnvError(f"{action!r} is not an action of the text environment")


def _do(action: str, act: Callable[[str], bool]) -> None:
    if not act(action):
        raise EnvError(f"the page did not accept {action!r}")


def _named(view: PageView, text: str) -> str:
    """Return the reference of the last element of a name, since a value belongs to the last option that offers it."""
    target = "".join(text.lower().split())
    refs = [e.ref for e in view.elements.values() if "".join(e.name.lower().split()) == target and e.clickable]
    if not refs:
        raise EnvError(f"the page has no clickable element {text!r}")
    return refs[-1]


@dataclass(frozen=True, slots=True)
class _RunningSite:
    """A site that runs in this process."""

    shop: Shop
    address: str
    sessions: SessionStore


_sites: dict[tuple[int, int], _RunningSite] = {}
_lock = threading.Lock()
_names = itertools.count(1)


def _fresh() -> str:
    """Return a session name that is unique in this process."""
    return f"browser-{next(_names)}"


def _site(shop: Shop, goals: GoalSource) -> _RunningSite:
    """Return the site of a shop, which is started at its first use.

    Raises:
        EnvError: packages of the site are not installed, or it does not start.
    """
    with _lock:
        key = (os.getpid(), id(shop))
        if key not in _sites:
            from turncredit.envs.shop.site.app import create_app
            from turncredit.processes.serving import serve_in_thread

            stack = ExitStack()
            try:
                app = create_app(shop, goals)
                address = stack.enter_context(serve_in_thread(app))
            except ImportError as error:
                raise EnvError(str(error)) from error
            atexit.register(stack.close)
            _sites[key] = _RunningSite(shop, address, app.state.sessions)
        return _sites[key]
