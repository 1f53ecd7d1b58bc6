"""The state of a credit rule as JSON, so that a checkpoint can keep it, and back to the same values and types.

Pickle is avoided because it runs code when a checkpoint is read. A rule therefore keeps its state in Python's basic
types and numpy arrays.
"""

import base64
from typing import Any

import numpy as np

from turncredit.training.errors import TrainingError

_BASIC = (str, bool, int, float, type(None))
_KIND = "kind"


def to_json(value: object) -> Any:
    """Return a value as JSON can hold it; later changes of the value do not affect the result.

    >>> from_json(to_json({("a", 1): [2.5, None]}))
    {('a', 1): [2.5, None]}

    Args:
        value: None, bool, int, float, str, numpy arrays and scalars, and lists, tuples, sets and dicts of them.

    Raises:
        TrainingError: the value contains anything else, which a checkpoint could not restore.
    """
    if type(value) in _BASIC:
        return value
    if type(value) is list:
        return [to_json(item) for item in value]
    if type(value) in (tuple, set, frozenset):
        assert isinstance(value, tuple | set | frozenset)
        return {_KIND: type(value).__name__, "items": [to_json(item) for item in value]}
    if type(value) is dict:
        return {_KIND: "dict", "items": [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return {_KIND: kind, "dtype": value.dtype.str, "shape": list(value.shape), "data": data}
    raise TrainingError(
        f"a checkpoint cannot keep the credit rule's state, because it contains a {type(value).__name__}; use None, "
        "bool, int, float, str, numpy arrays, and lists, tuples, sets and dicts of them"
    )


def from_json(frozen: Any) -> Any:
    """Return the value that `to_json` was given."""
    if isinstance(frozen, list):
        return [from_json(item) for item in frozen]
    if not isinstance(frozen, dict):
        return frozen
    kind = frozen[_KIND]
    if kind == "dict":
        return {from_json(key): from_json(item) for key, item in frozen["items"]}
    if kind in ("array", "scalar"):
        data = np.frombuffer(base64.b64decode(frozen["data"]), dtype=np.dtype(frozen["dtype"]))
        array = data.reshape(frozen["shape"]).copy()
        return array if kind == "array" else array[()]
    return {"tuple": tuple, "set": set, "frozenset": frozenset}[kind](from_json(item) for item in frozen["items"])
