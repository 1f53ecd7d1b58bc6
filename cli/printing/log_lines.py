"""Progress of a run in a log: one line for every iteration and every evaluation, in columns.

Everything else that an event holds is in `metrics.jsonl`. How far the work of an iteration is belongs on a terminal: a
log has no lines about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from rich.text import Text

from turncredit.cli.printing.word_wrap import wrapped
from turncredit.report.number_text import count, duration, percent

__all__ = ["WIDTH", "LogLines", "of_parts"]

WIDTH: Final = 120
"""Most characters of a line, if it has a space to be broken at."""
REPEAT: Final = 25
"""Number of rows after which the names of the columns are written again."""
STEPS: Final = 10
"""Number of lines about the steps of a warm start."""

Event = Mapping[str, Any]
"""What happened in a run, as its metrics have it."""


def _number(key: str, text: Callable[[float], str]) -> Callable[[Event], str]:
    def cell(event: Event) -> str:
        value = event.get(key)
        return text(value) if isinstance(value, int | float) else ""

    return cell


def _invalid(event: Event) -> str:
    shares = [event.get("unparsable"), event.get("inadmissible")]
    numbers = [share for share in shares if isinstance(share, int | float)]
    return percent(sum(numbers)) if numbers else ""


_COLUMNS: Final[tuple[tuple[str, int, Callable[[Event], str]], ...]] = (
    ("success", 8, _number("success", percent)),
    ("return", 8, _number("reward", lambda value: f"{value:.3f}")),
    ("turns", 6, _number("turns", lambda value: f"{value:.1f}")),
    ("tokens", 7, _number("tokens", count)),
    ("invalid", 8, _invalid),
    ("entropy", 8, _number("entropy", lambda value: f"{value:.3f}")),
    ("KL", 8, _number("old_kl", lambda value: f"{value:.4f}")),
    ("clipped", 8, _number("clip_fraction", percent)),
    ("signal", 8, _number("step_signal", percent)),
    ("seconds", 8, _number("seconds", lambda value: f"{value:.1f}")),
    ("left", 11, _number("seconds_left", duration)),
)
"""Name, width and text of each column between the iteration and the remarks."""
_REMARKS: Final = (
    ("errors", "errors", count),
    ("uncounted", "not counted", count),
    ("outgrown", "outgrown", count),
    ("skipped", "skipped", count),
    ("groups_dropped", "dropped", count),
    ("stale", "stale", percent),
    ("questions_failed", "unanswered", count),
)
"""Key of what is written in the last column if it is not zero, its name there, and the format of its number."""


class LogLines:
    """The lines of a log for the events of a run, in the order in which they come.

    Args:
        total: number of iterations of the run.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._first = max(len("iteration"), len(f"eval at {total}"))
        self._rows = 0
        self._seen = -1

    def table(self, event: Event) -> list[str]:
        """Return the row of an iteration or an evaluation, below the names of the columns where they are due."""
        if event["phase"] == "train":
            label, remarks = f"{event.get('iteration')}/{self._total}", _remarks(event)
        else:
            label, remarks = f"eval at {event.get('iteration')}", _interval(event)
        head = [self._row("iteration", [name for name, _, _ in _COLUMNS], "")] if self._rows % REPEAT == 0 else []
        self._rows += 1
        return [*head, self._row(label, [text(event) for _, _, text in _COLUMNS], remarks)]

    def step(self, event: Event) -> list[str]:
        """Return a line about a step of the warm start; none if it follows too soon on the one before."""
        step, steps = int(event["step"]), int(event["steps"])
        before = self._seen if self._seen < step else -1
        self._seen = step
        if step < steps and step * STEPS // steps == before * STEPS // steps:
            return []
        rate = f"  learning rate {event['lr']:.2g}" if "lr" in event else ""
        return [f"{'imitation':<16} step {step}/{steps}  loss {event['loss']:.4f}{rate}"]

    def paragraph(self, text: str) -> list[str]:
        """Return a text of any length as lines."""
        return wrapped(Text(text), WIDTH).plain.split("\n")

    def _row(self, label: str, cells: list[str], remarks: str) -> str:
        text = f"{label:>{self._first}}"
        for cell, (_, width, _) in zip(cells, _COLUMNS, strict=True):
            text += f" {cell:>{width - 1}}"
        return _shortened(f"{text}  {remarks}".rstrip())


def _remarks(event: Event) -> str:
    return ", ".join(
        f"{name} {text(event[key])}{of_parts(event, key, text)}" for key, name, text in _REMARKS if event.get(key)
    )


def of_parts(event: Event, key: str, text: Callable[[float], str]) -> str:
    """Return in brackets how a number is made up of those of the parts of a mixture; "" where these are not known.

    >>> of_parts({"groups_dropped": 3, "groups_dropped/a": 3, "groups_dropped/b": 0}, "groups_dropped", str)
    ' (a 3, b 0)'
    """
    parts = [f"{name.partition('/')[2]} {text(event[name])}" for name in event if name.startswith(f"{key}/")]
    return f" ({', '.join(parts)})" if parts else ""


def _interval(event: Event) -> str:
    if event.get("low") is None:
        return ""
    return f"[{100 * event['low']:.1f}, {100 * event['high']:.1f}] n={event['n']}"


def _shortened(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 4]} ..."
