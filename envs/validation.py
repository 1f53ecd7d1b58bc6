"""Checks of arguments: each returns the value, or raises UnknownOption with what is expected.

Nothing is converted: the string "5" is not an integer.
"""

from __future__ import annotations

from collections.abc import Collection

from turncredit.envs.errors import UnknownOption
from turncredit.registry import suggest

__all__ = ["choice", "flag", "integer", "number"]


def choice(subject: str, value: object, choices: Collection[str]) -> str:
    """Return the value if it is one of the known names.

    >>> choice("split", "trian", ("train", "held_out"))
    Traceback (most recent call last):
    turncredit.envs.errors.UnknownOption: unknown split 'trian'; did you mean 'train'?

    Raises:
        UnknownOption: it is not.
    """
    if not isinstance(value, str) or value not in choices:
        raise UnknownOption(f"unknown {subject} {value!r}{suggest(str(value), choices)}")
    return value


def integer(name: str, value: object, least: int = 0, most: int | None = None, *, of: str = "") -> int:
    """Return the value if it is an integer within bounds.

    Args:
        name: of the argument, for messages.
        value: what was given; True is not an integer.
        least, most: bounds, inclusive; most=None is unbounded.
        of: what is counted, for messages: "characters".

    >>> integer("budget", 5, 100, of="characters")
    Traceback (most recent call last):
    turncredit.envs.errors.UnknownOption: budget must be an integer >= 100 (characters), got 5

    Raises:
        UnknownOption: it is not an integer, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        bounds = f">= {least:,}" if most is None else f"from {least:,} to {most:,}"
        raise UnknownOption(f"{name} must be an integer {bounds}{f' ({of})' if of else ''}, got {value!r}")
    return value


def number(name: str, value: object, low: float, high: float) -> float:
    """Return the value as a float if it is a number within bounds.

    Args:
        name: of the argument, for messages.
        value: what was given; True is not a number.
        low, high: bounds, inclusive.

    >>> number("seconds", 2, 0.1, 600)
    2.0

    Raises:
        UnknownOption: it is not a number, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnknownOption(f"{name} must be a number from {low:g} to {high:g}, got {value!r}")
    return float(value)


def flag(name: str, value: object) -> bool:
    """Return the value if it is True or False.

    Raises:
        UnknownOption: it is neither (1 and 0 are numbers).
    """
    if not isinstance(value, bool):
        raise UnknownOption(f"{name} must be True or False, got {value!r}")
    return value
