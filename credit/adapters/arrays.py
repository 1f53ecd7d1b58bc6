"""Conversion of tensors, arrays and lists to numpy arrays, with errors that name the argument."""

from typing import Any

import numpy as np

from turncredit.credit.errors import BadTable
from turncredit.credit.steps import Bools, Floats
from turncredit.credit.tensors import plain
from turncredit.credit.tokens.checks import flags, numbers


def mask_of(name: str, value: Any, *, rows: int | None = None) -> Bools:
    """Return a mask of tokens, bool [B, L].

    Args:
        name: name of the argument, for messages.
        value: booleans, or zeros and ones.
        rows: the required B.

    Raises:
        BadTable: the shape or a value is wrong.
    """
    array = flags(name, value)
    if rows is not None and len(array) != rows:
        raise BadTable(f"{name} must have {rows} rows like the others, got {len(array)}")
    return array


def numbers_of(name: str, value: Any, shape: tuple[int, ...], *, inside: Bools | None = None) -> Floats:
    """Return finite numbers of a shape, float64.

    Args:
        name, value: see `mask_of`.
        shape: the required shape.
        inside: where the numbers are used; elsewhere they become zero.

    Raises:
        BadTable: the shape is wrong, or a value is not a finite number.
    """
    return numbers(name, value, shape, inside=inside)


def column_of(name: str, value: Any, rows: int) -> Any:
    """Return a column with one value per row, as an array or a list.

    Args:
        name, value: see `mask_of`.
        rows: the required number of rows.

    Raises:
        BadTable: the number of values is wrong, or `value` is not a sequence.
    """
    column = plain(value)
    if isinstance(column, str | bytes | dict) or not hasattr(column, "__len__"):
        raise BadTable(f"{name} must have one value per row, got {type(value).__name__}")
    if len(column) != rows:
        raise BadTable(f"{name} must have {rows} values, one per row, got {len(column)}")
    return column if isinstance(column, np.ndarray) else list(column)
