"""The browser of a process: started on first use, killed when it hangs, and restarted when needed.

Playwright runs on an event loop in a separate thread, so that its calls can be made from any thread, even inside
another event loop, and tabs of several threads run concurrently. Every call has a deadline. When a call exceeds it, the
browser is asked for its version: if it responds, only the page hangs, and its tab is closed; otherwise the browser is
killed with all its processes. The next tab starts a new one.

Network access: each context uses a proxy that refuses every connection, and the allowed origins bypass it. This covers
host names and addresses, redirects, web sockets and workers, at no cost per request.

Not included: visible windows, persistent profiles, browsers other than Chromium.
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
import weakref
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from turncredit.installation import needs
from turncredit.tools.browser.errors import BrowserDied, BrowserError, NoBrowser, check_seconds
from turncredit.tools.browser.executable import NAMES, VARIABLE, find_browser

if TYPE_CHECKING:
    from playwright.async_api import Browser as PlaywrightBrowser
    from playwright.async_api import BrowserContext, CDPSession, Playwright

__all__ = ["Browser", "BrowserProcess", "CallTimedOut", "shared_browser"]

T = TypeVar("T")

_ARGUMENTS: Final = (
    "--disable-dev-shm-usage",  # /dev/shm is 64 MB in many containers
    "--disable-quic",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
)
_PROBE: Final = 3.0  # seconds for a browser to respond


class CallTimedOut(Exception):
    """A call exceeded its deadline."""


@dataclass(eq=False)
class BrowserProcess:
    """One running browser.

    Args:
        playwright: its Playwright driver.
        browser: its Playwright object.
        session: connection to the browser for the DevTools protocol.
        pid: process id of the browser itself.
        group: process group with its other processes.
        death: how it ended; "" while it runs.
        killed: whether its remaining processes have been killed too.
        contexts: open contexts.
    """

    playwright: Playwright
    browser: PlaywrightBrowser
    session: CDPSession
    pid: int
    group: int
    death: str = ""
    killed: bool = False
    contexts: set[BrowserContext] = field(default_factory=set)


class Browser:
    """A Chromium that starts when the first context is opened; safe to use from any thread.

    Args:
        executable: path of a Chromium; None: see `find_browser`.
        args: further command-line switches of Chromium.
        start_seconds: time limit for the start.

    Attributes:
        starts: how often the browser has been started.

    Raises:
        BadBrowserOption: `start_seconds` is not a valid time limit.
    """

    def __init__(
        self, executable: str | os.PathLike[str] | None = None, *, args: Sequence[str] = (), start_seconds: float = 60.0
    ) -> None:
        self.starts = 0
        self._executable = executable
        self._args = [*_ARGUMENTS, *args]
        self._start_seconds = check_seconds("start_seconds", start_seconds)
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._current: BrowserProcess | None = None
        # Bound but not listening: connections are refused, and no other program can use the port.
        self._nowhere = socket.socket()
        self._nowhere.bind(("127.0.0.1", 0))
        _browsers.add(self)

    @property
    def pid(self) -> int | None:
        """Process id of the running browser; None if none is running."""
        process = self._current
        return None if process is None or process.death else process.pid

    @property
    def open_contexts(self) -> int:
        """Number of open contexts."""
        process = self._current
        return 0 if process is None or process.death else len(process.contexts)

    def context(self, *, allow: Sequence[str], seconds: float, **options: Any) -> tuple[BrowserProcess, BrowserContext]:
        """Open a context with its own cookies, storage and cache.

        Args:
            allow: host:port pairs that its pages may connect to; everything else is refused.
            seconds: time limit, not counting the start of a browser.
            options: of Playwright's `new_context`.

        Raises:
            NoBrowser: the browser is missing or does not start.
            BrowserDied: the browser died.
        """
        proxy: Any = {
            "server": f"http://127.0.0.1:{self._nowhere.getsockname()[1]}",
            "bypass": ",".join(("<-loopback>", *allow)),
        }
        for attempt in (1, 2):
            process = self._running()
            try:
                start = partial(process.browser.new_context, proxy=proxy, **options)
                context = self.call(process, start, seconds, "a new context")
            except (BrowserDied, CallTimedOut) as error:
                # It may have died long ago, unnoticed: start another one and try again.
                self.kill(process, f"the browser did not open a new context: {error}")
                if attempt == 2:
                    raise BrowserDied(process.death) from error
                continue
            process.contexts.add(context)
            return process, context
        raise AssertionError("unreachable")

    def release(self, process: BrowserProcess, context: BrowserContext, seconds: float = 5.0) -> None:
        """Close a context; if that takes too long, the browser is killed. Never raises."""
        process.contexts.discard(context)
        if process.death:
            return
        try:
            self.call(process, context.close, seconds, "closing a context")
        except CallTimedOut:
            self.kill(process, "the browser was killed: it did not close a context in time")
        except BrowserError:
            pass

    def abandon(self, process: BrowserProcess, context: BrowserContext) -> None:
        """Close a context without waiting; for tabs that are garbage collected."""
        process.contexts.discard(context)
        loop = self._loop
        if not process.death and loop is not None and loop.is_running():
            asyncio.run_coroutine_threadsafe(_ignoring_errors(context.close()), loop)

    def call(
        self, process: BrowserProcess, start: Callable[[], Coroutine[object, object, T]], seconds: float, call_name: str
    ) -> T:
        """Run a coroutine on the browser's event loop and return its result.

        Args:
            process: the browser that it belongs to.
            start: creates the coroutine.
            seconds: time limit.
            call_name: name of the operation, for messages.

        Raises:
            BrowserDied: the browser is gone.
            CallTimedOut: the coroutine exceeded the limit and was cancelled.
        """
        if process.death:
            raise BrowserDied(process.death)
        try:
            return self._wait(start, seconds, call_name)
        except (BrowserError, CallTimedOut):
            raise
        except Exception as error:
            if process.death or not process.browser.is_connected():
                self.kill(process, _death(process))
                raise BrowserDied(process.death) from error
            raise

    def responds(self, process: BrowserProcess) -> bool:
        """Return whether the browser itself responds, regardless of its pages."""
        try:
            self.call(process, lambda: process.session.send("Browser.getVersion"), _PROBE, "asking for the version")
        except (BrowserError, CallTimedOut):
            return False
        return True

    def kill(self, process: BrowserProcess, reason: str) -> None:
        """Kill a browser with all its processes; its tabs are lost. Killing it twice has no effect.

        This also cleans up after a browser that died by itself, since Playwright's driver outlives it.
        """
        with self._lock:
            if process.killed:
                return
            process.killed = True
            process.death = process.death or reason
            process.contexts.clear()
            if self._current is process:
                self._current = None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            # Playwright gives the browser its own process group; if it ever does not, do not kill ours.
            if process.group != os.getpgrp():
                os.killpg(process.group, signal.SIGKILL)
            else:
                os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):
            self._wait(process.playwright.stop, 5.0, "stopping Playwright")

    def close(self) -> None:
        """Close the browser, by force if necessary; the next context starts a new one."""
        process = self._current
        if process is None:
            return
        with contextlib.suppress(Exception):
            self._wait(process.browser.close, 5.0, "closing the browser")
        self.kill(process, "the browser was closed")

    def leave_to_parent(self) -> None:
        """Forget, in a forked child, the browser that runs: its thread, its pipe and its processes are the parent's.

        What the child holds of it, such as tabs, finds it dead, and kills and closes nothing.
        """
        self._lock = threading.RLock()
        # Not collected: transports that are closed would leave the parent's event loop, with which they share an epoll.
        _left_to_parents.append((self._loop, self._current))
        if self._current is not None:
            self._current.death = "the browser is that of the process that was forked"
            self._current.killed = True
            self._current.contexts.clear()
        self._loop, self._current = None, None

    def _running(self) -> BrowserProcess:
        """Return the running browser; start one if necessary."""
        with self._lock:
            if self._current is not None and self._current.death:
                self.kill(self._current, self._current.death)
            if self._current is None:
                self._current = self._start()
                self.starts += 1
            return self._current

    def _start(self) -> BrowserProcess:
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise NoBrowser(needs(f"browsers need the playwright package ({error})", "web")) from error
        path = find_browser(self._executable)

        async def start() -> BrowserProcess:
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
                info = await session.send("SystemInfo.getProcessInfo")
            except BaseException:
                await playwright.stop()
                raise
            pid = next(
                int(process_info["id"]) for process_info in info["processInfo"] if process_info["type"] == "browser"
            )
            process = BrowserProcess(playwright, browser, session, pid, os.getpgid(pid))
            browser.on("disconnected", lambda _: _on_disconnect(process))
            return process

        try:
            return self._wait(start, self._start_seconds + 5.0, "starting the browser")
        except CallTimedOut as error:
            raise NoBrowser(f"the browser {path!r} did not start within {self._start_seconds:g} s") from error
        except Exception as error:
            if path is None:
                raise NoBrowser(
                    f"no Chromium found; install one of {', '.join(NAMES)} (Debian: apt install "
                    f"chromium-headless-shell), or set ${VARIABLE} to its path"
                ) from error
            lines = [line for line in str(error).splitlines() if line.strip()]
            raise NoBrowser(f"the browser {path!r} does not start: {lines[0] if lines else error!r}") from error

    def _wait(self, start: Callable[[], Coroutine[object, object, T]], seconds: float, call_name: str) -> T:
        """Run a coroutine on the event loop and wait for it."""
        loop = self._event_loop()
        if threading.current_thread().name == _THREAD:
            raise RuntimeError("the browser was called from its own thread, which would deadlock")
        future = asyncio.run_coroutine_threadsafe(start(), loop)
        try:
            return future.result(seconds)
        except concurrent.futures.TimeoutError as error:
            if future.done() and not future.cancelled():
                raise
            future.cancel()
            raise CallTimedOut(f"{call_name} took longer than {seconds:g} s") from error
        except concurrent.futures.CancelledError as error:
            raise BrowserDied(f"{call_name} was cancelled because the browser ended") from error

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_exception_handler(lambda loop, context: None)  # errors of tabs that have been closed
                threading.Thread(target=self._loop.run_forever, name=_THREAD, daemon=True).start()
            return self._loop


_THREAD: Final = "turncredit-browser"
_browsers: Final[weakref.WeakSet[Browser]] = weakref.WeakSet()
_left_to_parents: Final[list[object]] = []


def _on_disconnect(process: BrowserProcess) -> None:
    """Record the death of a browser that we did not close."""
    if not process.death:
        process.death = _death(process)
        process.contexts.clear()


def _death(process: BrowserProcess) -> str:
    return f"the browser (process {process.pid}) died"


async def _ignoring_errors(work: Coroutine[object, object, object]) -> None:
    with contextlib.suppress(Exception):
        await work


_shared: Browser | None = None
_shared_lock = threading.Lock()


def shared_browser() -> Browser:
    """Return the browser that this process shares; it starts when the first tab is opened."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Browser()
            atexit.register(_shared.close)
        return _shared


def _reset_after_fork() -> None:
    """Leave all browsers to the parent in a forked child, which shares none with it."""
    global _shared, _shared_lock
    for browser in _browsers:
        browser.leave_to_parent()
    if _shared is not None:
        atexit.unregister(_shared.close)
    _shared, _shared_lock = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
