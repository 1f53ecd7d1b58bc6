"""The one browser of a process: started when it is first needed, watched, killed when it hangs, started anew.

Playwright's calls run on an event loop in a thread of its own, so that they can be made from any thread, also from
inside another event loop, and so that tabs of several threads go on side by side. Every call has a deadline. One that
passes it ends in a question to the browser: where that answers, only the page hung, and its tab is closed; where it
does not, the browser is killed with all its processes, found by the process id that it told us. The next tab starts a
new one.

What a page reaches: each context has a proxy that refuses everything, and the origins allowed go past it. That holds
for names and numbers, redirects, sockets and what workers fetch, at no cost per request.

Left out on purpose: a browser with a window, profiles that last, browsers other than Chromium.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from turnwise.tools.browser.errors import BrowserDied, BrowserError, NoBrowser, seconds_of
from turnwise.tools.browser.find import NAMES, VARIABLE, find_browser

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import BrowserContext, CDPSession, Playwright

__all__ = ["Browser", "Life", "Overdue", "shared"]

T = TypeVar("T")

_ARGUMENTS: Final = (
    "--disable-dev-shm-usage",  # /dev/shm is 64 MB in many containers
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
_PROBE: Final = 3.0
"""Seconds in which a browser that is alive says so."""


class Overdue(Exception):
    """A call passed its deadline."""


@dataclass(eq=False)
class Life:
    """One start of the browser, until it ends: what belongs to it, and how it ended ("" as long as it lives)."""

    playwright: Playwright
    browser: PlaywrightBrowser
    session: CDPSession
    pid: int
    """Of the browser itself; its group holds the others."""
    group: int
    died: str = ""
    cleared: bool = False
    """Whether what was left of it has been ended as well."""
    contexts: set[BrowserContext] = field(default_factory=set)


class Browser:
    """A Chromium that starts when the first context is opened; safe to use from any thread."""

    def __init__(
        self, executable: str | os.PathLike[str] | None = None, *, args: Sequence[str] = (), start_seconds: float = 60.0
    ) -> None:
        """Keep how to start it.

        Args:
            executable: path of a Chromium; None: see `find_browser`.
            args: further switches of Chromium.
            start_seconds: most seconds for a start, above 0.

        Raises:
            BadOption: they are no such number.
        """
        self.starts = 0
        self._executable = executable
        self._args = [*_ARGUMENTS, *args]
        self._start_seconds = seconds_of("start_seconds", start_seconds)
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: Life | None = None
        # Bound and never listening: whatever is sent there is refused, and nobody else can take the port.
        self._nowhere = socket.socket()
        self._nowhere.bind(("127.0.0.1", 0))

    @property
    def pid(self) -> int | None:
        """Process id of the running browser; None when none runs."""
        life = self._life
        return None if life is None or life.died else life.pid

    @property
    def open_contexts(self) -> int:
        """How many contexts are open."""
        life = self._life
        return 0 if life is None or life.died else len(life.contexts)

    def context(self, *, allow: Sequence[str], seconds: float, **options: Any) -> tuple[Life, BrowserContext]:
        """Open a context: cookies, storage and cache of its own.

        Args:
            allow: host:port pairs that its pages may reach; nothing else is.
            seconds: most seconds for it, beside the start of a browser.
            options: of Playwright's `new_context`.

        Raises:
            NoBrowser: there is none, or it does not start.
            BrowserDied: it died meanwhile.
        """
        proxy: Any = {
            "server": f"http://127.0.0.1:{self._nowhere.getsockname()[1]}",
            "bypass": ",".join(("<-loopback>", *allow)),
        }
        for attempt in (1, 2):
            life = self._living()
            try:
                start = partial(life.browser.new_context, proxy=proxy, **options)
                context = self.call(life, start, seconds, "a new context")
            except (BrowserDied, Overdue) as error:
                # It may have died long ago, while nobody looked: one more start is worth a try.
                self.kill(life, f"the browser did not open a new context: {error}")
                if attempt == 2:
                    raise BrowserDied(life.died) from error
                continue
            life.contexts.add(context)
            return life, context
        raise AssertionError("unreachable")

    def release(self, life: Life, context: BrowserContext, seconds: float = 5.0) -> None:
        """Close a context; a browser that does not manage that in time is killed. Never raises."""
        life.contexts.discard(context)
        if life.died:
            return
        try:
            self.call(life, context.close, seconds, "closing a context")
        except Overdue:
            self.kill(life, "the browser was killed: it did not close a context in time")
        except BrowserError:
            pass

    def abandon(self, life: Life, context: BrowserContext) -> None:
        """Close a context without waiting, for whoever forgot to close it."""
        life.contexts.discard(context)
        loop = self._loop
        if not life.died and loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(_quietly(context.close()), loop)

    def call(self, life: Life, start: Callable[[], Coroutine[Any, Any, T]], seconds: float, what: str) -> T:
        """Return what a coroutine on the browser's loop returns.

        Args:
            life: the start of the browser that it belongs to.
            start: makes the coroutine.
            seconds: its deadline.
            what: what is done, for messages.

        Raises:
            BrowserDied: that browser is gone.
            Overdue: it took longer; it was cancelled.
        """
        if life.died:
            raise BrowserDied(life.died)
        try:
            return self._wait(start, seconds, what)
        except (BrowserError, Overdue):
            raise
        except Exception as error:
            if life.died or not life.browser.is_connected():
                self.kill(life, _death(life))
                raise BrowserDied(life.died) from error
            raise

    def answers(self, life: Life) -> bool:
        """Return whether the browser itself answers, whatever its pages do."""
        try:
            self.call(life, lambda: life.session.send("Browser.getVersion"), _PROBE, "a sign of life")
        except (BrowserError, Overdue):
            return False
        return True

    def kill(self, life: Life, reason: str) -> None:
        """End one start of the browser with all its processes; the tabs in it are lost. A second time does nothing.

        A browser that died by itself is ended like this, too: Playwright's own process outlives it.
        """
        with self._lock:
            if life.cleared:
                return
            life.cleared = True
            life.died = life.died or reason
            life.contexts.clear()
            if self._life is life:
                self._life = None
        # The group was made for the browser by Playwright; ours it can only be if that changed.
        if life.group != os.getpgrp():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(life.group, signal.SIGKILL)
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(life.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):
            self._wait(life.playwright.stop, 5.0, "the end of Playwright")

    def close(self) -> None:
        """End the browser in good order, or else by force; the next context starts a new one."""
        life = self._life
        if life is None:
            return
        with contextlib.suppress(Exception):
            self._wait(life.browser.close, 5.0, "the end of the browser")
        self.kill(life, "the browser was closed")

    def _living(self) -> Life:
        """Return the running browser; start one where none runs."""
        with self._lock:
            if self._life is not None and self._life.died:
                self.kill(self._life, self._life.died)
            if self._life is None:
                self._life = self._start()
                self.starts += 1
            return self._life

    def _start(self) -> Life:
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise NoBrowser(f"browsers need the package playwright: pip install turnwise[web] ({error})") from error
        path = find_browser(self._executable)

        async def start() -> Life:
            playwright = await async_playwright().start()
            try:
                browser = await playwright.chromium.launch(
                    executable_path=path,
                    args=self._args,
                    timeout=1000 * self._start_seconds,
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                session = await browser.new_browser_cdp_session()
                found = await session.send("SystemInfo.getProcessInfo")
            except BaseException:
                await playwright.stop()
                raise
            pid = next(int(one["id"]) for one in found["processInfo"] if one["type"] == "browser")
            life = Life(playwright, browser, session, pid, os.getpgid(pid))
            browser.on("disconnected", lambda _: _ended(life))
            return life

        try:
            return self._wait(start, self._start_seconds + 5.0, "the start of the browser")
        except Overdue as error:
            raise NoBrowser(f"the browser {path!r} did not start in {self._start_seconds:g} s") from error
        except Exception as error:
            if path is None:
                raise NoBrowser(
                    f"no Chromium on this machine: install one of {', '.join(NAMES)} (Debian: apt install "
                    f"chromium-headless-shell), or set ${VARIABLE} to its path"
                ) from error
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise NoBrowser(f"the browser {path!r} does not start: {lines[0] if lines else error!r}") from error

    def _wait(self, start: Callable[[], Coroutine[Any, Any, T]], seconds: float, what: str) -> T:
        """Run a coroutine on the loop and wait for it."""
        loop = self._running_loop()
        if threading.current_thread().name == _THREAD:
            raise RuntimeError("the browser was called from its own thread, which would wait for itself")
        future = asyncio.run_coroutine_threadsafe(start(), loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError as error:
            if future.done() and not future.cancelled():
                raise
            future.cancel()
            raise Overdue(f"{what} took longer than {seconds:g} s") from error
        except concurrent.futures.CancelledError as error:
            raise BrowserDied(f"{what} was cut short, since the browser ended") from error

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_exception_handler(lambda loop, context: None)  # of tabs that were closed meanwhile
                threading.Thread(target=self._loop.run_forever, name=_THREAD, daemon=True).start()
            return self._loop


_THREAD: Final = "turnwise-browser"


def _ended(life: Life) -> None:
    """Note the end of a browser that nobody here ended."""
    if not life.died:
        life.died = _death(life)
        life.contexts.clear()


def _death(life: Life) -> str:
    return f"the browser (process {life.pid}) died"


async def _quietly(work: Coroutine[Any, Any, Any]) -> None:
    with contextlib.suppress(Exception):
        await work


_shared: Browser | None = None
_sharing = threading.Lock()


def shared() -> Browser:
    """Return the browser of this process, the same one at every call; nothing starts before a tab is opened."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = Browser()
            atexit.register(_shared.close)
        return _shared


def _forget() -> None:
    """In a forked child: the thread and the pipe belong to the parent, so the child gets a browser of its own."""
    global _shared, _sharing
    if _shared is not None:
        atexit.unregister(_shared.close)
    _shared, _sharing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
