"""Ids and state keys of any kind, turned into integer codes.

Estimators compare keys for equality only, so a table stores small integers and keeps the originals beside them.
The comparison is aware of types: `1`, `1.0`, `True` and `"1"` are four keys, and an array, a list and a tuple with the
same numbers are three. Two states that merely print alike must not share a baseline, and silent merging (a 2 x 2 board
equal to its flattened list, `True` equal to `1`) is a known fault of other implementations. numpy scalars count as the
Python values that they hold.

Left out on purpose: hashes as keys. A collision would merge two states; here equal code means equal key.
"""

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from turnwise.credit.errors import BadTable
from turnwise.credit.tensors import plain

Codes = npt.NDArray[np.int64]
_PLAIN = frozenset({str, bytes, type(None)})  # these never equal a value of another type


def freeze(value: object) -> Hashable:
    """Return a hashable stand-in that is equal for two values exactly when they are the same key.

    Arrays (numpy, torch, anything with `__array__`) compare by shape, dtype and content; lists, tuples, sets and
    mappings by type and content, the latter two without regard to order; other values by type and their own equality.
    NaN equals NaN here, since a key that is not equal to itself groups nothing.

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
    """Hands out one integer code for every distinct key, in order of first appearance."""

    def __init__(self) -> None:
        """Start without any key."""
        self._codes: dict[Hashable, int] = {}
        self.names: list[object] = []

    def encode(self, values: Iterable[object]) -> Codes:
        """Return the codes of `values`, int64 [N]; keys that are new get the next free codes.

        Args:
            values: ids or keys, any hashable or array-like. An array with a plain number or text dtype is coded as its
                Python values, faster than value by value.

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
