"""A thread with its own event loop, for clients and engines that live longer than one rollout.

Each rollout runs in an event loop of its own, which ends with it. A connection pool or an engine belongs to one loop.
A sampler that has one keeps it in a `BackgroundLoop`: it is opened once, and its work is awaited from any loop.

>>> import asyncio
>>> async def double(number: int) -> int:
...     return 2 * number
>>> background = BackgroundLoop()
>>> asyncio.run(background.run(double(1))), asyncio.run(background.run(double(2)))
(2, 4)
>>> background.close()
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TypeVar

from turncredit.agents.errors import SamplerError

__all__ = ["BackgroundLoop"]

T = TypeVar("T")


class BackgroundLoop:
    """Runs coroutines on the event loop of a daemon thread, which starts with the first of them."""

    def __init__(self, name: str = "turncredit-engine") -> None:
        """Keep the name of the thread."""
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    async def run(self, work: Coroutine[object, None, T]) -> T:
        """Return the result of a coroutine that runs on the thread; its exceptions are raised here.

        If the caller is cancelled, the work is cancelled as well.

        Raises:
            SamplerError: the loop is closed.
        """
        return await asyncio.wrap_future(self._submit(work))

    def call(self, work: Coroutine[object, None, T], seconds: float | None = None) -> T:
        """Return the result of a coroutine that runs on the thread, for callers without an event loop.

        Args:
            work: the coroutine.
            seconds: how long to wait; the work is cancelled after that. None: no limit.

        Raises:
            TimeoutError: there is no result after `seconds`.
            SamplerError: the loop is closed.
        """
        future = self._submit(work)
        try:
            return future.result(seconds)
        except BaseException:  # Ctrl-C as well
            future.cancel()
            raise

    def post(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function on the thread soon, without waiting for it; nothing happens if the loop is not running."""
        with self._lock:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        """Cancel what runs, wait for it, and end the thread; a second call does nothing."""
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is None or self._thread is None:
            return
        loop.call_soon_threadsafe(loop.stop)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _submit(self, work: Coroutine[object, None, T]) -> Future[T]:
        with self._lock:
            if self._closed:
                work.close()
                raise SamplerError("the sampler is closed")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped, then cancel its tasks and close it."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
