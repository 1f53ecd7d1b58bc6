"""A sampler that can be paused: new requests wait, and those in progress are interrupted, or finished.

New weights are loaded during a pause. An interruptible sampler keeps what it has sampled of each answer and goes on
with it under the new weights. Others finish their answers first, and episodes go on with their next turn.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from turncredit.engines.base import Completion, Request, Samples
from turncredit.engines.wrappers import SamplerWrapper

__all__ = ["PausableSampler", "Usage"]

SETTLING_ROUNDS = 16
"""Rounds of the event loop after the last answer, in which the engine's own tasks come to their end."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a sampler did in a period."""

    seconds: float
    """Length of the period."""
    idle: float
    """Seconds without any request in progress."""
    requests: float
    """Mean number of requests in progress."""


class PausableSampler(SamplerWrapper):
    """Passes requests on to a sampler, unless it is paused. It belongs to one event loop; a fresh one is paused.

    Args:
        inner: sampler that answers the requests; it is not closed.
    """

    def __init__(self, inner: Samples) -> None:
        """Keep the sampler."""
        super().__init__(inner)
        self._running = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._in_progress = 0
        self._interrupted = False
        self._since = self._changed = time.perf_counter()
        self._idle = self._area = 0.0

    async def sample(self, request: Request) -> Completion:
        """Return the sampler's answer, after the end of a pause."""
        while not self._running.is_set():  # it may be paused again before this goes on
            await self._running.wait()
        self._count(1)
        try:
            return await self.inner.sample(request)
        finally:
            self._count(-1)

    def close(self) -> None:
        """Do nothing: the sampler is closed where it was made."""

    async def pause(self) -> None:
        """Let new requests wait, and return when those in progress are interrupted or answered."""
        self._running.clear()
        if self.interruptible:
            self._measure()
            self._interrupted = True
            await self.interrupt()
        else:
            await self._quiet.wait()
        for _ in range(SETTLING_ROUNDS):
            await asyncio.sleep(0)

    async def resume(self) -> None:
        """Go on with interrupted requests, and let waiting ones through."""
        self._measure()
        self._interrupted = False
        await self.proceed()
        self._running.set()

    def usage(self) -> Usage:
        """Return what the sampler did since the last call."""
        self._measure()
        end = self._changed
        seconds = max(end - self._since, 1e-9)
        usage = Usage(seconds, self._idle, self._area / seconds)
        self._since, self._idle, self._area = end, 0.0, 0.0
        return usage

    def leave_out(self, seconds: float) -> None:
        """Leave the last seconds of a pause out of the usage."""
        self._measure()
        self._since += seconds
        self._idle -= seconds

    def _count(self, change: int) -> None:
        self._measure()
        self._in_progress += change
        if self._in_progress:
            self._quiet.clear()
        else:
            self._quiet.set()

    def _measure(self) -> None:
        current = time.perf_counter()
        busy = 0 if self._interrupted else self._in_progress
        self._area += busy * (current - self._changed)
        self._idle += 0.0 if busy else current - self._changed
        self._changed = current
