"""Progress of a run: a live table with the success curve on a terminal, the lines of a log elsewhere.

Only the events that the run writes to its metrics are shown, and what is being done. A line leaves out numbers that its
event lacks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from turncredit.cli.console import out
from turncredit.cli.printing.log_lines import Event, LogLines, of_parts
from turncredit.report.number_text import count, duration, memory, percent, short_duration
from turncredit.report.plots import Curve, terminal_plot

if TYPE_CHECKING:
    from turncredit.training.config.run import Run

Format = Callable[[float], str]


def _decimals(digits: int) -> Format:
    return lambda value: f"{value:.{digits}f}"


SHOWN: tuple[tuple[str, str, Format], ...] = (
    ("success", "success", percent),
    ("reward", "reward", _decimals(3)),
    ("turns", "turns", _decimals(1)),
    ("unparsable", "unparsable", percent),
    ("inadmissible", "inadmissible", percent),
    ("loops", "loops", percent),
    ("entropy", "entropy", _decimals(3)),
    ("clip_fraction", "clipped", percent),
    ("no_variance_groups", "zero-variance groups", percent),
    ("step_signal", "step signal", percent),
    ("age", "age of turns", _decimals(2)),
    ("stale", "stale turns", percent),
    ("learner_idle", "learner idle", percent),
    ("engine_idle", "engine idle", percent),
    ("rollout_tokens_per_second", "rollout tok/s", count),
    ("prompt_tokens_per_second", "prompt tok/s", count),
    ("update_tokens_per_second", "training tok/s", count),
    ("mfu", "MFU", percent),
    ("load_seconds", "loading weights", short_duration),
    ("process_memory", "memory", memory),
    ("device_memory", "device memory", memory),
    ("loss", "loss", _decimals(4)),
    ("groups_dropped", "groups dropped", count),
    ("rounds", "rounds", _decimals(2)),
    ("stored", "stored episodes", count),
    ("replayed", "replayed", count),
    ("replay_age", "their age", _decimals(1)),
    ("lessons", "lessons", count),
    ("questions", "questions", count),
    ("questions_failed", "without an answer", count),
    ("errors", "errors", count),
    ("uncounted", "not counted", count),
    ("outgrown", "outgrew the context", count),
    ("skipped", "non-finite updates", count),
)
"""Key of an event, its label, and the format of its number."""

PROBLEMS = frozenset(
    {"groups_dropped", "errors", "uncounted", "outgrown", "skipped", "stale", "questions", "questions_failed"}
)
"""Keys that are shown only when they are not zero."""

NOTES = frozenset({"note", "warning"})
"""Phases of events that carry a sentence for the user."""

WORK = frozenset({"demonstrations", "imitation", "rollout", "evaluation"})
"""What ticks count, where the speed so far tells the time that is left."""


def numbers(event: Event) -> list[tuple[str, str]]:
    """Return the numbers of an event that are shown, as (label, text), in the order of `SHOWN`."""
    values = []
    for key, label, form in SHOWN:
        value = event.get(key)
        if isinstance(value, int | float) and not (key in PROBLEMS and value == 0):
            values.append((label, form(value) + (of_parts(event, key, form) if key in PROBLEMS else "")))
        if key == "success" and (rates := _by_part(event)):
            values.append(("by part", ", ".join(f"{part} {percent(rate)}" for part, rate in rates.items())))
    return values


def _by_part(event: Event) -> dict[str, float]:
    """Return success in each part of a mixture that was played; {} for one environment."""
    rates = {key.partition("/")[2]: value for key, value in event.items() if key.startswith("success/")}
    return {part: rate for part, rate in rates.items() if rate is not None}


def parameters(event: Event) -> str:
    """Return the size of a model and, where it differs, of the part that is trained: of an adapter."""
    size, trained = event["parameters"], event.get("trained")
    text = f"{count(size)} parameters"
    return text if trained in (None, size) else f"{text}, {count(trained)} of them trained"


def line(event: Event, total: int) -> str:
    """Return an event as one line, empty if it has nothing to show.

    Args:
        event: what the run wrote.
        total: iterations of the run.
    """
    phase, at = str(event.get("phase", "")), event.get("iteration")
    if phase in NOTES:
        return f"{phase}: {event.get('text', '')}"
    if phase == "begin":
        return f"  {event['text']} ..."
    if phase == "tick":
        return "  ".join([f"  {event['what']} {event['done']}/{event['total']}", *map(" ".join, numbers(event))])
    if phase == "imitation" and "step" in event:
        return ""  # shown as ticks
    parts = [f"{label} {text}" for label, text in numbers(event)]
    if phase == "imitation" and "demonstrations" in event:
        parts = [
            f"{event['demonstrations']} demonstrations, {event['won']} won",
            f"{count(event['tokens'])} tokens",
            f"a model of {parameters(event)} and {event['vocabulary']} tokens",
        ]
    if phase == "model":
        parts = [parameters(event)]
    if "low" in event:
        parts.insert(1, f"[{percent(event['low'])}, {percent(event['high'])}] n={event['n']}")
    if event.get("seconds_left") is not None:
        parts.append(f"left {duration(event['seconds_left'])}")
    where = f"{at}/{total}" if phase == "train" else f"{phase} at {at}" if phase == "evaluation" else phase
    return f"{where:<16} {'  '.join(parts)}" if parts else ""


def start_line(run: Run, *, resume: bool) -> str:
    """Return one line that says where a run goes, what it trains on which device, its plan, and how long it will take.

    The time is estimated from earlier iterations of a run that continues; otherwise it is shown once the first
    iteration is finished.
    """
    from turncredit.training.run_folder.metrics import read_events

    policy, imitation, train = run.policy, run.imitation, run.train
    model = policy.model or f"a new model of {policy.new.layers} layers x {policy.new.hidden}"
    plan = [f"{imitation.episodes} demonstrations"] if imitation.episodes else []
    plan += [f"{train.iterations} iterations of {train.groups} tasks x {train.group_size} episodes"]
    plan += [f"evaluation on {run.evaluation.episodes} tasks"] if run.evaluation.episodes else []
    past = [event for event in read_events(run.folder / "metrics.jsonl") if event.get("phase") == "train"]
    time_left = "time estimated after the first iteration"
    if resume and past:
        recent = [event["seconds"] for event in past[-10:]]
        ahead = train.iterations - past[-1]["iteration"]  # the run may be longer than it was
        left = ahead * sum(recent) / len(recent)
        time_left = f"about {duration(left)} left"
    verb = "continuing" if resume else "training"
    return f"{verb} {run.name}: folder {run.folder}; device {policy.device}; {model}; {', '.join(plan)}; {time_left}"


class Progress:
    """Shows events as they come; a context manager. `history` keeps them all.

    On a terminal a live table is updated. Elsewhere every iteration, evaluation, note and warning is a line of a log.
    What is being done has none, but for what begins before the first iteration.
    """

    def __init__(self, title: str, total: int, *, start: str = "", console: Console | None = None) -> None:
        """Prepare the display.

        Args:
            title: the run's name.
            total: iterations of the run.
            start: printed above everything when the first event comes.
            console: where to print; standard output when None.
        """
        self.title, self.total, self.start = title, total, start
        self.console = console or out()
        self.history: list[Event] = []
        self.tick: Event = {}
        self.step = ""
        self._begun = self._work_begun = time.monotonic()
        self._done_before = 0  # when the first tick of the work came, which another process may have begun
        self._log = LogLines(total)
        self._live: Live | None = None

    def __enter__(self) -> Progress:
        """Start the live table, on a terminal."""
        if self.console.is_terminal:
            self._live = Live(console=self.console, get_renderable=self.render, refresh_per_second=4, transient=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop updating; the last table stays on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, event: Event) -> None:
        """Show one event."""
        if self.start:
            self._print(self.start)
            self.start = ""
        if event.get("phase") == "begin":
            self.step, self.tick = str(event["text"]), {}
        elif event.get("phase") == "tick":
            self.step = ""
            if event["what"] != self.tick.get("what") or event["done"] < self.tick["done"]:
                self._work_begun, self._done_before = time.monotonic(), event["done"]
            self.tick = event
        else:
            self.step = ""
            self.history.append(dict(event))
            if event.get("phase") in ("train", "evaluation"):
                self.tick = {}
        if self._live is None:
            for text in self._lines(event):
                self.console.print(text, soft_wrap=True)

    def _print(self, start: str) -> None:
        for text in [start] if self._live is not None else self._log.paragraph(start):
            self.console.print(text, style="dim", soft_wrap=True)

    def _lines(self, event: Event) -> list[str]:
        """Return the lines of a log about an event."""
        phase = event.get("phase")
        if phase in ("train", "evaluation"):
            return self._log.table(event)
        if phase == "imitation" and "step" in event:
            return self._log.step(event)
        if phase == "tick" and event["what"] != "resumed":
            return []
        text = line(event, self.total)
        return self._log.paragraph(text) if text else []

    def _tick_left(self, event: Event) -> str:
        """Return how long the work that an event counts will still take, at the speed so far."""
        if event.get("phase") != "tick" or event["what"] not in WORK or event["done"] <= self._done_before:
            return ""
        done, left = event["done"] - self._done_before, event["total"] - event["done"]
        left *= (time.monotonic() - self._work_begun) / done
        return f"  left {duration(left)}"

    def curves(self) -> list[Curve]:
        """Return success while training, and on the panel with its interval, over the iterations so far."""
        return curves_of(self.history)

    def render(self) -> RenderableType:
        """Return the live table."""
        shown = [event for event in self.history if event.get("phase") in ("train", "imitation")]
        latest: Event = shown[-1] if shown else {}
        done = int(latest.get("iteration") or 0)
        left = latest.get("seconds_left")
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(self.title, style="bold"),
            Text(f"{done}/{self.total}"),
            ProgressBar(total=max(self.total, 1), completed=done, width=24),
            Text(f"{duration(time.monotonic() - self._begun)} elapsed"),
            Text("" if left is None else f"{duration(left)} left"),
        )
        table = Table.grid(padding=(0, 2))
        cells = [Text.assemble((f"{word} ", "dim"), text) for word, text in numbers(latest)]
        columns = max(1, min(4, self.console.width // 26))
        for start in range(0, len(cells), columns):
            table.add_row(*cells[start : start + columns])
        parts: list[RenderableType] = [head, table]
        curves = self.curves()
        if any(len(curve.x) > 1 for curve in curves):
            parts.append(
                terminal_plot(curves, width=max(20, min(64, self.console.width - 12)), height=8, y_range=(0, 1))
            )
        evaluations = [event for event in self.history if event.get("phase") == "evaluation"]
        notes = [event for event in self.history if event.get("phase") in NOTES]
        parts += [Text(line(event, self.total), style="dim") for event in evaluations[-3:]]
        parts += [Text(line(event, self.total), style="yellow") for event in notes[-3:]]
        if self.tick and self.tick["done"] < self.tick["total"]:
            parts.append(Text(line(self.tick, self.total) + self._tick_left(self.tick), style="cyan"))
        if self.step:
            parts.append(Text(f"  {self.step} ...", style="cyan"))
        return Group(*parts)


def curves_of(events: Sequence[Event]) -> list[Curve]:
    """Return success over iterations: while training as a line, on the panel as points with intervals."""
    train = [e for e in events if e.get("phase") == "train" and e.get("success") is not None]
    panel = [e for e in events if e.get("phase") == "evaluation" and e.get("success") is not None]
    curves = []
    if train:
        curves.append(
            Curve(
                "success while training (new tasks, sampled)",
                tuple(float(event["iteration"]) for event in train),
                tuple(float(event["success"]) for event in train),
            )
        )
    if panel:
        ends = [(event.get("low", event["success"]), event.get("high", event["success"])) for event in panel]
        curves.append(
            Curve(
                "success on the panel of held-out tasks",
                tuple(float(event["iteration"]) for event in panel),
                tuple(float(event["success"]) for event in panel),
                tuple(float(low) for low, _ in ends),
                tuple(float(high) for _, high in ends),
                points=True,
            )
        )
    return curves
