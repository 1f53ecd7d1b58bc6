"""One tab: a page in a context of its own, looked at and acted on with deadlines.

`look` gives a `View`, `act` does one action of the grammar and waits until the page has come to rest: until a
navigation has ended, or until scripts have fetched what they asked for. What goes wrong with an action (no such
element, covered, a page that does not load) is an `Outcome` for the agent to read; only a lost browser or a page that
hangs is an exception.

A page stays in its tab: links to new tabs and `window.open` open in it, dialogs are accepted and told, downloads are
refused, addresses outside the allowed ones cannot be reached and lead back to where the link was.

With `frozen` time stands still for the page but for `frozen` seconds after each action, so that what it does by timers
depends on the actions alone, and not on how busy the machine is.

Left out on purpose: uploads, permissions, frames of other origins beyond what Playwright's snapshot shows of them.
"""

from __future__ import annotations

import asyncio
import io
import time
import weakref
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import urlsplit

import numpy as np

from turnwise.tools.browser.errors import BrowserDied, BrowserError, NoBrowser, NoPage, TabClosed, TabDied, seconds_of
from turnwise.tools.browser.grammar import Action, Misunderstood, near, parse
from turnwise.tools.browser.process import Browser, Life, Overdue, shared
from turnwise.tools.browser.scripts import FACTS, GUARD, MARK, MARKED, SCROLL, SETTLED
from turnwise.tools.browser.snapshot import read_snapshot
from turnwise.tools.browser.view import Element, View, boxes_of, build
from turnwise.tools.browser.watch import Watch

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.async_api import BrowserContext, CDPSession, Page

__all__ = ["Outcome", "Tab", "open_tab"]

T = TypeVar("T")

_CLOCK: Final = "2024-01-01T12:00:00Z"
"""The time that a page with frozen time reads."""
_FETCHING: Final = 1.0
"""Most seconds that are waited for what scripts fetch; some never stop fetching."""
_ATTEMPT: Final = 3.0
"""Most seconds for an element to take an action."""
_CONTEXT: Final = 5.0
"""Least seconds for a context, which is the browser's affair: one that is not made in time ends the whole browser."""
_HOPS: Final = 20
"""Most pages that one action leads through."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of an action: `done` says that it was carried out, `note` why not ("" when it was)."""

    done: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Settings:
    """What `open_tab` was told."""

    viewport: tuple[int, int]
    deadline: float
    frozen: float
    every: bool
    hidden: str


def open_tab(
    address: str,
    *,
    browser: Browser | None = None,
    allow: Sequence[str] = (),
    viewport: tuple[int, int] = (1000, 700),
    deadline: float = 20.0,
    frozen: float = 0.0,
    every: bool = False,
    hidden: str = "",
) -> Tab:
    """Open an address in a new tab with its own cookies and storage.

    Args:
        address: http or https.
        browser: in this browser; None: the one that this process shares.
        allow: origins such as "http://127.0.0.1:8000" that the page may reach beside its own. An address that is not
            on this machine has to be among them, too.
        viewport: width and height of the page in CSS pixels.
        deadline: seconds for each call, above 0; half of it for a page to load.
        frozen: seconds that pass for the page with every action, all other time standing still; 0: time runs.
        every: give references to all elements that say something or listen to clicks, for pages that make anything
            clickable.
        hidden: CSS selector of elements that are not to be seen.

    Raises:
        BadOption: the deadline is no such number.
        NoBrowser: there is none, or it does not start.
        NoPage: the address is none, is not allowed, or does not load.
        BrowserDied: the browser died meanwhile.
    """
    allowed = _allowed(address, allow)
    used = browser or shared()
    settings = _Settings(viewport, seconds_of("deadline", deadline), frozen, every, hidden)
    life, context = used.context(
        allow=allowed,
        seconds=max(deadline, _CONTEXT),
        viewport={"width": viewport[0], "height": viewport[1]},
        accept_downloads=False,
        service_workers="block",
        locale="en-US",
        timezone_id="UTC",
    )
    tab = Tab(used, life, context, settings)
    try:
        tab._run(lambda: tab._open(address), "opening the page")
    except BaseException:
        tab.close()
        raise
    return tab


def _allowed(address: str, origins: Sequence[str]) -> list[str]:
    """Return what may be reached, as host:port."""
    hosts = [_host(origin) for origin in origins]
    host = _host(address)
    if host.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]"):
        hosts.append(host)
    elif host not in hosts:
        raise NoPage(f"{address!r} is not on this machine: name its origin in `allow` to let a page reach it")
    return hosts


def _host(address: str) -> str:
    """Return host:port of an address."""
    try:
        parts = urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        host = parts.hostname
    except (ValueError, KeyError) as error:
        raise NoPage(f"{address!r} is no address of a page: http://host:port/... is wanted") from error
    if not host or any(letter in host for letter in ",;*<> "):
        raise NoPage(f"{address!r} is no address of a page: it names no host")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Tab:
    """A tab, made by `open_tab`. Use it from one thread at a time; `close` it at the end."""

    def __init__(self, browser: Browser, life: Life, context: BrowserContext, settings: _Settings) -> None:
        """Take over a context; `open_tab` opens its page."""
        self._browser = browser
        self._life = life
        self._context = context
        self._settings = settings
        self._lost: BrowserError | None = None
        self._view: View | None = None
        self._page: Page
        self._session: CDPSession
        self._watch = Watch()
        self._attempt = min(_ATTEMPT, settings.deadline / 5)
        self._finalizer = weakref.finalize(self, browser.abandon, life, context)

    @property
    def watch_pid(self) -> int:
        """Process id of the browser that the tab lives in."""
        return self._life.pid

    def look(self) -> View:
        """Return what the page shows now, with the notes since the last look.

        Raises:
            BrowserDied: the browser or the page is lost (TabDied: only this page).
        """
        self._view = self._run(self._see, "looking at the page")
        return self._view

    def act(self, action: str | Action) -> Outcome:
        """Do an action, and wait until the page has come to rest.

        Args:
            action: a text of the grammar, or an action. Its references are those of the last look.

        Raises:
            BrowserDied: the browser or the page is lost (TabDied: only this page).
        """
        wanted = parse(action) if isinstance(action, str) else action
        if isinstance(wanted, Misunderstood):
            return Outcome(False, wanted.reason)
        view = self._view or self.look()
        element = view.elements.get(wanted.ref)
        if refusal := _refusal(wanted, element, view):
            return Outcome(False, refusal)
        return self._run(lambda: self._do(wanted, element), f"{wanted.kind}[...]")

    def script(self, code: str, argument: Any = None) -> Any:
        """Return what a JavaScript function returns in the page: for environments, never for what an agent wrote.

        Raises:
            BrowserDied: the browser or the page is lost.
            NoPage: the script raised.
        """

        async def run() -> Any:
            try:
                return await self._page.evaluate(code, argument)
            except Exception as error:
                if self._watch.crashed or not self._life.browser.is_connected():
                    raise
                raise NoPage(f"a script failed in the page: {_first_line(error)}") from error

        return self._run(run, "a script")

    def pass_time(self) -> None:
        """Let the time of one action pass (with `frozen`), and wait until the page has come to rest."""
        self._run(lambda: self._settle(self._watch.moves), "waiting for the page")

    def screenshot(self) -> NDArray[np.uint8]:
        """Return the visible part of the page, uint8 [height, width, 3] in RGB.

        Raises:
            NoBrowser: pillow is not installed.
            BrowserDied: the browser or the page is lost.
        """
        try:
            from PIL import Image
        except ImportError as error:
            raise NoBrowser(f"screenshots need the package pillow: pip install turnwise[web] ({error})") from error
        shown = f"{self._settings.hidden} {{ visibility: visible !important }}" if self._settings.hidden else None

        async def shoot() -> bytes:
            return await self._page.screenshot(
                type="png", caret="hide", animations="disabled", scale="css", style=shown
            )

        with Image.open(io.BytesIO(self._run(shoot, "a screenshot"))) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8).copy()

    def close(self) -> None:
        """Close the tab; a second time does nothing. Never raises."""
        if self._finalizer.detach() is not None:
            self._lost = self._lost or TabClosed("the tab was closed")
            self._browser.release(self._life, self._context)

    def _run(self, start: Callable[[], Coroutine[Any, Any, T]], what: str) -> T:
        """Run a coroutine under the deadline, and find out what died when it does not end."""
        if self._lost is not None:
            raise self._lost
        seconds = self._settings.deadline
        try:
            return self._browser.call(self._life, start, seconds, what)
        except BrowserDied as error:
            self._lost = error
            raise
        except Overdue as error:
            raise self._give_up(f"{what} took longer than {seconds:g} s") from error
        except _Hung as error:
            raise self._give_up(f"{what}: {error}") from error
        except BrowserError:
            raise
        except Exception as error:
            reason = "the page crashed" if self._watch.crashed else f"{what} failed: {_first_line(error)}"
            raise self._give_up(reason) from error

    def _give_up(self, reason: str) -> BrowserDied:
        """Close a tab whose page is lost, or the whole browser where that does not answer; return what to raise."""
        if self._browser.answers(self._life):
            self.close()
            lost: BrowserDied = TabDied(f"{reason}; its tab was closed")
        else:
            self._browser.kill(self._life, f"{reason}: the browser did not answer and was killed")
            lost = BrowserDied(self._life.died)
        self._lost = lost
        return lost

    async def _open(self, address: str) -> None:
        settings = self._settings
        if settings.frozen:
            await self._context.clock.install(time=_CLOCK)
            await self._context.clock.pause_at(_CLOCK)
        await self._context.add_init_script(GUARD)
        if settings.every:
            await self._context.add_init_script(MARK)
        page = self._page = await self._context.new_page()
        self._watch.attach(page)
        self._context.on("page", self._watch.popup)
        self._session = await self._context.new_cdp_session(page)
        try:
            await page.goto(address, timeout=500 * settings.deadline)
        except Exception as error:
            raise NoPage(f"{address!r} cannot be opened: {_first_line(error)}") from error
        style = f"{settings.hidden} {{ visibility: hidden }}" if settings.hidden else ""
        if style or settings.every:
            await page.add_style_tag(content=style + (MARKED if settings.every else ""))

    async def _see(self) -> View:
        for attempt in (1, 2, 3):
            try:
                snapshot = await self._page.aria_snapshot(mode="ai", boxes=True)
                nodes = read_snapshot(snapshot)
                facts = await self._page.evaluate(FACTS, boxes_of(nodes))
            except Exception:
                # The page went on to another one in between.
                if attempt == 3 or self._watch.crashed:
                    raise
                await self._settle(self._watch.moves)
                continue
            return build(nodes, facts, every=self._settings.every, notes=self._watch.notes())
        raise AssertionError("unreachable")

    async def _do(self, action: Action, element: Element | None) -> Outcome:
        moves = self._watch.moves
        try:
            await asyncio.wait_for(self._carry_out(action, element), 2 * self._attempt)
        except Exception as error:
            if self._watch.crashed or not self._life.browser.is_connected():
                raise
            # Did the element refuse, or does the page not answer at all? The second is no answer to the agent.
            await self._alive()
            await self._settle(moves)
            if action.kind == "back" and self._watch.moves > moves:
                # The page that was asked to go back was gone before it could answer.
                return Outcome(True)
            return Outcome(False, _explain(action, element, error))
        await self._settle(moves)
        return Outcome(True)

    async def _carry_out(self, action: Action, element: Element | None) -> None:
        page, limit = self._page, 1000 * self._attempt
        if action.kind == "press":
            await page.keyboard.press(action.text)
        elif action.kind == "back":
            await page.evaluate("() => history.back()")
        elif action.kind == "scroll" and element is None:
            await page.evaluate(SCROLL, [None, action.text])
        elif element is not None:
            target = page.locator(f"aria-ref={element.target}")
            if action.kind == "click":
                # With the time frozen nothing moves, so there is nothing to wait for; what covers it was asked before.
                await target.click(timeout=limit, no_wait_after=True, force=self._settings.frozen > 0)
            elif action.kind == "type":
                await target.fill(action.text, timeout=limit, no_wait_after=True)
            elif action.kind == "select":
                await target.select_option(label=_option(action, element), timeout=limit, no_wait_after=True)
            elif action.kind == "scroll":
                await target.evaluate(f"(element, way) => ({SCROLL})([element, way])", action.text, timeout=limit)

    async def _settle(self, moves: int) -> None:
        """Wait until the page has come to rest, and stop one that does not.

        Args:
            moves: the navigations that had ended before the action.
        """
        if self._settings.frozen:
            await self._page.clock.run_for(round(1000 * self._settings.frozen))
        loading = self._settings.deadline / 2
        try:
            await asyncio.wait_for(self._rest(moves, time.monotonic() + loading), loading)
        except TimeoutError:
            await self._stop()
            self._watch.note(f"a page did not load within {loading:g} s and was stopped")
        await self._watch.wait(lambda: not self._watch.fetching, _FETCHING)

    async def _rest(self, moves: int, end: float) -> None:
        """Follow the page until it stays where it is."""
        page, watch = self._page, self._watch
        for _ in range(_HOPS):
            left = 1000 * max(0.1, end - time.monotonic())
            try:
                leaving = await page.evaluate(SETTLED, self._settings.frozen > 0)
            except Exception:
                if watch.crashed or page.is_closed():
                    raise
                # The page that was asked is gone; where the next one is gone, too, it is asked at the next turn.
                with suppress(Exception):
                    await page.wait_for_load_state("domcontentloaded", timeout=left)
                continue
            if not leaving:
                return
            if leaving == "error":
                watch.note("a page could not be opened: it is outside of what can be reached here, or does not answer")
                await page.go_back(timeout=left)
            else:
                await watch.wait(lambda before=moves: watch.moves > before, left)  # type: ignore[misc]
            moves = watch.moves
        raise _Hung(f"the page led on through {_HOPS} others without an end")

    async def _stop(self) -> None:
        """Stop a page from loading; one that does not answer even then hangs."""
        await self._session.send("Page.stopLoading")
        await self._alive()

    async def _alive(self) -> None:
        """Return when the page answers.

        Raises:
            _Hung: it does not.
        """
        try:
            await asyncio.wait_for(self._page.evaluate("1"), self._attempt)
        except TimeoutError as error:
            raise _Hung("the page does not answer") from error
        except Exception:
            return


class _Hung(Exception):
    """The page does not answer, or does not come to rest."""


def _refusal(action: Action, element: Element | None, view: View) -> str:
    """Return why the page as it was seen does not allow an action; "" when it does."""
    if action.ref and element is None:
        count = len(view.elements)
        return f"no element {action.ref}: " + (f"the page has e1 to e{count}" if count else "the page has none")
    if action.kind == "back":
        return "" if view.can_go_back else "there is no page to go back to"
    if action.kind == "scroll":
        ways = view.scrolls if element is None else element.scrolls
        return "" if action.text in ways else f"{element or 'the page'} cannot be scrolled {action.text} any further"
    if element is None:
        return ""
    if element.disabled:
        return f"{element} is disabled"
    if action.kind == "click":
        if element.options:
            return f"{element} is a list: choose with select[{element.ref}, {element.options[0]}]"
        return f"{element} is {element.covered}" if element.covered else ""
    if action.kind == "type":
        return "" if element.writable else f"{element} takes no text"
    if not element.options:
        return f"{element} is no list to select from"
    return (
        ""
        if _option(action, element)
        else f"no option {action.text[:60]!r} in {element}: " + near(action.text, element.options)
    )


def _option(action: Action, element: Element) -> str:
    """Return the option that is meant: of that name, or else of that name in other capitals; "" for none."""
    if action.text in element.options:
        return action.text
    return next((option for option in element.options if option.lower() == action.text.lower()), "")


def _explain(action: Action, element: Element | None, error: Exception) -> str:
    """Say why an action that was tried did not succeed."""
    what = f"{action.kind} on {element}" if element else f"{action.kind}[{action.text[:60]}]"
    text = str(error)
    if "intercepts pointer events" in text:
        return f"{what} failed: something covers it"
    if "aria-ref" in text and "not found" in text.lower():
        return f"{what} failed: it is gone"
    if isinstance(error, TimeoutError) or "Timeout" in text:
        return f"{what} failed: it did not take it in time"
    return f"{what} failed: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    """Return the first line of what Playwright says, without the name of its function."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    head, colon, rest = text.partition(": ")
    return (rest if colon and "." in head and " " not in head else text)[:300]
