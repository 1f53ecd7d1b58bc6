"""Output: consoles for standard output and standard error.

Everything that a command prints goes through here. Texts of models, task files, servers and libraries may hold what a
terminal would obey: a new title, the clipboard, a cursor that moves over other lines. The consoles write it as escapes;
only their own styles reach the terminal.

On a terminal, long lines are broken at spaces (`turncredit.cli.printing.word_wrap`), and a table that is too wide
gives way without cutting a word (`turncredit.cli.printing.fitting_tables`); JSON and tracebacks stay as they are.
Without a terminal nothing is coloured and no line is wrapped, so the output of every command can be piped. Consoles are
created on each use, so that tests can replace the streams.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from turncredit.cli.printing.fitting_tables import fitted
from turncredit.cli.printing.word_wrap import wrapped
from turncredit.tools.visible_text import escaped

_PIPE_WIDTH = 200


def piped(*, stderr: bool = False) -> bool:
    """Return whether a stream is not a terminal, and neither a width nor colours were requested."""
    stream = sys.stderr if stderr else sys.stdout
    return (
        not (stream is not None and stream.isatty()) and "COLUMNS" not in os.environ and "FORCE_COLOR" not in os.environ
    )


class Verbatim:
    """A text that is printed as it is, with lines of any length."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the text and the end of its last line."""
        yield Segment(self.text)
        yield Segment.line()


class VisibleConsole(Console):
    """A console that prints control characters of texts as escapes, in tables and panels too.

    What is printed with `soft_wrap` is broken at spaces where there is a width. The console leaves it to the command
    what a closed pipe means; rich would exit.
    """

    wraps = True
    """Whether lines of texts are broken."""
    fits_tables = True
    """Whether tables are made as narrow as the console."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of something to print; those with rich's own commands to the terminal stay."""
        options = options or self.options
        if self.wraps and isinstance(renderable, Text) and options.overflow == "ignore":
            renderable = wrapped(renderable, options.max_width)
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escaped(segment.text))

    def print(self, *objects: object, **options: object) -> None:
        """Print as rich does, but for a table that is wider than the terminal."""
        if self.fits_tables and any(isinstance(thing, Table) for thing in objects):
            objects = tuple(fitted(thing, self.width) if isinstance(thing, Table) else thing for thing in objects)
            options = {"soft_wrap": True, **options}  # crops nothing
        super().print(*objects, **options)  # type: ignore[arg-type]

    def on_broken_pipe(self) -> None:
        """Raise what Python raises for a closed pipe."""
        raise BrokenPipeError("standard output was closed")


def _make(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    any_width = piped(stderr=stderr)
    width = _PIPE_WIDTH if any_width else None
    console = VisibleConsole(stderr=stderr, markup=False, emoji=False, highlight=False, width=width)
    console.fits_tables = not any_width
    console.wraps = stream is not None and stream.isatty()  # a program that reads a pipe reads lines, at any width
    return console


def out() -> Console:
    """Return the console on standard output, without markup and emoji codes, so that a game's text is kept."""
    return _make(stderr=False)


def err() -> Console:
    """Return the console on standard error."""
    return _make(stderr=True)


def say(text: str = "", style: str = "") -> None:
    """Print a text on standard output; on a terminal its lines are broken at spaces."""
    out().print(text, style=style or None, soft_wrap=True)


def control(sequence: str) -> None:
    """Write a sequence of this program's own that a terminal obeys, such as a picture, and end the line."""
    sys.stdout.write(f"{sequence}\n")
    sys.stdout.flush()


def warn(text: str) -> None:
    """Print a text on standard error, as `say` does."""
    err().print(text, style="yellow", soft_wrap=True)


def say_json(value: object, *, indent: int = 1) -> None:
    """Print a value as JSON in ASCII on standard output."""
    text = json.dumps(value, indent=indent).replace("\x7f", "\\u007f")  # the one control character that JSON leaves
    out().print(Verbatim(text), soft_wrap=True)


def complain(text: str) -> None:
    """Print an error or a warning as one sentence on standard error."""
    err().print(f"turncredit: {text}", soft_wrap=True)


def print_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback on standard error; its message may hold the text of a model."""
    err().print(Verbatim("".join(traceback.format_exception(kind, error, trace)).rstrip("\n")), soft_wrap=True)


class _VisibleRecord(logging.LogRecord):
    """A record of a log, of turncredit or any library, whose texts hold no control characters."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and self.exc_info[0] is not None:
            self.exc_text = escaped("".join(traceback.format_exception(*self.exc_info)).rstrip("\n"))

    def getMessage(self) -> str:
        return escaped(super().getMessage())


@contextmanager
def visible_logs() -> Iterator[None]:
    """In this block, write control characters as escapes in the logs of turncredit and of libraries."""
    before = logging.getLogRecordFactory()
    logging.setLogRecordFactory(_VisibleRecord)
    try:
        yield
    finally:
        logging.setLogRecordFactory(before)


def discard_output() -> None:
    """Write standard output to nowhere from now on, since its reader closed the pipe (`turncredit show | head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
