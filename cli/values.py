"""`key=value` words of the command line as Python values.

A value is read as TOML reads it (numbers, booleans, quoted strings, lists); what is not TOML is the text itself, so
`split=held_out` needs no quotes. Nothing is evaluated.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from turnwise.cli.errors import UserError


def parse_value(text: str) -> Any:
    """What the text after the `=` means: a TOML value, else the text.

    Args:
        text: the word after the equals sign.
    """
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if "\n" in text or ("#" in text and text[:1] not in ("'", '"', "[")):  # TOML would read on, or see a comment
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse_options(words: Sequence[str] | None) -> dict[str, Any]:
    """The options of `key=value ...` in the order given.

    Raises:
        UserError: a word has no `=`, or nothing before it, or a key comes twice.
    """
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
