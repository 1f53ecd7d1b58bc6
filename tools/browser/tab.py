"""One tab: a page in its own context, with a deadline for every call.

`look` returns a `PageView`. `act` performs one action and waits until the page has settled: until a navigation has
ended, or scripts have received what they requested. If an action fails (no such element, covered, a page that does not
load), `ActionResult` has a note for the agent; only a lost browser or a page that hangs raises an exception.

A page stays in its tab: links to new tabs and `window.open` open in it, dialogs are accepted and reported, downloads
are refused. Addresses that are not allowed cannot be opened; the tab returns to the page with the link.

With `time_step`, time on the page is frozen and advances by that many seconds with each action, so that the effects of
timers depend only on the actions, and not on the load of the machine.

Not included: uploads, permissions, frames of other origins beyond what Playwright's snapshot shows.
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

from turncredit.installation import needs
from turncredit.registry import suggest
from turncredit.tools.browser.actions import BrowserAction, InvalidAction, parse
from turncredit.tools.browser.errors import (
    BrowserDied,
    BrowserError,
    NoBrowser,
    NoPage,
    TabClosed,
    TabDied,
    check_seconds,
)
from turncredit.tools.browser.page_events import PageEvents
from turncredit.tools.browser.process import Browser, BrowserProcess, CallTimedOut, shared_browser
from turncredit.tools.browser.scripts import FACTS, GUARD, MARK, MARKED, SCROLL, SCROLL_AT, SETTLED
from turncredit.tools.browser.snapshot import read_snapshot
from turncredit.tools.browser.view import Element, PageView, boxes_of, build_view

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from playwright.async_api import BrowserContext, CDPSession, Page

__all__ = ["ActionResult", "Tab", "open_tab"]

T = TypeVar("T")

_CLOCK: Final = "2024-01-01T12:00:00Z"  # initial time of a page with frozen time
_FETCHING: Final = 1.0  # seconds to wait for requests of scripts; some never stop
_ATTEMPT: Final = 3.0  # seconds for an element to accept an action
_CONTEXT: Final = 5.0  # minimum for a new context, since a timeout there kills the whole browser
_DRAG: Final = 8  # positions of the mouse on the way of a drag
_TYPED: Final = 200  # characters that are typed key by key
_HOPS: Final = 20  # most redirections after one action


@dataclass(frozen=True, slots=True)
class ActionResult:
    """Whether an action was performed; if not, `note` says why."""

    done: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class _TabOptions:
    """Options of `open_tab`."""

    viewport: tuple[int, int]
    deadline: float
    time_step: float
    all_elements: bool
    hidden: str


def open_tab(
    address: str,
    *,
    browser: Browser | None = None,
    allow: Sequence[str] = (),
    viewport: tuple[int, int] = (1000, 700),
    deadline: float = 20.0,
    time_step: float = 0.0,
    all_elements: bool = False,
    hidden: str = "",
) -> Tab:
    """Open an address in a new tab with its own cookies and storage.

    Args:
        address: http or https.
        browser: None: the browser that this process shares.
        allow: origins, such as "http://127.0.0.1:8000", that the page may connect to besides its own. An address on
            another machine must be listed too.
        viewport: width and height of the page in CSS pixels.
        deadline: seconds for each call; loading a page may take half of it.
        time_step: seconds of page time that pass with each action; 0: time is not frozen.
        all_elements: give references to all elements that have text or listen to clicks, for pages that make anything
            clickable.
        hidden: CSS selector of elements to hide.

    Raises:
        BadBrowserOption: the deadline is not a valid time limit.
        NoBrowser: the browser is missing or does not start.
        NoPage: the address is invalid, not allowed, or does not load.
        BrowserDied: the browser died.
    """
    allowed = _allowed(address, allow)
    used = browser or shared_browser()
    options = _TabOptions(viewport, check_seconds("deadline", deadline), time_step, all_elements, hidden)
    process, context = used.context(
        allow=allowed,
        seconds=max(deadline, _CONTEXT),
        viewport={"width": viewport[0], "height": viewport[1]},
        accept_downloads=False,
        service_workers="block",
        locale="en-US",
        timezone_id="UTC",
    )
    tab = Tab(used, process, context, options)
    try:
        tab._run(lambda: tab._open(address), "opening the page")
    except BaseException:
        tab.close()
        raise
    return tab


def _allowed(address: str, origins: Sequence[str]) -> list[str]:
    """Return the origins that the page may connect to, as host:port."""
    hosts = [_host(origin) for origin in origins]
    host = _host(address)
    if host.rpartition(":")[0] in ("127.0.0.1", "localhost", "[::1]"):
        hosts.append(host)
    elif host not in hosts:
        raise NoPage(f"{address!r} is not on this machine; add its origin to `allow`")
    return hosts


def _host(address: str) -> str:
    """Return host:port of an address."""
    try:
        parts = urlsplit(address)
        port = parts.port or {"http": 80, "https": 443}[parts.scheme]
        host = parts.hostname
    except (ValueError, KeyError) as error:
        raise NoPage(f"address must be like http://host:port/path, got {address!r}") from error
    if not host or any(letter in host for letter in ",;*<> "):
        raise NoPage(f"address must be like http://host:port/path, got {address!r}")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Tab:
    """A tab, created by `open_tab`. Use it from one thread at a time, and close it."""

    def __init__(
        self, browser: Browser, process: BrowserProcess, context: BrowserContext, options: _TabOptions
    ) -> None:
        self._browser = browser
        self._process = process
        self._context = context
        self._options = options
        self._error: BrowserError | None = None
        self._view: PageView | None = None
        self._page: Page
        self._session: CDPSession
        self._events = PageEvents()
        self._attempt = min(_ATTEMPT, options.deadline / 5)
        self._finalizer = weakref.finalize(self, browser.abandon, process, context)

    def look(self) -> PageView:
        """Return the current content of the page, with notes about events since the last call.

        Raises:
            BrowserDied: the browser is lost (TabDied: only this tab).
        """
        self._view = self._run(self._see, "looking at the page")
        return self._view

    def act(self, action: str | BrowserAction) -> ActionResult:
        """Perform an action, and wait until the page has settled.

        Args:
            action: an action, or its text. References are those of the last `look`.

        Raises:
            BrowserDied: the browser is lost (TabDied: only this tab).
        """
        parsed = parse(action) if isinstance(action, str) else action
        if isinstance(parsed, InvalidAction):
            return ActionResult(False, parsed.reason)
        view = self._view or self.look()
        element = view.elements.get(parsed.ref)
        if refusal := _refusal(parsed, element, view):
            return ActionResult(False, refusal)
        return self._run(lambda: self._do(parsed, element), f"{parsed.kind}[...]")

    def script(self, code: str, argument: object = None) -> Any:
        """Run a JavaScript function in the page and return its result; only for trusted code.

        Raises:
            BrowserDied: the browser or the page is lost.
            NoPage: the script raised an error.
        """

        async def run() -> object:
            try:
                return await self._page.evaluate(code, argument)
            except Exception as error:
                if self._events.crashed or not self._process.browser.is_connected():
                    raise
                raise NoPage(f"a script failed in the page: {_first_line(error)}") from error

        return self._run(run, "a script")

    def pass_time(self) -> None:
        """Advance frozen time by one `time_step`, and wait until the page has settled."""
        self._run(lambda: self._settle(self._events.navigations), "waiting for the page")

    def screenshot(self) -> NDArray[np.uint8]:
        """Return the visible part of the page, uint8 [height, width, 3] in RGB.

        Raises:
            NoBrowser: pillow is not installed.
            BrowserDied: the browser or the page is lost.
        """
        try:
            from PIL import Image
        except ImportError as error:
            raise NoBrowser(needs(f"screenshots need the pillow package ({error})", "web")) from error
        shown = f"{self._options.hidden} {{ visibility: visible !important }}" if self._options.hidden else None

        async def shoot() -> bytes:
            return await self._page.screenshot(
                type="png", caret="hide", animations="disabled", scale="css", style=shown
            )

        with Image.open(io.BytesIO(self._run(shoot, "a screenshot"))) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8).copy()

    def close(self) -> None:
        """Close the tab; closing it twice has no effect. Never raises."""
        if self._finalizer.detach() is not None:
            self._error = self._error or TabClosed("the tab was closed")
            self._browser.release(self._process, self._context)

    def _run(self, start: Callable[[], Coroutine[object, object, T]], call_name: str) -> T:
        """Run a coroutine with the deadline; if it fails, find out whether the page or the browser is lost."""
        if self._error is not None:
            raise self._error
        seconds = self._options.deadline
        try:
            return self._browser.call(self._process, start, seconds, call_name)
        except BrowserDied as error:
            self._error = error
            raise
        except CallTimedOut as error:
            raise self._give_up(f"{call_name} took longer than {seconds:g} s") from error
        except _Hung as error:
            raise self._give_up(f"{call_name}: {error}") from error
        except BrowserError:
            raise
        except Exception as error:
            reason = "the page crashed" if self._events.crashed else f"{call_name} failed: {_first_line(error)}"
            raise self._give_up(reason) from error

    def _give_up(self, reason: str) -> BrowserDied:
        """Close the tab, or kill the browser if it does not respond; return the exception to raise."""
        if self._browser.responds(self._process):
            self.close()
            error: BrowserDied = TabDied(f"{reason}; its tab was closed")
        else:
            self._browser.kill(self._process, f"{reason}: the browser did not respond and was killed")
            error = BrowserDied(self._process.death)
        self._error = error
        return error

    async def _open(self, address: str) -> None:
        options = self._options
        if options.time_step:
            await self._context.clock.install(time=_CLOCK)
            await self._context.clock.pause_at(_CLOCK)
        await self._context.add_init_script(GUARD)
        if options.all_elements:
            await self._context.add_init_script(MARK)
        page = self._page = await self._context.new_page()
        self._events.attach(page)
        self._context.on("page", self._events.popup)
        self._session = await self._context.new_cdp_session(page)
        try:
            await page.goto(address, timeout=500 * options.deadline)
        except Exception as error:
            raise NoPage(f"{address!r} cannot be opened: {_first_line(error)}") from error
        style = f"{options.hidden} {{ visibility: hidden }}" if options.hidden else ""
        if style or options.all_elements:
            await page.add_style_tag(content=style + (MARKED if options.all_elements else ""))

    async def _see(self) -> PageView:
        for attempt in (1, 2, 3):
            try:
                snapshot = await self._page.aria_snapshot(mode="ai", boxes=True)
                nodes = read_snapshot(snapshot)
                facts = await self._page.evaluate(FACTS, boxes_of(nodes))
            except Exception:
                # The page navigated in between.
                if attempt == 3 or self._events.crashed:
                    raise
                await self._settle(self._events.navigations)
                continue
            notes = self._events.take_notes()
            return build_view(nodes, facts, all_elements=self._options.all_elements, notes=notes)
        raise AssertionError("unreachable")

    async def _do(self, action: BrowserAction, element: Element | None) -> ActionResult:
        navigations = self._events.navigations
        try:
            await asyncio.wait_for(self._perform(action, element), 2 * self._attempt)
        except Exception as error:
            if self._events.crashed or not self._process.browser.is_connected():
                raise
            await self._check_responds()  # a page that hangs is an exception, an action that fails is a result
            await self._settle(navigations)
            if action.kind == "back" and self._events.navigations > navigations:
                return ActionResult(True)  # the page was gone before it could reply
            return ActionResult(False, _explain(action, element, error))
        await self._settle(navigations)
        return ActionResult(True)

    async def _perform(self, action: BrowserAction, element: Element | None) -> None:
        page, limit = self._page, 1000 * self._attempt
        if action.points:
            await self._point(action)
        elif action.kind == "write":
            await self._type(action.text)
        elif action.kind == "press":
            await page.keyboard.press(action.text)
        elif action.kind == "back":
            await page.evaluate("() => history.back()")
        elif action.kind == "scroll" and element is None:
            await page.evaluate(SCROLL, [None, action.text])
        elif element is not None:
            target = page.locator(f"aria-ref={element.target}")
            if action.kind == "click":
                # With frozen time nothing moves, so there is no need to wait; coverage has been checked already.
                await target.click(timeout=limit, no_wait_after=True, force=self._options.time_step > 0)
            elif action.kind == "type":
                await target.fill(action.text, timeout=limit, no_wait_after=True)
            elif action.kind == "select":
                await target.select_option(label=_option(action, element), timeout=limit, no_wait_after=True)
            elif action.kind == "scroll":
                await target.evaluate(f"(element, way) => ({SCROLL})([element, way])", action.text, timeout=limit)

    async def _point(self, action: BrowserAction) -> None:
        """Do with the mouse what an action says."""
        mouse, (x, y) = self._page.mouse, action.points[0]
        if action.kind == "scroll":
            await self._page.evaluate(SCROLL_AT, [x, y, action.text])
        elif action.kind == "move":
            await mouse.move(x, y)
        elif action.kind == "drag":
            await mouse.move(x, y)
            await mouse.down()
            await mouse.move(*action.points[1], steps=_DRAG)
            await mouse.up()
        else:
            await mouse.click(x, y, click_count=2 if action.kind == "double_click" else 1)

    async def _type(self, words: str) -> None:
        """Type words into the focus, key by key unless they are long."""
        keyboard = self._page.keyboard
        await (keyboard.type(words) if len(words) <= _TYPED else keyboard.insert_text(words))

    async def _settle(self, navigations: int) -> None:
        """Wait until the page has settled; stop loading if it does not.

        Args:
            navigations: number of navigations that had ended before the action.
        """
        if self._options.time_step:
            await self._page.clock.run_for(round(1000 * self._options.time_step))
        limit = self._options.deadline / 2
        try:
            await asyncio.wait_for(self._follow(navigations, time.monotonic() + limit), limit)
        except TimeoutError:
            await self._session.send("Page.stopLoading")
            await self._check_responds()
            self._events.add_note(f"a page did not load within {limit:g} s and was stopped")
        await self._events.wait(lambda: not self._events.loading, _FETCHING)

    async def _follow(self, navigations: int, deadline: float) -> None:
        """Follow navigations until the page stays."""
        page, events = self._page, self._events
        for _ in range(_HOPS):
            left = 1000 * max(0.1, deadline - time.monotonic())
            try:
                leaving = await page.evaluate(SETTLED, self._options.time_step > 0)
            except Exception:
                if events.crashed or page.is_closed():
                    raise
                # The page is gone; if the next one is gone too, the next iteration finds out.
                with suppress(Exception):
                    await page.wait_for_load_state("domcontentloaded", timeout=left)
                continue
            if not leaving:
                return
            if leaving == "error":
                events.add_note("a page could not be opened: it is not allowed here, or does not respond")
                await page.go_back(timeout=left)
            else:
                await events.wait(lambda before=navigations: events.navigations > before, left)  # type: ignore[misc]
            navigations = events.navigations
        raise _Hung(f"the page navigated more than {_HOPS} times")

    async def _check_responds(self) -> None:
        """Wait until the page responds.

        Raises:
            _Hung: it does not.
        """
        try:
            await asyncio.wait_for(self._page.evaluate("1"), self._attempt)
        except TimeoutError as error:
            raise _Hung("the page does not respond") from error
        except Exception:
            return


class _Hung(Exception):
    """The page does not respond or does not settle."""


def _refusal(action: BrowserAction, element: Element | None, view: PageView) -> str:
    """Return why the page does not allow an action; "" if it does."""
    if action.ref and element is None:
        count = len(view.elements)
        choices = f"choose one of: e1 to e{count}" if count else "the page has none"
        return f"unknown element {action.ref}; {choices}"
    if action.points:
        return ""  # the mouse may go anywhere
    if action.kind == "back":
        return "" if view.can_go_back else "there is no page to go back to"
    if action.kind == "scroll":
        directions = view.scrolls if element is None else element.scrolls
        return "" if action.text in directions else f"{element or 'the page'} cannot be scrolled {action.text}"
    if element is None:
        return ""
    if element.disabled:
        return f"{element} is disabled"
    if action.kind == "click":
        if element.options:
            return f"{element} is a list; use select[{element.ref}, {element.options[0]}]"
        return f"{element} is {element.covered}" if element.covered else ""
    if action.kind == "type":
        return "" if element.writable else f"{element} does not accept text"
    if not element.options:
        return f"{element} is not a list"
    if _option(action, element):
        return ""
    return f"unknown option {action.text[:60]!r} of {element}{suggest(action.text[:200], element.options, most=8)}"


def _option(action: BrowserAction, element: Element) -> str:
    """Return the option with that name, or else with that name in another case; "" if there is none."""
    if action.text in element.options:
        return action.text
    return next((option for option in element.options if option.lower() == action.text.lower()), "")


def _explain(action: BrowserAction, element: Element | None, error: Exception) -> str:
    """Return why an attempted action failed."""
    subject = f"{action.kind} on {element}" if element else f"{action.kind}[{action.text[:60]}]"
    text = str(error)
    if "intercepts pointer events" in text:
        return f"{subject} failed: the element is covered"
    if "aria-ref" in text and "not found" in text.lower():
        return f"{subject} failed: the element is gone"
    if isinstance(error, TimeoutError) or "Timeout" in text:
        return f"{subject} failed: the element did not respond in time"
    return f"{subject} failed: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    """Return the first line of an error of Playwright, without the name of its function."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    head, colon, message = text.partition(": ")
    return (message if colon and "." in head and " " not in head else text)[:300]
