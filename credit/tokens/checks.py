"""Checks of token arrays where they come in: one shape, finite numbers, masks that are true or false."""

from typing import Any

import numpy as np
import numpy.typing as npt

from turnwise.credit.errors import BadTable
from turnwise.credit.steps import Bools, Floats
from turnwise.credit.tensors import plain, unboxed

Shape = tuple[int, ...]


def numbers(
    name: str, values: Any, shape: Shape | None = None, dimensions: int = 2, *, inside: Bools | None = None
) -> Floats:
    """Return an array of finite numbers, float64 [B, L] or as wanted.

    Args:
        name: of the argument, for the message.
        values: what came.
        shape: the shape it must have; None takes any with the right number of dimensions.
        dimensions: how many there must be, where no shape is given.
        inside: bool, where the numbers mean something; elsewhere they come back as zero, whatever they are.

    Raises:
        BadTable: another shape, no numbers, or some that are not finite.
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
    """Return an array of true and false, bool [B, L] or as wanted; zeros and ones will do.

    Args:
        name, values, shape, dimensions: see `numbers`.

    Raises:
        BadTable: another shape, or a value that is neither true nor false.
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
