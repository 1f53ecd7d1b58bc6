"""Events of a run: written to the metrics and passed to a listener, such as the progress display."""

from collections.abc import Callable
from dataclasses import dataclass

from turncredit.agents.trajectory import Trajectory
from turncredit.tools.visible_text import escaped
from turncredit.training.run_folder.metrics import Event, MetricsWriter

OnEvent = Callable[[Event], None]


class Reporter:
    """Writes events to the metrics and passes them to a listener; what begins and progress ticks go to the
    listener alone.

    Args:
        metrics: writes the events.
        on_event: the listener; None for none.

    Attributes:
        iteration: number of the iteration in progress, to which notes belong; 0 before the first one.
    """

    def __init__(self, metrics: MetricsWriter, on_event: OnEvent | None) -> None:
        self.metrics = metrics
        self.iteration = 0
        self._listener = on_event

    def event(self, phase: str, iteration: int, **values: object) -> None:
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

    def note(self, text: str) -> None:
        """Write a note on the iteration in progress, as an event."""
        self.event("note", self.iteration, text=text)

    def tick(self, activity: str, done: int, total: int, **more: object) -> None:
        """Tell the listener how much of something is done."""
        if self._listener is not None:
            self._listener({"phase": "tick", "what": activity, "done": done, "total": total, **more})

    def begin(self, step: str, *, waits: bool = False) -> None:
        """Tell the listener what begins now, such as "loading the model"; nothing is heard until its end.

        Args:
            step: what begins.
            waits: whether it is done when another process has done something.
        """
        if self._listener is not None:
            self._listener({"phase": "begin", "text": escaped(step), "waits": waits})

    def counting(self, activity: str, total: int, done: int = 0) -> "EpisodeCount":
        """Return a callback that counts finished episodes out of `total`, of which some are done already."""
        count = EpisodeCount(self, activity, total, done)
        count.show()
        return count


@dataclass(slots=True)
class EpisodeCount:
    """Counts finished episodes, out of a total that grows where more are played than were expected.

    Attributes:
        report: receives ticks.
        activity: what is counted.
        total: episodes that are expected.
        done: those of them that are finished.
    """

    report: Reporter
    activity: str
    total: int
    done: int = 0

    def __call__(self, _: Trajectory) -> None:
        """Count a finished episode."""
        self.done += 1
        self.total = max(self.total, self.done)
        self.show()

    def expect(self, episodes: int) -> None:
        """Expect more episodes than before."""
        self.total += episodes
        if episodes:
            self.show()

    def show(self) -> None:
        """Send a tick."""
        self.report.tick(self.activity, self.done, self.total)
