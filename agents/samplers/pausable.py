"""A sampler that can be paused: new requests wait, and those in progress are interrupted, or finished.

New weights are loaded during a pause. An `Interruptible` sampler keeps what it has sampled of each answer and goes on
with it under the new weights. Others finish their answers first, and episodes go on with their next turn.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from turnwise.agents.models.tokenization import Tokenizer
from turnwise.agents.samplers.base import Completion, Interruptible, Request, Sampler

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


class PausableSampler:
    """Passes requests on to a sampler, unless it is paused. It belongs to one event loop; a fresh one is paused.

    Args:
        sampler: answers the requests; it is not closed.
    """

    def __init__(self, sampler: Sampler) -> None:
        """Keep the sampler."""
        self.sampler = sampler
        self._running = asyncio.Event()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._in_progress = 0
        self._interrupted = False
        self._since = self._changed = time.perf_counter()
        self._idle = self._area = 0.0

    @property
    def version(self) -> int:
        """Version of the weights in use."""
        return self.sampler.version

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The sampler's tokenizer."""
        return self.sampler.tokenizer

    @property
    def context(self) -> int | None:
        """Most tokens of prompt plus response."""
        return self.sampler.context

    @property
    def images(self) -> bool:
        """Whether the sampler can use images."""
        return bool(getattr(self.sampler, "images", False))

    async def sample(self, request: Request) -> Completion:
        """Return the sampler's answer, after the end of a pause."""
        while not self._running.is_set():  # it may be paused again before this goes on
            await self._running.wait()
        self._count(1)
        try:
            return await self.sampler.sample(request)
        finally:
            self._count(-1)

    def forget(self, episode: str) -> None:
        """Drop what is kept for an episode that is over."""
        self.sampler.forget(episode)

    async def load(self, weights: Any, version: int) -> None:
        """Load new weights; the sampler should be paused."""
        await self.sampler.load(weights, version)

    def close(self) -> None:
        """Do nothing: the sampler is closed where it was made."""

    async def pause(self) -> None:
        """Let new requests wait, and return when those in progress are interrupted or answered."""
        self._running.clear()
        if isinstance(self.sampler, Interruptible):
            self._measure()
            self._interrupted = True
            await self.sampler.interrupt()
        else:
            await self._quiet.wait()
        for _ in range(SETTLING_ROUNDS):
            await asyncio.sleep(0)

    async def resume(self) -> None:
        """Go on with interrupted requests, and let waiting ones through."""
        if isinstance(self.sampler, Interruptible):
            self._measure()
            self._interrupted = False
            await self.sampler.proceed()
        self._running.set()

    def usage(self) -> Usage:
        """Return what the sampler did since the last call."""
        self._measure()
        now = self._changed
        seconds = max(now - self._since, 1e-9)
        usage = Usage(seconds, self._idle, self._area / seconds)
        self._since, self._idle, self._area = now, 0.0, 0.0
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
        now = time.perf_counter()
        busy = 0 if self._interrupted else self._in_progress
        self._area += busy * (now - self._changed)
        self._idle += 0.0 if busy else now - self._changed
        self._changed = now
