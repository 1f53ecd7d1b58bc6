"""The numbers and columns that environments and samplers report of a turn: none that credit would refuse later.

A value that is found out when an iteration is complete costs the iteration; here it costs one episode.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache

from turncredit.agents.trajectory import Extra

__all__ = ["FILLED", "check_columns", "check_number"]

FILLED = ("task", "trajectory", "turn", "reward", "state", "action", "next_state", "valid", "tokens")
"""Columns that every turn has by itself."""


def check_number(name: str, value: float) -> None:
    """Refuse a number that is not finite, or so large that sums of it would not be.

    Raises:
        ValueError: it is refused.
    """
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}")
    if abs(value) > _largest():
        raise ValueError(f"{name} must be at most {_largest():g} in size, got {value:g}")


@cache
def _largest() -> float:
    from turncredit.credit.columns import LARGEST  # credit is imported when the first episode is played

    return LARGEST


def check_columns(extras: dict[str, Extra]) -> dict[str, Extra]:
    """Return the extra columns of a turn, if a table of turns can hold them.

    Raises:
        ValueError: a name is nearly that of a column, or one that every turn has; or a value does not fit its column.
    """
    if extras:
        from turncredit.credit.columns import COLUMNS, converted

        _check_names(tuple(extras))
        for name, value in extras.items():
            column = COLUMNS.get(name)
            if column is not None and column.kind == "number" and isinstance(value, int | float):
                check_number(f"extras[{name!r}]", value)
            elif column is not None and column.kind != "key":
                converted(name, [value])
    return extras


@lru_cache(maxsize=256)
def _check_names(names: tuple[str, ...]) -> None:
    from turncredit.credit.columns import check_spelling

    for name in names:
        if name in FILLED:
            raise ValueError(f'info["extras"] must not contain {name!r}, which every turn has already')
    check_spelling((*FILLED, "logprob", *names))
