"""Tensors of any framework as numpy arrays."""

from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return a tensor as a numpy array, and any other value unchanged.

    Args:
        value: a tensor, an array, a list, ...
    """
    if not (hasattr(value, "detach") and hasattr(value, "cpu")):
        return value
    tensor = value.detach().cpu()
    try:
        return tensor.numpy()
    except TypeError:  # such as bfloat16, which numpy does not have
        return tensor.float().numpy()


def unboxed(array: Any) -> Any:
    """Return an array of objects that are all bool or all int with that dtype, and other arrays unchanged.

    Some trainers store non-tensor columns as `np.array([True, False], dtype=object)`.

    Args:
        array: a numpy array.
    """
    if array.dtype != np.object_ or not array.size:
        return array
    kinds = {type(item) for item in array.ravel().tolist()}
    if kinds <= {bool, np.bool_}:
        return array.astype(np.bool_)
    if all(issubclass(kind, int | np.integer) for kind in kinds) and bool not in kinds:
        most = np.iinfo(np.int64)
        fits = all(most.min <= item <= most.max for item in array.ravel().tolist())
        return array.astype(np.int64) if fits else array
    return array
