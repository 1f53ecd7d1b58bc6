"""How a run goes, while it goes: a live table with the curve of success in a terminal, plain lines elsewhere.

It reads the events that a run writes into its metrics, and nothing else: whatever is shown here is in the file as well.
An event without a number that is shown leaves that number out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from turnwise.cli.console import count, duration, out, percent
from turnwise.cli.plots import Curve, terminal_plot

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
    ("step_signal", "step signal", percent),
    ("rollout_tokens_per_second", "rollout tok/s", count),
    ("update_tokens_per_second", "training tok/s", count),
    ("loss", "loss", _decimals(4)),
    ("errors", "errors", count),
    ("outgrown", "outgrew the context", count),
    ("skipped", "updates not finite", count),
)
"""Key of an event, the word for it, and how its number is written."""

TROUBLE = frozenset({"errors", "outgrown", "skipped"})
"""Keys that are shown only when there is some."""

QUIET = 20.0
"""Seconds after which, off a terminal, a long piece of work says how far it is."""


def numbers(event: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The numbers of an event that are shown, as (word, text), in the order of `SHOWN`; no trouble is not shown."""
    found = []
    for key, word, form in SHOWN:
        value = event.get(key)
        if isinstance(value, int | float) and not (key in TROUBLE and value == 0):
            found.append((word, form(value)))
    return found


def line(event: Mapping[str, Any], total: int) -> str:
    """One event as one line; empty when there is nothing in it to show.

    Args:
        event: what the run wrote.
        total: iterations of the run.
    """
    phase, at = str(event.get("phase", "")), event.get("iteration")
    if phase == "note":
        return f"note: {event.get('text', '')}"
    if phase == "tick":
        return "  ".join([f"  {event['what']} {event['done']}/{event['total']}", *map(" ".join, numbers(event))])
    if phase == "imitation" and "step" in event:
        return ""  # the ticks say it
    parts = [f"{word} {text}" for word, text in numbers(event)]
    if phase == "imitation" and "demonstrations" in event:
        parts = [
            f"{event['demonstrations']} demonstrations, {event['won']} won",
            f"{count(event['tokens'])} tokens",
            f"a model of {count(event['parameters'])} parameters and {event['vocabulary']} tokens",
        ]
    if "low" in event:
        parts.insert(1, f"[{percent(event['low'])}, {percent(event['high'])}] n={event['n']}")
    if event.get("seconds_left") is not None:
        parts.append(f"left {duration(event['seconds_left'])}")
    where = f"{at}/{total}" if phase == "train" else f"{phase} at {at}" if phase == "evaluation" else phase
    return f"{where:<16} {'  '.join(parts)}" if parts else ""


class Progress:
    """Shows events as they come; a context manager. `history` keeps them all."""

    def __init__(self, title: str, total: int, *, console: Console | None = None) -> None:
        """Begin.

        Args:
            title: the run's name.
            total: iterations of the run.
            console: where to show; standard output when None.
        """
        self.title, self.total = title, total
        self.console = console or out()
        self.history: list[dict[str, Any]] = []
        self.tick: Mapping[str, Any] = {}
        self._begun = self._spoke = time.monotonic()
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
        """Leave the last table on the screen."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, event: Mapping[str, Any]) -> None:
        """Take one event in."""
        if event.get("phase") == "tick":
            self.tick = event
            if self._live is not None or time.monotonic() - self._spoke < QUIET:
                return
        else:
            self.history.append(dict(event))
        if self._live is None and (text := line(event, self.total)):
            self._spoke = time.monotonic()
            self.console.print(text, soft_wrap=True)

    def curves(self) -> list[Curve]:
        """Success while training, and on the panel with its interval, over the iterations seen so far."""
        return curves_of(self.history)

    def render(self) -> RenderableType:
        """The live table as it is now."""
        shown = [event for event in self.history if event.get("phase") in ("train", "imitation")]
        latest: Mapping[str, Any] = shown[-1] if shown else {}
        done = int(latest.get("iteration") or 0)
        left = latest.get("seconds_left")
        head = Table.grid(padding=(0, 2))
        head.add_row(
            Text(self.title, style="bold"),
            Text(f"{done}/{self.total}"),
            ProgressBar(total=max(self.total, 1), completed=done, width=24),
            Text(f"{duration(time.monotonic() - self._begun)} gone"),
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
        others = [event for event in self.history if event.get("phase") in ("evaluation", "note")]
        parts += [Text(line(event, self.total), style="dim") for event in others[-3:]]
        if self.tick and self.tick["done"] < self.tick["total"]:
            parts.append(Text(line(self.tick, self.total), style="cyan"))
        return Group(*parts)


def curves_of(events: list[dict[str, Any]]) -> list[Curve]:
    """Success over iterations: while training as a line, on the panel as points with intervals where they are known."""
    train = [e for e in events if e.get("phase") == "train" and e.get("success") is not None]
    panel = [e for e in events if e.get("phase") == "evaluation" and e.get("success") is not None]
    found = []
    if train:
        found.append(
            Curve(
                "success while training (new tasks, sampled)",
                tuple(float(event["iteration"]) for event in train),
                tuple(float(event["success"]) for event in train),
            )
        )
    if panel:
        ends = [(event.get("low", event["success"]), event.get("high", event["success"])) for event in panel]
        found.append(
            Curve(
                "success on the panel of held-out tasks",
                tuple(float(event["iteration"]) for event in panel),
                tuple(float(event["success"]) for event in panel),
                tuple(float(low) for low, _ in ends),
                tuple(float(high) for _, high in ends),
                points=True,
            )
        )
    return found
