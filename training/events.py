"""Events of a run: written to the metrics and passed to a listener, such as the progress display."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from turnwise.agents.trajectory import Trajectory
from turnwise.tools.visible_text import escaped
from turnwise.training.run_folder.metrics import MetricsWriter

Event = dict[str, Any]
OnEvent = Callable[[Event], None]


class Reporter:
    """Writes events to the metrics and passes them to a listener; progress ticks go to the listener alone."""

    def __init__(self, metrics: MetricsWriter, on_event: OnEvent | None) -> None:
        self.metrics = metrics
        self._listener = on_event

    def event(self, phase: str, iteration: int, **values: Any) -> None:
        """Write an event and pass it to the listener; what no terminal should obey in a text is escaped.

        Raises:
            StoreError: the folder of the metrics was deleted or moved.
            OSError: the metrics cannot be written.
        """
        if self.metrics.renew():
            self.event("warning", iteration, text="metrics.jsonl was removed; the events before this one are lost")
        texts = {key: escaped(value) for key, value in values.items() if isinstance(value, str)}
        event = {"phase": phase, "iteration": iteration, **values, **texts}
        self.metrics.write(event)
        if self._listener is not None:
            self._listener(event)

    def tick(self, what: str, done: int, total: int, **more: Any) -> None:
        """Tell the listener how much of something is done."""
        if self._listener is not None:
            self._listener({"phase": "tick", "what": what, "done": done, "total": total, **more})

    def counting(self, what: str, total: int) -> Callable[[Trajectory], None]:
        """Return a callback that counts finished episodes out of `total`."""
        done = 0

        def finished(_: Trajectory) -> None:
            nonlocal done
            done += 1
            self.tick(what, done, total)

        return finished


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C, and the signals that do the same, until the block is done; a second one interrupts at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed = 0

    def hold(_: int, __: object) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    same = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    held = [signal.SIGINT, *(one for one in same if signal.getsignal(one) is before)]
    for one in held:
        signal.signal(one, hold)
    try:
        yield
    finally:
        for one in held:
            signal.signal(one, before)
    if pressed:
        raise KeyboardInterrupt
