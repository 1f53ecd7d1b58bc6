"""What the unusual methods of credit.json share: an estimator by name, and rows of unequal lengths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt


def entry_of(name: str) -> Any:
    """Return the registry's entry of an estimator of ours."""
    from turnwise.credit import rules

    return rules()[name]


def ragged(values: npt.NDArray[Any], lengths: list[int]) -> list[list[float]]:
    """Return values in a row as lists of the given lengths."""
    out, begin = [], 0
    for length in lengths:
        out.append([float(value) for value in values[begin : begin + length]])
        begin += length
    return out
