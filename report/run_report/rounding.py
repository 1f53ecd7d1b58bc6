"""Numbers with few digits, as the report stores them."""

from __future__ import annotations


def rounded_number(value: float, digits: int = 4) -> float | None:
    """Return a number with few digits; None for one that is not finite, which JSON cannot hold."""
    value = float(value)
    if value != value or value in (float("inf"), float("-inf")):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) and abs(rounded) < 1e15 else rounded
