"""Pages of MiniWoB++ that this process has open: loaded anew for each episode, or kept and started again.

The original starts an open page again. That takes a fraction of the time, since no scripts are loaded and compiled, but
what a page keeps beside its problem, such as the date, goes on. Before a page is started again, the mouse and the focus
leave it, so that they do not show in the next episode.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from turncredit.envs.errors import EnvError
from turncredit.envs.miniwob.catalogue import html_folder

if TYPE_CHECKING:
    from turncredit.tools.browser import Tab

__all__ = ["keep_page", "load_page", "start_page", "take_page"]

_VIEWPORT: Final = (500, 320)
_TICK: Final = 0.5
_READY: Final = 20
_KEPT: Final = 4
"""Pages of a task that are kept while no episode uses them."""
_CORNER: Final = "move[490, 310]"

_START: Final = """
([seed, mode]) => {
  if (!document.getElementById('turncredit-style')) {
    const style = document.createElement('style');
    style.id = 'turncredit-style';
    style.textContent = '#reward-display, #click-canvas { display: none !important }';
    document.head.appendChild(style);
  }
  core.EPISODE_MAX_TIME = 2147483647;
  core.setDataMode(mode);
  Math.seedrandom(seed);
  core.startEpisodeReal();
}
"""
_GOAL: Final = """
() => {
  const utterance = core.getUtterance();
  return [WOB_TASK_READY, typeof utterance === 'string' ? utterance : utterance.utterance];
}
"""
_BLUR: Final = "() => document.activeElement && document.activeElement.blur()"

_lock: Final = threading.Lock()
_kept: Final[dict[tuple[int, str, float], list[Tab]]] = {}
"""By the process, since a fork cannot use the browser of its parent, the task, and the deadline."""


def load_page(name: str, deadline: float) -> Tab:
    """Return a new tab with the page of a task, which has not been started.

    Raises:
        BrowserError: there is no browser, or the page does not load.
    """
    from turncredit.tools.browser import open_tab, static_site

    address = f"{static_site(str(html_folder())).origin}/miniwob/{name}.html"
    return open_tab(address, viewport=_VIEWPORT, time_step=_TICK, deadline=deadline, all_elements=True, hidden="#query")


def keep_page(tab: Tab, name: str, deadline: float) -> None:
    """Keep the page of an episode that nobody plays any more; enough of its task are kept already: close it."""
    with _lock:
        pages = _kept.setdefault((os.getpid(), name, deadline), [])
        if len(pages) < _KEPT:
            pages.append(tab)
            return
    tab.close()


def take_page(name: str, deadline: float) -> Tab | None:
    """Return a tab that was kept, without mouse and focus on its page; None if there is none that lives."""
    from turncredit.tools.browser import BrowserError

    while True:
        with _lock:
            pages = _kept.get((os.getpid(), name, deadline))
            if not pages:
                return None
            tab = pages.pop()
        try:
            tab.script(_BLUR)
            tab.act(_CORNER)
        except BrowserError:
            tab.close()
            continue
        return tab


def start_page(tab: Tab, name: str, seed: str, mode: str) -> str:
    """Start an episode on a page, and return its sentence.

    Args:
        tab: with the page.
        name: of the task.
        seed: of the page's generator.
        mode: "train" or "test", for pages with separate data.

    Raises:
        EnvError: the page does not become ready.
        BrowserError: the tab is lost.
    """
    tab.script(_START, [seed, mode])
    for _ in range(_READY):
        ready, goal = tab.script(_GOAL)
        if ready:
            return " ".join(str(goal).split())
        tab.pass_time()
    raise EnvError(f"the page of task {name!r} did not start")
