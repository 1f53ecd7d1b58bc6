"""What a credit rule wants back at its next call, as text that a checkpoint can keep and that gives it back unchanged.

Left out on purpose: pickling, which would run code when a checkpoint is read, and objects of a rule's own classes; a
rule with memory keeps it in Python's plain types and numpy arrays.
"""

import base64
from typing import Any

import numpy as np

from turnwise.training.errors import TrainingError

_PLAIN = (str, bool, int, float, type(None))
_KIND = "kind"


def freeze(value: object) -> Any:
    """Give a value as JSON can hold it; what is changed in the value afterwards does not change it.

    >>> thaw(freeze({("a", 1): [2.5, None]}))
    {('a', 1): [2.5, None]}

    Args:
        value: None, bool, int, float, str, numpy arrays and scalars, and lists, tuples, sets and dicts of them.

    Raises:
        TrainingError: something else is in it, which a checkpoint could not give back.
    """
    if type(value) in _PLAIN:
        return value
    if type(value) is list:
        return [freeze(item) for item in value]
    if type(value) in (tuple, set, frozenset):
        assert isinstance(value, tuple | set | frozenset)
        return {_KIND: type(value).__name__, "items": [freeze(item) for item in value]}
    if type(value) is dict:
        return {_KIND: "dict", "items": [[freeze(key), freeze(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {_KIND: kind, "dtype": value.dtype.str, "shape": list(value.shape), "data": data}
    raise TrainingError(
        f"the credit rule's state holds a {type(value).__name__}, which a checkpoint cannot keep; wanted: None, bool, "
        "int, float, str, numpy arrays, and lists, tuples, sets and dicts of them"
    )


def thaw(frozen: Any) -> Any:
    """Give the value back that `freeze` was given: equal, and of the same types."""
    if isinstance(frozen, list):
        return [thaw(item) for item in frozen]
    if not isinstance(frozen, dict):
        return frozen
    kind = frozen[_KIND]
    if kind == "dict":
        return {thaw(key): thaw(item) for key, item in frozen["items"]}
    if kind in ("array", "scalar"):
        data = np.frombuffer(base64.b64decode(frozen["data"]), dtype=np.dtype(frozen["dtype"]))
        array = data.reshape(frozen["shape"]).copy()
        return array if kind == "array" else array[()]
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](thaw(item) for item in frozen["items"])
