"""`key=value` words of the command line as Python values.

Values are read as those of a run's file are (`turnwise.training.config.parse_value`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnwise.cli.errors import UserError


def parse_options(words: Sequence[str] | None) -> dict[str, Any]:
    """The options of `key=value ...` in the order given.

    Raises:
        UserError: a word has no `=`, or nothing before it, or a key comes twice.
    """
    from turnwise.training.config import parse_value

    options: dict[str, Any] = {}
    for word in words or ():
        key, equals, text = word.partition("=")
        key = key.strip()
        if not equals or not key:
            raise UserError(f"Options are written key=value; {word!r} is not.")
        if key in options:
            raise UserError(f"The option {key!r} is given twice.")
        options[key] = parse_value(text)
    return options
