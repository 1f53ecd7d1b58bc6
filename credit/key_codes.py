"""Integer codes for ids and state keys of any kind.

Rules compare keys for equality only. The comparison includes types: `1`, `1.0`, `True` and `"1"` are four keys, and an
array, a list and a tuple with the same numbers are three, so that states which merely print alike do not share a
baseline. numpy scalars count as the Python values that they hold.
"""

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.tensors import plain

Codes = npt.NDArray[np.int64]
_PLAIN = frozenset({str, bytes, type(None)})  # never equal to a value of another type


def freeze(value: object) -> Hashable:
    """Return a hashable object that is equal for two values if and only if they are the same key.

    Arrays (numpy, torch, anything with `__array__`) compare by shape, dtype and content; lists, tuples, sets and
    mappings by type and content, the latter two regardless of order; other values by type and equality. NaN equals NaN.

    Args:
        value: an id or a key.

    Raises:
        BadTable: the value is neither hashable nor array-like, or contains itself.
    """
    if type(value) in _PLAIN:
        return value
    try:
        return _freeze(value)
    except (TypeError, RecursionError) as error:
        raise BadTable(
            f"a key must be hashable or array-like, got {type(value).__name__} ({_short(value)}): {error}"
        ) from error


def _freeze(value: object) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufcSU":
        return _freeze(value.item())
    if isinstance(value, list | tuple):
        return (kind, tuple(_freeze(item) for item in value))
    if isinstance(value, Mapping):
        return (dict, frozenset((_freeze(key), _freeze(item)) for key, item in value.items()))
    if isinstance(value, set | frozenset):
        return (frozenset, frozenset(_freeze(item) for item in value))
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return _freeze_array(np.asarray(plain(value)))
    if value != value:  # NaN
        return (kind, "not equal to itself")
    hash(value)
    return (kind, value)


def _freeze_array(array: npt.NDArray[np.generic]) -> Hashable:
    content: Hashable = (
        tuple(_freeze(item) for item in array.ravel().tolist()) if array.dtype.hasobject else array.tobytes()
    )
    return (np.ndarray, array.shape, array.dtype.str, content)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:
        return "which cannot be printed"
    return text if len(text) <= 60 else text[:57] + "..."


class Coder:
    """Assigns an integer code to every distinct key, in order of first appearance."""

    def __init__(self) -> None:
        """Create an encoder without keys."""
        self._codes: dict[Hashable, int] = {}
        self.names: list[object] = []

    def encode(self, values: Iterable[object]) -> Codes:
        """Return the codes of `values`, int64 [N]; new keys get the next free codes.

        Args:
            values: ids or keys, any hashable or array-like. Arrays of numbers or strings are encoded without a Python
                loop.

        Raises:
            BadTable: a value is neither hashable nor array-like.
        """
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "biuSU":
            distinct, first, inverse = np.unique(values, return_index=True, return_inverse=True)
            appearance = np.argsort(first)
            codes = np.empty(len(distinct), dtype=np.int64)
            codes[appearance] = self._encode(distinct[appearance].tolist())
            return codes[inverse.reshape(-1)]
        if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "fc":
            values = values.tolist()
        return self._encode(values)

    def _encode(self, values: Iterable[object]) -> Codes:
        codes, names = self._codes, self.names
        out: list[int] = []
        for value in values:
            key = freeze(value)
            code = codes.get(key)
            if code is None:
                code = codes[key] = len(names)
                names.append(value)
            out.append(code)
        return np.asarray(out, dtype=np.int64)
