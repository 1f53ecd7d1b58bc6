"""What a user gives, checked: each value that makes no sense is refused in one sentence, with the choices there are.

Every check returns the value, so that it can stand where the value is taken.

Left out on purpose: conversion. A text that reads like a number is none.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from turnwise.envs.errors import UnknownOption
from turnwise.registry import suggest

__all__ = ["choice", "flag", "integer", "number"]


def choice(what: str, value: Any, known: Collection[str]) -> str:
    """Return one of the known names.

    >>> choice("split", "trian", ("train", "held_out"))
    Traceback (most recent call last):
    turnwise.envs.errors.UnknownOption: unknown split 'trian'; did you mean 'train'?

    Raises:
        UnknownOption: it is none of them.
    """
    if not isinstance(value, str) or value not in known:
        raise UnknownOption(f"unknown {what} {value!r}{suggest(str(value), known)}")
    return value


def integer(name: str, value: Any, least: int = 0, most: int | None = None, *, of: str = "") -> int:
    """Return a whole number.

    Args:
        name: what messages call it.
        value: what was given; True is no number.
        least, most: bounds, both allowed; None for no upper one.
        of: what is counted, for messages: "characters".

    >>> whole("budget", 5, 100, of="characters")
    Traceback (most recent call last):
    turnwise.envs.errors.UnknownOption: budget is 5; it is a whole number of characters, 100 or more

    Raises:
        UnknownOption: it is none, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < least or (most is not None and value > most):
        wanted = f"a whole number of {of}" if of else "a whole number"
        bounds = f", {least:,} or more" if most is None else f" from {least:,} to {most:,}"
        raise UnknownOption(f"{name} is {value!r}; it is {wanted}{bounds}")
    return value


def number(name: str, value: Any, low: float, high: float) -> float:
    """Return a number as a float.

    Args:
        name: what messages call it.
        value: what was given; True is no number.
        low, high: bounds, both allowed.

    >>> number("seconds", 2, 0.1, 600)
    2.0

    Raises:
        UnknownOption: it is none, or out of bounds.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise UnknownOption(f"{name} is {value!r}; it is a number from {low:g} to {high:g}")
    return float(value)


def flag(name: str, value: Any) -> bool:
    """Return True or False.

    Raises:
        UnknownOption: it is neither (1 and 0 are numbers).
    """
    if not isinstance(value, bool):
        raise UnknownOption(f"{name} is {value!r}; it is True or False")
    return value
