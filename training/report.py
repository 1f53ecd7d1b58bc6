"""What a run says while it goes on: events into the metrics and to a listener, ticks to the listener alone.

Left out on purpose: how it looks; that is the command line's.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from turnwise.agents.trajectory import Trajectory
from turnwise.training.metrics import MetricsWriter

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


class Reporter:
    """Hands events on."""

    def __init__(self, metrics: MetricsWriter, on_event: OnEvent | None) -> None:
        """Keep where events are written, and who listens."""
        self.metrics = metrics
        self._listener = on_event

    def event(self, phase: str, iteration: int, **values: Any) -> None:
        """Write an event and tell the listener."""
        event = {"phase": phase, "iteration": iteration, **values}
        self.metrics.write(event)
        if self._listener is not None:
            self._listener(event)

    def tick(self, what: str, done: int, total: int, **more: Any) -> None:
        """Tell the listener how far something is."""
        if self._listener is not None:
            self._listener({"phase": "tick", "what": what, "done": done, "total": total, **more})

    def counting(self, what: str, total: int) -> Callable[[Trajectory], None]:
        """Give the function that is called with every finished episode of `total`."""
        done = 0

        def finished(_: Trajectory) -> None:
            nonlocal done
            done += 1
            self.tick(what, done, total)

        return finished


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold Ctrl-C back until the block is done; a second one gets through."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def hold(_: int, __: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
