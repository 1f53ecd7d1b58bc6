"""Tabs in a real Chromium: actions, hostile pages, crashes and hangs."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from toys.chromium import Site, need_chromium, processes
from toys.waiting import eventually

from turncredit.installation import installation_command
from turncredit.processes.forks import ForkedProcess, ForkPipe
from turncredit.tools.browser import (
    ActionResult,
    BadBrowserOption,
    Browser,
    BrowserDied,
    BrowserError,
    NoBrowser,
    NoPage,
    Tab,
    TabClosed,
    TabDied,
    find_browser,
    open_tab,
)

pytestmark = pytest.mark.waits


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site()
    yield site
    site.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    need_chromium()
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def opened(browser: Browser, site: Site) -> Iterator[Callable[..., Tab]]:
    tabs: list[Tab] = []

    def opened(path: str = "/", **options: float) -> Tab:
        tabs.append(open_tab(site.origin + path, browser=browser, **options))  # type: ignore[arg-type]
        return tabs[-1]

    yield opened
    for tab in tabs:
        tab.close()
    assert browser.open_contexts == 0


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the browser more time to say that it lives than a busy machine needs: its pages are what is late here."""
    monkeypatch.setattr("turncredit.tools.browser.process._PROBE", 60.0)
    monkeypatch.setattr("turncredit.tools.browser.tab._CONTEXT", 60.0)


def hurry(tab: Tab, seconds: float) -> None:
    """Give further calls less time than the opening had: a page opens as fast as the machine does it."""
    tab._options = dataclasses.replace(tab._options, deadline=seconds)


def named(tab: Tab, name: str) -> str:
    return next(element.ref for element in tab.look().elements.values() if element.name == name)


def click(tab: Tab, name: str) -> ActionResult:
    return tab.act(f"click[{named(tab, name)}]")


def test_actions_change_the_page(opened: Callable[..., Tab], site: Site) -> None:
    tab = opened()
    first = tab.look()
    assert (first.title, first.url, first.can_go_back) == ("Start", f"{site.origin}/", False)
    query, land, tick, box = (named(tab, name) for name in ("query", "land", "tick", "box"))
    for action in (f"type[{query}, red é]", f"select[{land}, peru]", f"click[{tick}]", f"scroll[{box}, down]"):
        assert tab.act(action) == ActionResult(True)
    tree = tab.look().tree()
    assert f'[{query}] textbox "query" = "red é"' in tree
    assert f'[{land}] combobox "land" = "Peru" of "Chad", "Peru"' in tree
    assert f'[{tick}] checkbox "tick" (checked' in tree
    assert f"[{box}] listbox" in tree
    assert "scrolled 48 of 240" in tree
    assert '"[e99] button \\"not one\\""' in tree
    assert tab.act("scroll[down]").done
    assert tab.look().position[0] == 560
    assert tab.act(f"click[{query}]").done
    assert tab.act("press[Enter]") == ActionResult(True)
    assert (tab.look().url, tab.look().can_go_back) == (f"{site.origin}/next?q=red+%C3%A9", True)
    assert tab.act("back[]") == ActionResult(True)
    assert tab.look().title == "Start"


def test_going_back_succeeds_if_the_page_is_gone_before_it_replies(
    opened: Callable[..., Tab], monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = opened()
    assert tab.act(f"click[{named(tab, 'slow link')}]").done
    assert tab.look().can_go_back
    page, asked = tab._page, tab._page.evaluate

    async def evaluate(code: str, *given: Any) -> Any:
        found = await asked(code, *given)
        if "history.back" in code:
            raise RuntimeError("Execution context was destroyed, most likely because of a navigation.")
        return found

    monkeypatch.setattr(page, "evaluate", evaluate)
    assert tab.act("back[]") == ActionResult(True)
    assert tab.look().title == "Start"


def test_a_page_has_the_same_view_after_going_back(opened: Callable[..., Tab]) -> None:
    tab = opened()
    first = tab.look()
    assert first.elements[named(tab, "under")].covered == 'covered by "over it"'
    for _ in range(2):
        assert click(tab, "slow link").done
        assert tab.look().can_go_back
        assert tab.act("back[]").done
        again = tab.look()
        assert again.tree() == first.tree()
        assert [one.covered for one in again.elements.values()] == [one.covered for one in first.elements.values()]
        assert [one.scrolls for one in again.elements.values()] == [one.scrolls for one in first.elements.values()]


def test_refused_actions_are_explained_and_change_nothing(opened: Callable[..., Tab]) -> None:
    tab = opened()
    key = tab.look().key()
    refs = {name: named(tab, name) for name in ("under", "off", "land", "slow link", "query")}
    for action, words in {
        "click[e999]": "unknown element e999; choose one of: e1 to",
        f"click[{refs['under']}]": 'covered by "over it"',
        f"click[{refs['off']}]": "disabled",
        f"type[{refs['slow link']}, x]": "does not accept text",
        f"select[{refs['land']}, Peri]": "did you mean 'Peru'",
        f"select[{refs['query']}, Peru]": "is not a list",
        f"click[{refs['land']}]": f"select[{refs['land']}, Chad]",
        "scroll[up]": "cannot be scrolled up",
        "back[]": "no page to go back to",
        "jump[]": "unknown action 'jump'",
    }.items():
        outcome = tab.act(action)
        assert not outcome.done
        assert words in outcome.note
    assert tab.look().key() == key


def test_listed_clicks_succeed_and_covered_elements_are_not_listed(opened: Callable[..., Tab]) -> None:
    tab = opened()
    for name in ("tick", "far below", "query", "box"):
        ref = named(tab, name)
        assert f"click[{ref}]" in tab.look().actions()
        assert tab.act(f"click[{ref}]").done
    assert f"click[{named(tab, 'under')}]" not in tab.look().actions()


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("slow link", "/slow"),
        ("by script", "/slow"),
        ("later", "/next"),
        ("new tab", "/next"),
        ("opened", "/next"),
        ("fetch", "fetched"),
    ],
)
def test_act_returns_when_the_page_has_settled(
    opened: Callable[..., Tab], name: str, title: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("turncredit.tools.browser.tab._FETCHING", 15.0)  # however long the answer takes here
    tab = opened()
    assert click(tab, name) == ActionResult(True)
    assert tab.look().title == title


def test_dialogs_and_downloads_are_reported(opened: Callable[..., Tab]) -> None:
    tab = opened()
    assert click(tab, "ask").done
    view = tab.look()
    assert (view.title, view.notes) == ("yes", ("a dialog (confirm) said 'Sure?' and was answered with OK",))
    assert tab.look().notes == ()
    assert click(tab, "download").done
    assert tab.look().notes == ("a download of 'secret.bin' was refused",)


def test_only_allowed_origins_can_be_reached(opened: Callable[..., Tab], site: Site, browser: Browser) -> None:
    tab = opened()
    site.asked.clear()
    assert click(tab, "away").done  # a redirect to another origin
    view = tab.look()
    assert (view.title, len(view.notes)) == ("Start", 1)
    assert "could not be opened" in view.notes[0]
    reach = "address => fetch(address, { mode: 'no-cors' }).then(() => 'reached', () => 'refused')"
    for address in (f"http://localhost:{site.port}/x", "http://127.0.0.1:1/", "http://10.0.0.1/", "https://a.example/"):
        assert tab.script(reach, address) == "refused"
    assert tab.script(reach, f"{site.origin}/next") == "reached"
    assert tab.script("() => new Promise(r => { const s = new WebSocket('ws://10.0.0.1/'); s.onerror = () => r(1) })")
    assert not [path for path, _ in site.asked if path == "/x"]
    other = open_tab(site.origin, browser=browser, allow=[f"http://localhost:{site.port}"])
    assert other.script(reach, f"http://localhost:{site.port}/x") == "reached"
    other.close()


@pytest.mark.parametrize("address", ["", "about:blank", "file:///etc/passwd", "http://", "http://a,b/", "http://x:y/"])
def test_invalid_addresses_are_refused(address: str, browser: Browser) -> None:
    with pytest.raises(NoPage, match="address must be like"):
        open_tab(address, browser=browser)


def test_remote_addresses_need_permission_and_dead_ones_are_named(browser: Browser) -> None:
    with pytest.raises(NoPage, match="add its origin to `allow`"):
        open_tab("http://example.org/", browser=browser)
    with pytest.raises(NoPage, match=r"http://127\.0\.0\.1:1/"):
        open_tab("http://127.0.0.1:1/", browser=browser)
    assert browser.open_contexts == 0


def test_tabs_do_not_share_cookies(opened: Callable[..., Tab], site: Site) -> None:
    site.asked.clear()
    first = opened()
    click(first, "slow link")
    opened()
    assert [asked for asked in site.asked if asked[0] != "/favicon.ico"] == [("/", ""), ("/slow", "seen=1"), ("/", "")]


def test_a_page_that_does_not_load_is_stopped_and_reported(opened: Callable[..., Tab]) -> None:
    tab = opened()
    assert click(tab, "never").done
    view = tab.look()
    assert (view.title, view.notes) == ("Start", ("a page did not load within 10 s and was stopped",))


@pytest.mark.usefixtures("patient")
def test_endless_redirects_are_stopped(opened: Callable[..., Tab]) -> None:
    tab = opened()
    ref = named(tab, "loop")
    hurry(tab, 8.0)
    try:
        assert tab.act(f"click[{ref}]").done
        notes = " ".join(tab.look().notes)
    except TabDied as error:  # which of the two comes first depends on how fast the machine is
        notes = str(error)
    assert "was stopped" in notes or "its tab was closed" in notes
    assert opened().look().title == "Start"


@pytest.mark.usefixtures("patient")
def test_a_page_that_hangs_is_closed_and_others_survive(opened: Callable[..., Tab], browser: Browser) -> None:
    other, tab = opened(), opened()
    starts = browser.starts
    with pytest.raises(TabDied, match="does not respond"):
        click(tab, "hang")
    with pytest.raises(TabDied, match="does not respond"):
        tab.look()
    assert other.look().title == "Start"
    assert opened().look().title == "Start"
    assert browser.starts == starts


def test_a_killed_browser_is_reported_by_each_tab_and_replaced(site: Site) -> None:
    need_chromium()
    others = drivers()
    browser = Browser()
    tabs = [open_tab(site.origin, browser=browser) for _ in range(2)]
    own = drivers() - others
    assert len(own) == 1
    dead = browser.pid
    assert dead is not None
    group = os.getpgid(dead)
    os.kill(dead, signal.SIGKILL)
    for tab in tabs:
        with pytest.raises(BrowserDied, match=f"process {dead}"):
            tab.look()
        with pytest.raises(BrowserDied, match=f"process {dead}"):
            tab.act("wait[]")
    fresh = open_tab(site.origin, browser=browser)
    assert eventually(lambda: not own & drivers())
    assert fresh.look().title == "Start"
    assert (browser.pid != dead, browser.starts) == (True, 2)
    for tab in tabs:
        tab.close()
    _gone(group)
    browser.close()


def test_a_fork_that_closes_its_parents_tabs_leaves_the_browser_alive(site: Site) -> None:
    """As worker processes do, which reset environments that their parent has played."""
    need_chromium()
    browser = Browser()
    tab, other = (open_tab(site.origin + "/", browser=browser) for _ in range(2))
    pid, seen = browser.pid, tab.look().lines

    def work(_: ForkPipe) -> tuple[str, bool]:
        with pytest.raises(BrowserDied, match="that of the process that was forked"):
            other.look()
        tab.close()
        mine = open_tab(site.origin + "/", browser=browser)
        answer = mine.look().lines, browser.pid != pid
        browser.close()
        return answer

    with ForkedProcess(work) as fork:
        text, another = fork.result()
    assert (text, another) == (seen, True)
    assert browser.pid == pid
    assert tab.look().lines == other.look().lines == seen
    browser.close()


def test_a_suspended_browser_is_killed_after_the_deadline(site: Site) -> None:
    need_chromium()
    browser = Browser()
    tab = open_tab(site.origin, browser=browser)
    hurry(tab, 2.0)
    pid = browser.pid
    assert pid is not None
    group = os.getpgid(pid)
    for process in processes(group):
        os.kill(process, signal.SIGSTOP)
    with pytest.raises(BrowserDied, match="was killed"):
        tab.look()
    _gone(group)
    assert open_tab(site.origin, browser=browser).look().title == "Start"
    browser.close()


def test_close_leaves_no_process(site: Site) -> None:
    need_chromium()
    others = drivers()
    browser = Browser()
    tab = open_tab(site.origin, browser=browser)
    own = drivers() - others
    assert len(own) == 1
    assert browser.pid is not None
    group = os.getpgid(browser.pid)
    tab.close()
    tab.close()
    with pytest.raises(TabClosed):
        tab.look()
    browser.close()
    browser.close()
    _gone(group)
    assert eventually(lambda: not own & drivers())


def test_a_killed_process_leaves_no_browser(site: Site) -> None:
    need_chromium()
    code = (
        "import os, time\nfrom turncredit.tools.browser import open_tab, shared_browser\n"
        f"tab = open_tab({site.origin!r})\nprint(os.getpgid(shared_browser().pid), flush=True)\ntime.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        group = int(child.stdout.readline())
        assert processes(group)
        child.kill()
    _gone(group)


def drivers() -> set[int]:
    """Return the processes of Playwright that this process has started."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(os.getpid())], capture_output=True, text=True
    )
    return {int(line.split()[0]) for line in found.stdout.splitlines() if "run-driver" in line}


def _gone(group: int) -> None:
    """Wait until a process group has ended."""
    assert eventually(lambda: not processes(group)), processes(group)


def test_tabs_work_from_threads_and_inside_an_event_loop(opened: Callable[..., Tab]) -> None:
    tabs = [opened() for _ in range(3)]
    titles: list[str] = []
    threads = [threading.Thread(target=lambda tab=tab: titles.append(tab.look().title)) for tab in tabs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def inside() -> str:
        return tabs[0].look().title

    assert [*titles, asyncio.run(inside())] == ["Start"] * 4


def test_a_garbage_collected_tab_closes_its_context(browser: Browser, site: Site) -> None:
    tab = open_tab(site.origin, browser=browser)
    assert browser.open_contexts == 1
    del tab

    def closed() -> bool:
        gc.collect()  # again and again: the browser's thread may still hold its last call
        return browser.open_contexts == 0

    assert eventually(closed)


def test_screenshots_show_the_page_in_rgb(opened: Callable[..., Tab]) -> None:
    tab = opened(viewport=(200, 100))
    tab.script("() => { document.body.innerHTML = ''; document.body.style.background = 'rgb(250, 20, 3)' }")
    image = tab.screenshot()
    assert (image.shape, image.dtype) == ((100, 200, 3), np.uint8)
    assert image.reshape(-1, 3).min(axis=0).tolist() == image.reshape(-1, 3).max(axis=0).tolist() == [250, 20, 3]


def test_frozen_time_advances_only_with_actions(opened: Callable[..., Tab]) -> None:
    tab = opened(time_step=0.5)
    tab.script("() => { window.ticks = 0; setInterval(() => ticks++, 100); window.began = Date.now() }")
    time.sleep(0.3)
    assert tab.script("() => ticks") == 0
    assert tab.act("wait[]").done
    assert tab.script("() => [ticks, Date.now() - began]") == [5, 500]


def test_errors_of_scripts_are_raised(opened: Callable[..., Tab]) -> None:
    with pytest.raises(NoPage, match="nonsense"):
        opened().script("() => nonsense()")


def test_a_missing_executable_is_named(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setenv("TURNCREDIT_CHROMIUM", "/no/such/browser")
    with pytest.raises(NoBrowser, match=r"TURNCREDIT_CHROMIUM must be .*'/no/such/browser'"):
        find_browser()
    with pytest.raises(NoBrowser, match=r"executable must be .*'/none'"):
        find_browser("/none")
    monkeypatch.delenv("TURNCREDIT_CHROMIUM")
    monkeypatch.setenv("PATH", "")
    assert find_browser() is None


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    pytest.importorskip("playwright")
    with monkeypatch.context() as patch:
        patch.setattr("turncredit.tools.browser.process.find_browser", lambda given: None)
        patch.setenv("PLAYWRIGHT_BROWSERS_PATH", "/no/such/folder")
        with pytest.raises(NoBrowser, match="apt install chromium-headless-shell"):
            open_tab(site.origin, browser=Browser())
    monkeypatch.setitem(sys.modules, "playwright.async_api", None)
    with pytest.raises(NoBrowser, match=re.escape(installation_command("web"))):
        open_tab(site.origin, browser=Browser("/bin/true"))


def test_a_program_that_is_not_a_browser_is_named(site: Site) -> None:
    pytest.importorskip("playwright")
    with pytest.raises(NoBrowser, match="'/bin/false' does not start"):
        open_tab(site.origin, browser=Browser("/bin/false"))


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 10**9, "x", None, True])
def test_invalid_deadlines_are_refused(seconds: Any) -> None:
    with pytest.raises(BadBrowserOption, match=r"deadline must be a number of seconds > 0 and <= 86,400, got"):
        open_tab("http://127.0.0.1:1", deadline=seconds)
    with pytest.raises(BadBrowserOption, match="start_seconds must be"):
        Browser(start_seconds=seconds)


@pytest.mark.usefixtures("patient")
def test_a_short_deadline_affects_only_its_own_tab(browser: Browser, opened: Callable[..., Tab], site: Site) -> None:
    other = opened()
    with pytest.raises(BrowserError):
        open_tab(site.origin, browser=browser, deadline=0.001)
    assert other.look().title == "Start"


def test_errors_form_one_tree() -> None:
    kinds = (BrowserDied, TabDied, TabClosed, NoPage, NoBrowser, BadBrowserOption)
    assert all(issubclass(kind, BrowserError) for kind in kinds)
    assert issubclass(TabDied, BrowserDied)
