"""Tensors of any framework, arrays and lists as numpy arrays, with errors that name the argument."""

from typing import Any

import numpy as np

from turnwise.credit.errors import BadTable
from turnwise.credit.steps import Bools, Floats
from turnwise.credit.tensors import plain
from turnwise.credit.tokens.checks import flags, numbers


def mask_of(name: str, value: Any, *, rows: int | None = None) -> Bools:
    """Return a mask of tokens, bool [B, L].

    Args:
        name: of the argument, for the message.
        value: what came: booleans, or zeros and ones.
        rows: the B it must have.

    Raises:
        BadTable: it has another shape, or other values.
    """
    array = flags(name, value)
    if rows is not None and len(array) != rows:
        raise BadTable(f"{name} must have {rows} rows like the others, got {len(array)}")
    return array


def numbers_of(name: str, value: Any, shape: tuple[int, ...], *, inside: Bools | None = None) -> Floats:
    """Return finite numbers of a shape, float64.

    Args:
        name, value: see `mask_of`.
        shape: the shape it must have.
        inside: where they mean something; elsewhere they are zero.

    Raises:
        BadTable: another shape, no numbers, or some that are not finite.
    """
    return numbers(name, value, shape, inside=inside)


def column_of(name: str, value: Any, rows: int) -> Any:
    """Return a column with one value a row: an array, or a list for values of any kind.

    Args:
        name, value: see `mask_of`.
        rows: how many there must be.

    Raises:
        BadTable: there are more or fewer, or it is no sequence.
    """
    column = plain(value)
    if isinstance(column, str | bytes | dict) or not hasattr(column, "__len__"):
        raise BadTable(f"{name} must have one value per row, got {type(value).__name__}")
    if len(column) != rows:
        raise BadTable(f"{name} must have {rows} values, one per row, got {len(column)}")
    return column if isinstance(column, np.ndarray) else list(column)
