"""`key=value` options of the command line, and `--trust`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from turncredit.cli.errors import UserError
from turncredit.registry import trust_names

Options = dict[str, Any]
"""Options as they were typed, by name."""


def _trust(requested: bool) -> None:
    if requested:
        trust_names()


Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        callback=_trust,
        is_eager=True,
        help="Run code that the files name (module:attribute), and connect to what they name.",
    ),
]
"""The option of a command that reads files which others may have written."""


Names = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="HOST", help="Another name under which clients reach the server (repeatable)."),
]
"""Further names of this machine, for `turncredit.processes.request_guard`."""


def parse_options(words: Sequence[str] | None) -> Options:
    """Return the options of `key=value ...` in the order given; values are parsed as in a run's file.

    Raises:
        UserError: a word has no `=` or no key, or a key appears twice.
    """
    from turncredit.training.config.run import parse_value

    options: Options = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserError(f"expected an option of the form key=value, got {word!r}")
        if key in options:
            raise UserError(f"the option {key!r} is given twice")
        options[key] = parse_value(text)
    return options
