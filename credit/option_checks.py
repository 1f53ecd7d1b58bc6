"""Checks of option values, with messages that name the option."""

from typing import Any, get_args

import numpy as np

from turncredit.credit.errors import BadOption


def check_choice(name: str, value: object, literal: object) -> None:
    """Raise BadOption unless `value` is one of the strings of a Literal type.

    Args:
        name: the option.
        value: its value.
        literal: the type.
    """
    known = get_args(literal)
    if value not in known:
        choices = ", ".join(map(repr, known))
        raise BadOption(f"{name} must be {'one of ' if len(known) > 1 else ''}{choices}, got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Raise BadOption unless `value` is True or False; 1 and 0 are refused, since they may be meant as numbers.

    Args:
        name: the option.
        value: its value.
    """
    if not isinstance(value, bool):
        raise BadOption(f"{name} must be True or False, got {value!r}")


def check_number(
    name: str, value: Any, low: float = -np.inf, high: float = np.inf, *, whole: bool = False, open_low: bool = False
) -> None:
    """Raise BadOption unless `value` is a number between `low` and `high`, both included.

    Args:
        name: the option.
        value: its value.
        low, high: the range.
        whole: require an integer.
        open_low: exclude `low` itself.
    """
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    number = isinstance(value, kinds) and not isinstance(value, bool | np.bool_)
    if number and low <= value <= high and not (open_low and value == low):
        return
    if high < np.inf:
        span = f" in {'(' if open_low else '['}{low:g}, {high:g}]"
    else:
        span = f" {'>' if open_low else '>='} {low:g}" if low > -np.inf else ""
    raise BadOption(f"{name} must be {'an integer' if whole else 'a number'}{span}, got {value!r}")
