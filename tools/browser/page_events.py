"""Events of a page: dialogs, downloads, new tabs, navigations, network requests, crashes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, Frame, Page, Request

__all__ = ["PageEvents"]

_MAX_TEXT = 200


class PageEvents:
    """Listens to one page, on the event loop of the browser.

    Attributes:
        crashed: whether the page has crashed.
        navigations: number of navigations that have ended, successfully or not.
    """

    def __init__(self) -> None:
        self.crashed = False
        self.navigations = 0
        self._requests: set[Any] = set()
        self._notes: list[str] = []
        self._changed = asyncio.Event()
        self._page: Page | None = None

    @property
    def loading(self) -> bool:
        """Whether the page is waiting for responses."""
        return bool(self._requests)

    def attach(self, page: Page) -> None:
        """Listen to a page."""
        self._page = page
        page.on("dialog", self._dialog)
        page.on("download", self._download)
        page.on("crash", self._crash)
        page.on("framenavigated", self._navigated)
        page.on("request", self._request)
        page.on("requestfinished", self._finished)
        page.on("requestfailed", self._failed)

    def add_note(self, text: str) -> None:
        """Add a note for the agent to the next view of the page."""
        if len(self._notes) < 5 and text not in self._notes:
            self._notes.append(text)

    def take_notes(self) -> list[str]:
        """Return the notes since the last call."""
        notes, self._notes = self._notes, []
        return notes

    async def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds; return False if it does not within the time limit."""
        deadline = time.monotonic() + seconds
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return True

    async def popup(self, page: Page) -> None:
        """Close a new tab. This is rare, since our scripts in the page keep links in the old one."""
        if page is not self._page:
            self.add_note("a new tab was closed")
            with suppress(Exception):
                await page.close()

    async def _dialog(self, dialog: Dialog) -> None:
        if dialog.type != "beforeunload":
            words = " ".join(dialog.message.split())[:_MAX_TEXT]
            self.add_note(f"a dialog ({dialog.type}) said {words!r} and was answered with OK")
        with suppress(Exception):
            await dialog.accept()

    def _download(self, download: Download) -> None:
        self.add_note(f"a download of {download.suggested_filename[:_MAX_TEXT]!r} was refused")

    def _crash(self, _: Page) -> None:
        self.crashed = True
        self._changed.set()

    def _navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self.navigations += 1
            self._requests.clear()
            self._changed.set()

    def _request(self, request: Request) -> None:
        self._requests.add(request)

    def _finished(self, request: Request) -> None:
        self._requests.discard(request)
        self._changed.set()

    def _failed(self, request: Request) -> None:
        self._requests.discard(request)
        if request.is_navigation_request():
            self.navigations += 1
        self._changed.set()
