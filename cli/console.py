"""Output: consoles for standard output and standard error, and how numbers are written.

Without a terminal nothing is coloured and no line is wrapped, so the output of every command can be piped. Consoles are
created on each use, so that tests can replace the streams.
"""

from __future__ import annotations

import os
import sys

from rich.console import Console

_PIPE_WIDTH = 200


def piped(*, stderr: bool = False) -> bool:
    """Return whether a stream is not a terminal, and neither a width nor colours were requested."""
    stream = sys.stderr if stderr else sys.stdout
    return (
        not (stream is not None and stream.isatty()) and "COLUMNS" not in os.environ and "FORCE_COLOR" not in os.environ
    )


class _PipeConsole(Console):
    """A console that leaves it to the command what a closed pipe means; rich would exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError("standard output was closed")


def _make(*, stderr: bool) -> Console:
    width = _PIPE_WIDTH if piped(stderr=stderr) else None
    return _PipeConsole(stderr=stderr, markup=False, highlight=False, width=width)


def out() -> Console:
    """Return the console on standard output, without markup, so that brackets in a game's text are kept."""
    return _make(stderr=False)


def err() -> Console:
    """Return the console on standard error."""
    return _make(stderr=True)


def say(text: str = "", style: str = "") -> None:
    """Print a line on standard output, unwrapped."""
    out().print(text, style=style or None, soft_wrap=True)


def warn(text: str) -> None:
    """Print a line on standard error."""
    err().print(text, style="yellow", soft_wrap=True)


def discard_output() -> None:
    """Write standard output to nowhere from now on, since its reader closed the pipe (`turnwise show | head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def percent(share: float) -> str:
    """Return a share in [0, 1] as a percentage: `12.5 %`."""
    return f"{100 * share:.1f} %"


def duration(seconds: float) -> str:
    """Return a time in seconds in readable form: `42 s`, `3 min 05 s`, `2 h 10 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def memory(size: float) -> str:
    """Return bytes in readable form: `350 MiB`, `12.3 GiB`."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def count(number: float) -> str:
    """Return a rate or an amount with few digits: `950`, `12.3k`, `4.5M`."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(number) >= size:
            return f"{number / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{number:.0f}"
