"""Which engine answers an episode: the one that holds its cache, otherwise the one with the fewest episodes.

A fork begins with the prompts of its parent, so it goes to the parent's engine, also after the parent has ended, unless
that engine has over `SURPLUS` episodes more than the one with the fewest.

The state of the engines is plain data here, so that the rules can be tested without a cluster.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

__all__ = ["Changes", "Engine", "EngineState", "Routes"]

SURPLUS = 4
"""Episodes that an engine may have more than the one with the fewest, and still receives the forks of its own."""
ENDED = 4096
"""Episodes that are over, the last ones, whose engines are known for their forks."""


class EngineState(Enum):
    """What an engine does."""

    STARTING = "starting"
    """Its process starts, for the first time or again; it holds no cache."""
    READY = "ready"
    LOADING = "loading"
    """It takes no new requests, answers those that it has, and then takes new weights."""
    ENDED = "ended"
    """It failed too often, and is not started again."""


@dataclass(slots=True, eq=False)
class Engine:
    """An engine as the driver sees it."""

    number: int
    state: EngineState = EngineState.STARTING
    actor: Any = None
    loads: int = 0
    """How often the driver had sent weights when those of this engine were sent; versions may be numbered at will."""
    busy: int = 0
    """Requests that it has not answered."""
    episodes: set[str] = field(default_factory=set)
    """Episodes whose caches it holds."""
    failures: int = 0
    """How often in a row it was lost, or did not start, without an answer in between."""
    reason: str = ""
    """Why it was lost."""


class Routes:
    """The engine of each episode, and how new the weights are that the episode has seen."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self._engines = engines
        self._homes: dict[str, Engine] = {}
        self._seen: dict[str, int] = {}
        self._ended: dict[str, Engine] = {}
        self.moved = 0
        """Episodes that went on at another engine."""

    def choose(self, episode: str, parent: str = "") -> Engine | None:
        """Return the engine for a request of an episode; None: it must wait.

        An episode waits for its own engine while that loads weights, and leaves it if it is lost. It is never answered
        with older weights than it has seen.

        Args:
            episode: its id.
            parent: id of the episode that it is a fork of; empty: it is none.
        """
        home = self._homes.get(episode)
        if home is not None and home.state is EngineState.LOADING:
            return None
        least = self._seen.get(episode)
        able = [
            candidate
            for candidate in self._engines
            if candidate.state is EngineState.READY and (least is None or candidate.loads >= least)
        ]
        if home in able:
            return home
        if not able:
            return None
        engine = min(able, key=lambda candidate: (len(candidate.episodes), candidate.busy, candidate.number))
        near = self._homes.get(parent) or self._ended.get(parent)
        if near in able and len(near.episodes) <= len(engine.episodes) + SURPLUS:
            engine = near
        if home is not None:
            home.episodes.discard(episode)
            self.moved += 1
        engine.episodes.add(episode)
        self._homes[episode] = engine
        return engine

    def answered(self, episode: str, engine: Engine) -> None:
        """Note that an engine has answered, unless the episode was forgotten meanwhile."""
        if self._homes.get(episode) is engine:
            self._seen[episode] = engine.loads

    def forget(self, episode: str) -> Engine | None:
        """Drop an episode that is over, and return the engine that may hold its cache."""
        self._seen.pop(episode, None)
        home = self._homes.pop(episode, None)
        if home is not None:
            home.episodes.discard(episode)
            self._ended[episode] = home
            if len(self._ended) > ENDED:
                del self._ended[next(iter(self._ended))]
        return home

    def lost(self, engine: Engine) -> None:
        """Note that an engine has lost its caches; its episodes keep what they have seen."""
        for episode in engine.episodes:
            del self._homes[episode]
        self.moved += len(engine.episodes)
        engine.episodes.clear()
        self._ended = {episode: home for episode, home in self._ended.items() if home is not engine}


class Changes:
    """Tasks of one event loop that wait for conditions, in the order in which they came.

    A change looks at every condition once and wakes those for whom it holds, so that thousands may wait.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[], bool], asyncio.Future[None]]] = deque()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; every change that it may depend on is followed by `notify`."""
        while not condition():  # again after waking, since another task may have run before this one
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((condition, woken))
            await woken

    def notify(self) -> None:
        """Wake those whose condition holds now, the first that came first."""
        waiting, self._waiting = self._waiting, deque()
        for condition, woken in waiting:
            if woken.done():  # who waited was cancelled
                continue
            if condition():
                woken.set_result(None)
            else:
                self._waiting.append((condition, woken))
