"""WebShop through its site and a real browser: the same goals, prices and rewards, seen and done as in a browser.

The site of `turnwise.envs.shop.site` runs on loopback in this process, and every episode has a session of its own there
and a tab of its own. The page is observed as the browser's accessibility tree, acted on by the browser's grammar; where
the customer is, and what a purchase is worth, says the very session that the text environment plays. So one goal has
one reward, however it is bought.

A search takes two actions or three (type, then press Enter or click), so an episode may have 30 turns instead of 15;
that limit is Gymnasium's (`max_episode_steps`).

Left out on purpose: addresses in observations, since they hold a port and a name that change from run to run.
"""

from __future__ import annotations

import atexit
import inspect
import itertools
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from turnwise.envs.errors import EnvError, UnknownOption
from turnwise.envs.shop.env import WebShopEnv
from turnwise.envs.shop.goal_sources import GoalSource
from turnwise.envs.shop.session import Page, Shop, parse
from turnwise.envs.web import BUDGET, BrowserEnv, BrowserWindow, seconds

if TYPE_CHECKING:
    from turnwise.envs.shop.site.session_store import SessionStore
    from turnwise.tools.browser import PageView, Tab

__all__ = ["WebShopBrowserEnv", "in_browser"]

_VIEWPORT: Final = (1000, 700)
_SEARCH: Final = "Back to Search"
_TEXT_ONLY: Final = {
    "observation": "its observation is the page",
    "num_prev_obs": "its observation is the page",
    "num_prev_actions": "its observation is the page",
}


class WebShopBrowserEnv(BrowserEnv, WebShopEnv):
    """Buy in a web shop what a sentence asks for, in a real browser.

    An action is one of the browser's grammar; what is not possible changes nothing and is explained. The option
    "session" of reset() names nothing here, where each episode has a session of its own. Where there is no browser, or
    the packages of the site are not installed, reset() raises an EnvError; where browser or page are lost, step()
    raises EnvironmentDied.

    Args:
        args: see `WebShopEnv`, as are all other keywords but "observation" and the "num_prev_..." ones, which are
            refused; "catalogues" is 1, as a site has one shop.
        screenshot: observations are {"text": str, "image": uint8 [700, 1000, 3]}.
        budget: most characters of the page in an observation, about.
        deadline: seconds for each call of the browser, above 0.
        render_mode: None, "ansi" or "rgb_array".
        kwargs: see `WebShopEnv`.

    Raises:
        EnvError: a file is missing or broken, or a value is not one of the choices.
    """

    def __init__(
        self,
        *args: Any,
        screenshot: bool = False,
        budget: int = BUDGET,
        deadline: float = 20.0,
        render_mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        for name, why in _TEXT_ONLY.items():
            if name in kwargs:
                raise UnknownOption(f"{name} is no option of the shop in a browser: {why}")
        if (many := kwargs.get("catalogues", 1)) != 1:
            raise UnknownOption(f"catalogues is {many!r}; the shop in a browser has one, as a site is of one shop")
        self._deadline = seconds(deadline)
        super().__init__(*args, render_mode=render_mode, **kwargs)
        self._window = BrowserWindow(screenshot=screenshot, budget=budget, size=_VIEWPORT)
        self._number = ""
        self.observation_space = self._window.space()

    def plan(self) -> list[str]:
        """Return actions from the present state to the purchase of what the goal was made of; [] when it is won.

        The expert's plan is carried out in another tab and session, to see which elements it has to do with.

        Raises:
            NotReset: before the first reset.
            EnvError: something else was bought, or there is no way.
        """
        wanted = super().plan()
        if not wanted:
            return []
        self._window.wake(self._enter)
        sessions, name, page = self._site().sessions, _fresh(), self.session.page
        sessions.start(name, self.session.goal, self.session.prices)
        window = BrowserWindow(screenshot=False, budget=BUDGET, size=_VIEWPORT)
        try:
            window.open(lambda: self._opened(name, page))
            for action in wanted:
                in_browser(action, lambda: window.view, window.act)
            return list(window.taken)
        finally:
            window.close()
            sessions.drop(name)

    @property
    def snapshot(self) -> Any:
        """Not offered: what a browser's page holds, words half written say, cannot be saved."""
        raise AttributeError("snapshot")

    @property
    def restore(self) -> Any:
        """Not offered (see `snapshot`)."""
        raise AttributeError("restore")

    def close(self) -> None:
        """Close the page and leave the site."""
        super().close()
        self._leave()

    def start_task(self, task: str, options: Mapping[str, Any]) -> Any:
        super().start_task(task, options)
        self._window.open(self._enter)
        return self._window.observation("")

    def take_action(self, action: str) -> tuple[Any, float, bool]:
        self._window.wake(self._enter)
        valid = self._window.act(action)
        return self._window.observation(""), self._payoff(), valid

    def _site(self) -> _Site:
        return _site(self.shop, self._source)

    def _enter(self) -> Tab:
        """Begin the episode's session at the site, in place of one that the site does not know."""
        session = self.session
        self._leave()
        self._number = _fresh()
        self._session = self._site().sessions.start(self._number, session.goal, session.prices)
        return self._opened(self._number, self.session.page)

    def __getstate__(self) -> dict[str, Any]:
        """Return all but the name of a session that only this process has."""
        return self.__dict__ | {"_number": ""}

    def _opened(self, name: str, page: Page) -> Tab:
        """Open a page of a session of that name."""
        from turnwise.envs.shop.site.addresses import href
        from turnwise.tools.browser import open_tab

        return open_tab(self._site().address + href(name, page), viewport=_VIEWPORT, deadline=self._deadline)

    def _leave(self) -> None:
        if self._number:
            self._site().sessions.drop(self._number)
            self._number = ""

    def get_info(self, valid: bool) -> dict[str, Any]:
        info = super().get_info(valid)
        over = self.session.done
        info["admissible_actions"] = [] if over else self._admissible(info["admissible_actions"])
        info["free_actions"] = [] if over else self._window.free()
        return info

    def _admissible(self, texts: list[str]) -> list[str]:
        """Return the clicks, and at the search bar an example of a search and how to submit what was typed.

        Args:
            texts: what the text environment lists, including an example of a search.
        """
        actions = self._window.admissible()
        field = next((e for e in self._window.view.elements.values() if e.writable), None)
        if field is None:
            return actions
        searches = [found[1] for text in texts if (found := parse(text)) and found[0] == "search"]
        submit = ["press[Enter]"] if field.focused and field.value else []
        return [*actions, *(f"type[{field.ref}, {words}]" for words in searches), *submit]

    def _state(self) -> str:
        """Return the state key: that of the text environment, and what the page holds beyond it.

        That is the text in a field, which element has the focus, and how far the page is scrolled; and, as images show
        them, which products were visited. Which pages came before, which decides where back[] leads, is not in it.
        """
        view = self._window.view
        held = [(e.ref, e.value, e.focused) for e in view.elements.values() if e.value or e.focused]
        key = self.session.state_key()
        if self._window.screenshot and self.session.visited and not self.session.done:
            key += f" visited={sorted(self.session.visited)}"
        if self.session.done or not (held or view.position[0]):
            return key
        return f"{key} held={blake2b(repr((held, view.position[0])).encode(), digest_size=8).hexdigest()}"


def _signature() -> inspect.Signature:
    """Return the keywords of the constructor one by one, so that whoever asks for them gets their names."""
    own = inspect.signature(WebShopBrowserEnv.__init__).parameters
    text = inspect.signature(WebShopEnv).parameters
    names = {name: one for name, one in text.items() if name not in _TEXT_ONLY}
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names |= {name: one for name, one in own.items() if name != "self" and one.kind not in kinds}
    return inspect.Signature(list(names.values()))


WebShopBrowserEnv.__signature__ = _signature()  # type: ignore[attr-defined]


def in_browser(action: str, view: Callable[[], PageView], act: Callable[[str], bool]) -> None:
    """Do an action of the text environment in a browser: elements are found by their names.

    Args:
        action: "search[words]" or "click[text]".
        view: gives the page as it is now.
        act: does an action in the browser and returns whether it was carried out.

    Raises:
        EnvError: the page has no such element, or did not take the action.
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
        raise EnvError(f"{action!r} is no action of the text environment")


def _do(action: str, act: Callable[[str], bool]) -> None:
    if not act(action):
        raise EnvError(f"the page did not take {action!r}")


def _named(view: PageView, text: str) -> str:
    """Return the reference of the last element of a name, as a value belongs to the last option that offers it."""
    wanted = "".join(text.lower().split())
    found = [e.ref for e in view.elements.values() if "".join(e.name.lower().split()) == wanted and e.clickable]
    if not found:
        raise EnvError(f"the page has nothing named {text!r} to click on")
    return found[-1]


@dataclass(frozen=True, slots=True)
class _Site:
    """A site that runs in this process."""

    shop: Shop
    address: str
    sessions: SessionStore


_sites: dict[tuple[int, int], _Site] = {}
_lock = threading.Lock()
_names = itertools.count(1)


def _fresh() -> str:
    """Return the name of a session that no other episode in this process has."""
    return f"browser-{next(_names)}"


def _site(shop: Shop, goals: GoalSource) -> _Site:
    """Return the site of a shop, started when it is first needed.

    Raises:
        EnvError: the packages that serve it are not installed, or it does not start.
    """
    with _lock:
        key = (os.getpid(), id(shop))
        if key not in _sites:
            from turnwise.envs.shop.site.app import create_app
            from turnwise.tools.serving import running

            stack = ExitStack()
            try:
                app = create_app(shop, goals)
                address = stack.enter_context(running(app))
            except ImportError as error:
                raise EnvError(str(error)) from error
            atexit.register(stack.close)
            _sites[key] = _Site(shop, address, app.state.sessions)
        return _sites[key]
