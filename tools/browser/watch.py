"""What happens to a page by itself: dialogs, downloads, new tabs, navigations, what it fetches, a crash."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, Frame, Page, Request

__all__ = ["Watch"]

_SHORT = 200


class Watch:
    """Listens to one page, on the browser's loop."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.crashed = False
        self.moves = 0
        """Navigations of the page that have ended, in a new page or in nothing."""
        self._fetching: set[Any] = set()
        self._notes: list[str] = []
        self._changed = asyncio.Event()
        self._page: Page | None = None

    @property
    def fetching(self) -> bool:
        """Whether the page waits for something that it asked for."""
        return bool(self._fetching)

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

    def note(self, text: str) -> None:
        """Tell the agent at its next look."""
        if len(self._notes) < 5 and text not in self._notes:
            self._notes.append(text)

    def notes(self) -> list[str]:
        """Return the notes since the last call."""
        found, self._notes = self._notes, []
        return found

    async def wait(self, happened: Callable[[], bool], seconds: float) -> bool:
        """Return whether something happens within so many seconds."""
        end = time.monotonic() + seconds
        while not happened():
            left = end - time.monotonic()
            if left <= 0:
                return False
            self._changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), left)
        return True

    async def popup(self, page: Page) -> None:
        """Close a new tab: the scripts in pages keep links in the old one, so this is a rare thing."""
        if page is not self._page:
            self.note("a new tab was closed")
            with suppress(Exception):
                await page.close()

    async def _dialog(self, dialog: Dialog) -> None:
        if dialog.type != "beforeunload":
            words = " ".join(dialog.message.split())[:_SHORT]
            self.note(f"a dialog ({dialog.type}) said {words!r} and was answered with OK")
        with suppress(Exception):
            await dialog.accept()

    def _download(self, download: Download) -> None:
        self.note(f"a download of {download.suggested_filename[:_SHORT]!r} was refused")

    def _crash(self, _: Page) -> None:
        self.crashed = True
        self._changed.set()

    def _navigated(self, frame: Frame) -> None:
        if frame.parent_frame is None:
            self.moves += 1
            self._fetching.clear()
            self._changed.set()

    def _request(self, request: Request) -> None:
        self._fetching.add(request)

    def _finished(self, request: Request) -> None:
        self._fetching.discard(request)
        self._changed.set()

    def _failed(self, request: Request) -> None:
        self._fetching.discard(request)
        if request.is_navigation_request():
            self.moves += 1
        self._changed.set()
