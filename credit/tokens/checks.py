"""Checks of token arrays where they come in: one shape, finite numbers, masks that are true or false."""

from typing import Any

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.steps import Bools, Floats
from turncredit.credit.tensors import plain, unboxed

Shape = tuple[int, ...]


def numbers(
    name: str, values: Any, shape: Shape | None = None, dimensions: int = 2, *, inside: Bools | None = None
) -> Floats:
    """Return an array of finite numbers, float64.

    Args:
        name: name of the argument, for messages.
        values: the argument.
        shape: the required shape; None accepts any with the right number of dimensions.
        dimensions: the required number of dimensions if `shape` is None.
        inside: bool, where the numbers are used; elsewhere they become zero.

    Raises:
        BadTable: the shape is wrong, or a value is not a finite number.
    """
    try:
        array = np.asarray(plain(values), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadTable(f"{name} must be an array of numbers: {error}") from error
    _check_shape(name, array.shape, shape, dimensions)
    if inside is not None:
        array = np.where(inside, array, 0.0)
    if not np.isfinite(array).all():
        raise BadTable(f"{name} must be finite, but {int((~np.isfinite(array)).sum())} of {array.size} numbers are not")
    return array


def flags(name: str, values: Any, shape: Shape | None = None, dimensions: int = 2) -> Bools:
    """Return a boolean array; zeros and ones are accepted.

    Args:
        name, values, shape, dimensions: see `numbers`.

    Raises:
        BadTable: the shape is wrong, or a value is not boolean.
    """
    array: npt.NDArray[Any] = unboxed(np.asarray(plain(values)))
    _check_shape(name, array.shape, shape, dimensions)
    if array.dtype != np.bool_:
        if array.dtype.kind not in "iuf" or not np.isin(array, (0, 1)).all():
            raise BadTable(f"{name} must be True or False everywhere, got dtype {array.dtype}")
        array = array.astype(np.bool_)
    return array


def _check_shape(name: str, came: Shape, shape: Shape | None, dimensions: int) -> None:
    if shape is not None and came != shape:
        raise BadTable(f"{name} must have shape {shape}, got {came}")
    if shape is None and len(came) != dimensions:
        raise BadTable(f"{name} must have {dimensions} dimensions, got shape {came}")
