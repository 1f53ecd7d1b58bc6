"""Containers that are started in advance, in the background; each is given out once and never comes back.

Not included: sharing between processes. After a fork, the pool is the parent's, and the child starts with an empty one.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from turncredit.tools.sandbox.errors import SandboxError
from turncredit.tools.sandbox.limits import Limits

_MOST_LIMITS: Final = 4  # sets of limits with containers in advance; the oldest one gives way
_PATIENCE: Final = 10.0  # seconds for a container that is being started when the process ends


class ContainerBox(Protocol):
    """A box in a container, as far as the pool uses it."""

    def alive(self) -> bool:
        """Return whether the container still runs."""
        ...

    def close(self) -> None:
        """Remove the container."""
        ...


B = TypeVar("B", bound=ContainerBox)


class ContainerPool(Generic[B]):
    """Boxes in containers that nobody has used.

    Args:
        make: starts a box with these limits.
    """

    def __init__(self, make: Callable[[Limits], B]) -> None:
        self._make = make
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._ready: dict[Limits, list[B]] = {}
        self._wanted: dict[Limits, int] = {}
        self._filling: dict[Limits, threading.Thread] = {}
        atexit.register(self.close)

    def take(self, limits: Limits) -> B | None:
        """Return a box that is started and alive, or None."""
        while True:
            with self._lock:
                ready = self._ready.get(limits) if self._owner == os.getpid() else None
                box = ready.pop() if ready else None
            if box is None or box.alive():
                return box
            box.close()

    def keep(self, limits: Limits, count: int) -> None:
        """Start boxes in the background until `count` with these limits are ready."""
        surplus: list[B] = []
        with self._lock:
            if self._owner != os.getpid():
                return
            self._wanted.pop(limits, None)
            self._wanted[limits] = count  # the newest one
            for oldest in list(self._wanted)[:-_MOST_LIMITS]:
                del self._wanted[oldest]
                surplus += self._ready.pop(oldest, [])
            if limits not in self._filling:
                thread = threading.Thread(target=self._fill, args=(limits,), name="turncredit-containers", daemon=True)
                self._filling[limits] = thread
                thread.start()
        _close_all(surplus)

    def wait(self) -> None:
        """Wait until no box is being started."""
        with self._lock:
            threads = list(self._filling.values())
        for thread in threads:
            thread.join(_PATIENCE)

    def close(self) -> None:
        """Remove all containers that nobody has used."""
        if self._owner != os.getpid():
            return
        with self._lock:
            self._wanted.clear()
        self.wait()
        with self._lock:
            boxes = [box for ready in self._ready.values() for box in ready]
            self._ready.clear()
        _close_all(boxes)

    def _fill(self, limits: Limits) -> None:
        box: B | None = None
        while True:
            with self._lock:
                if box is not None and limits in self._wanted:
                    self._ready.setdefault(limits, []).append(box)
                    box = None
                if box is not None or len(self._ready.get(limits, ())) >= self._wanted.get(limits, 0):
                    del self._filling[limits]
                    break
            try:
                box = self._make(limits)
            except SandboxError:  # the next box is started on demand, and raises the reason
                with self._lock:
                    self._wanted.pop(limits, None)
        _close_all([box] if box is not None else [])


def _close_all(boxes: Sequence[ContainerBox]) -> None:
    for box in boxes:
        with suppress(Exception):
            box.close()
