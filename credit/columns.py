"""The columns of a table of turns: what each one means, and how its values are converted and checked."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import BadTable
from turncredit.credit.tensors import plain, unboxed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Kind = Literal["key", "integer", "flag", "number", "numbers"]


class Column(NamedTuple):
    """A column with a fixed meaning.

    Attributes:
        kind: "key" (any hashable or array-like value, stored as an integer code), "integer", "flag" (bool), "number"
            (float), or "numbers" (one or more floats per row).
        meaning: what it holds, for messages and documentation.
    """

    kind: Kind
    meaning: str


REQUIRED = ("task", "trajectory", "turn", "reward")
COLUMNS = {
    "task": Column("key", "id of the task instance"),
    "trajectory": Column("key", "id of the episode"),
    "turn": Column("integer", "position in time"),
    "reward": Column("number", "reward of the turn"),
    "state": Column("key", "key of the state in which the agent acted"),
    "action": Column("key", "key of the action"),
    "next_state": Column("key", "key of the state that followed"),
    "valid": Column("flag", "False where the action could not be parsed or was not admissible"),
    "tokens": Column("integer", "number of trained tokens"),
    "role": Column("key", "which agent acted"),
    "tree": Column("key", "id of the search tree"),
    "parent": Column("key", "id of the parent node"),
    "forked": Column("integer", "1 where the episode began in the middle of another, else 0"),
    "fork_turn": Column("integer", "number of turns that the episode took over from another"),
    "source": Column("integer", "0 for an episode of the policy, 2 for one of another model"),
    "value": Column("number", "estimated value of the state"),
    "entropy": Column("number", "mean entropy of the turn's tokens, nats"),
    "logprob": Column("number", "mean log-probability of the turn's tokens, nats"),
    "hindsight": Column("number", "`logprob` under a prompt that also tells how the episode ended, nats"),
    "multi": Column("numbers", "several rewards of the turn"),
    "metric": Column("numbers", "one or more numbers by which a rule sorts or weights turns"),
    "label": Column("key", "key of the answer's class"),
    "unfinished": Column("flag", "True where the episode was cut, and would have gone on"),
    "keep": Column("flag", "False where the turn is not trained on"),
    "duplicate_of_row": Column("integer", "row number of the original, for a row that is a copy"),
}
KEYS = tuple(name for name, column in COLUMNS.items() if column.kind == "key")
LARGEST = 1e100  # so that no sum of rewards overflows


def described(name: str) -> str:
    """Return a column's name with its meaning, if it has a fixed one: "'turn' (position in time)"."""
    return f"{name!r} ({COLUMNS[name].meaning})" if name in COLUMNS else repr(name)


def check_spelling(names: Iterable[object]) -> None:
    """Raise BadTable if a name is nearly that of a column which is absent: `vaild` would silently cost no penalty."""
    found = set(names)
    for name in found - COLUMNS.keys():
        close = difflib.get_close_matches(str(name), COLUMNS.keys() - found, n=1, cutoff=0.8)
        if close:
            raise BadTable(f"unknown column {name!r}; did you mean {close[0]!r}?")


def sequence(name: str, values: Any) -> Any:
    """Return a column as a sequence of N values; an array with more than one dimension is N arrays.

    Raises:
        BadTable: a single value was given.
    """
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__iter__"):
        raise BadTable(f"column {name!r} must be a sequence with one value per row, got {type(values).__name__}")
    return plain(values)


def converted(name: str, values: Any) -> npt.NDArray[Any]:
    """Return a column as an array of the dtype of its kind.

    Columns without a fixed meaning keep numbers and booleans as they are; everything else becomes an array of objects.

    Args:
        name: the column. Keys must be given as codes.
        values: N values.

    Raises:
        BadTable: a value does not fit the kind.
    """
    if name not in COLUMNS:
        return _free(name, values)
    values, kind = plain(values), COLUMNS[name].kind
    if kind == "flag":
        return _flags(name, values)
    return _integers(name, values) if kind in ("key", "integer") else _numbers(name, values)


def example(name: str) -> object:
    """Return a value that a column can have."""
    kind = COLUMNS[name].kind if name in COLUMNS else "number"
    examples: dict[str, object] = {"key": "", "integer": 0, "flag": True, "number": 0.0, "numbers": (0.0,)}
    return -1 if name == "duplicate_of_row" else examples[kind]


def empty(name: str) -> npt.NDArray[Any]:
    """Return a column without rows."""
    kind = COLUMNS[name].kind if name in COLUMNS else "number"
    dtype = {"flag": np.bool_, "number": np.float64, "numbers": np.float64}.get(kind, np.int64)
    return np.zeros((0, 0) if name == "multi" else 0, dtype=dtype)


def objects(values: Iterable[Any]) -> npt.NDArray[Any]:
    """Return values as an array of objects, object [N]; sequences among them are kept whole."""
    items = list(values)
    array = np.empty(len(items), dtype=object)
    for number, item in enumerate(items):  # one by one: numpy would unpack sequences
        array[number] = item
    return array


def _free(name: str, values: Any) -> npt.NDArray[Any]:
    values = sequence(name, values)
    if isinstance(values, np.ndarray) and values.ndim and values.dtype.kind in "biuf":
        return values
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    plain_numbers = items and all(isinstance(item, bool | int | float | np.number | np.bool_) for item in items)
    array = np.asarray(items) if plain_numbers else objects(items)
    return array if array.dtype.kind in "biuf" else objects(items)


def _flags(name: str, values: Any) -> Bools:
    array: npt.NDArray[Any] = unboxed(np.asarray(values))
    if array.ndim == 1 and array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
        array = array.astype(np.bool_)
    if array.ndim != 1 or array.dtype != np.bool_:
        raise BadTable(f"column {name!r} must be True or False in every row, got {_sample(values)}")
    return array


def _integers(name: str, values: Any) -> Ints:
    array: npt.NDArray[Any] = unboxed(np.asarray(values))
    if array.ndim == 1 and not len(array):
        return np.zeros(0, dtype=np.int64)
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool((array == np.floor(array)).all()))
    if array.ndim != 1 or not whole or not (np.abs(array.astype(np.float64)) < 2.0**62).all():
        raise BadTable(f"column {described(name)} must hold one integer per row, got {_sample(values)}")
    if name == "tokens" and int(array.min()) < 0:
        raise BadTable(f"column {described(name)} must be >= 0, got {_sample(values)}")
    return array.astype(np.int64, copy=False)


def _numbers(name: str, values: Any) -> Floats:
    several = COLUMNS[name].kind == "numbers"
    expected = "the same number of numbers in every row" if several else "one number per row"
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"got {_sample(array)}")
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadTable(f"column {described(name)} must hold {expected}: {error}") from error
    if name == "multi" and array.ndim == 1:
        array = array[:, None] if len(array) else array.reshape(0, 0)
    if not 1 <= array.ndim <= (2 if several else 1):
        raise BadTable(f"column {described(name)} must hold {expected}, got shape {array.shape}")
    bad = ~(np.abs(array) <= LARGEST).reshape(len(array), -1).all(axis=1) if array.size else np.zeros(0, dtype=np.bool_)
    if bad.any():
        row = int(np.argmax(bad))
        raise BadTable(
            f"column {name!r} must be finite and at most {LARGEST:g} in size, got {array[row]} in row {row} "
            f"({int(bad.sum())} of {len(array)} rows); leave failed episodes out or give them a finite reward"
        )
    return array


def _sample(values: Any) -> str:
    array = np.asarray(values)
    first = ", ".join(repr(item) for item in array.ravel()[:3].tolist())
    return f"dtype {array.dtype}, shape {array.shape} ({first}{', ...' if array.size > 3 else ''})"
