"""The table of turns that every estimator reads: one row a turn, numpy columns, rows in any order.

Ids and keys are stored as integer codes (`turnwise.credit.keys` says what counts as the same key); the originals are in
`names`. A trajectory is identified by its task and its id together, so that ids may be reused from task to task.

Left out on purpose: tokens. They appear only when training packs a batch; here `tokens` is a count.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from turnwise.credit.errors import BadTable, MissingColumn, near
from turnwise.credit.keys import Coder
from turnwise.credit.tensors import plain, unboxed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

REQUIRED = ("task", "trajectory", "turn", "reward")
MEANING = {
    "task": "id of the task instance",
    "trajectory": "id of the episode",
    "turn": "position in time",
    "reward": "reward of the turn",
    "state": "key of the situation in which the agent acted",
    "action": "key of the action",
    "next_state": "key of the situation that followed",
    "valid": "false where the action was not understood or not admissible",
    "tokens": "number of trained tokens",
    "role": "which agent acted",
    "tree": "id of the search tree",
    "parent": "id of the parent node",
    "value": "estimated value of the state",
    "entropy": "mean entropy of the turn's tokens, nats",
    "logprob": "mean log-probability of the turn's tokens, nats",
    "multi": "several rewards of the turn",
    "metric": "one or more numbers that a method sorts or weighs by",
    "label": "key of the answer's class",
    "duplicate_of_row": "number of the row of which this one is a copy",
}
LARGEST = 1e100  # so that no sum of rewards overflows
_KEYS = ("task", "trajectory", "state", "action", "next_state", "role", "tree", "parent", "label")
_TABLES = ("multi", "metric")
_INTEGERS = ("turn", "tokens")


@dataclass(frozen=True, eq=False)
class Steps:
    """Turns of many episodes as columns; N rows in any order.

    Args:
        task: int64 [N], code of the task instance. Its trajectories form a group.
        trajectory: int64 [N], code of the episode, unique over all tasks.
        turn: int64 [N], time within the trajectory. Only the order counts: a gap is no extra discount.
        reward: float64 [N], finite.
        state, action, next_state: int64 [N] codes; `state` and `next_state` share their codes.
        valid: bool [N]; absent means that every action was valid.
        tokens: int64 [N], number of trained tokens.
        role, tree, parent, label: int64 [N] codes.
        value, entropy, logprob: float64 [N].
        multi: float64 [N, K], K rewards a turn. metric: float64 [N] or [N, M].
        duplicate_of_row: int64 [N], the row of which this one is a copy (padding that a trainer added), else -1. A copy
            gets the advantage of its original and enters no statistics, except under a compatibility preset.
        names: the originals, `names[column][code]`; the originals of `next_state` are under `state`.

    Raises:
        BadTable: columns of different lengths or kinds, a number that is not finite, two rows for the same turn of the
            same trajectory, a copy that does not match its original.
    """

    task: Ints
    trajectory: Ints
    turn: Ints
    reward: Floats
    state: Ints | None = None
    action: Ints | None = None
    next_state: Ints | None = None
    valid: Bools | None = None
    tokens: Ints | None = None
    role: Ints | None = None
    tree: Ints | None = None
    parent: Ints | None = None
    value: Floats | None = None
    entropy: Floats | None = None
    logprob: Floats | None = None
    multi: Floats | None = None
    metric: Floats | None = None
    label: Ints | None = None
    duplicate_of_row: Ints | None = None
    names: Mapping[str, Sequence[object]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Bring the columns to their dtypes and refuse a table from which no credit can be computed."""
        for name in self.columns:
            object.__setattr__(self, name, _column(name, getattr(self, name)))
        for name in self.columns:
            if len(getattr(self, name)) != len(self.task):
                raise BadTable(f"column {name!r} has {len(getattr(self, name))} rows, 'task' has {len(self.task)}")
        _check_trajectories(self)
        _check_copies(self)
        _check_turns(self)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """Return the table of an iterable of mappings, one a turn.

        A row has `task`, `trajectory`, `turn`, `reward` and, in every row or in none, any other column of `Steps`
        (`duplicate_of_row` only in the copies). Other keys belong to the caller and are ignored, unless they are
        so near to a column's name that they must be a slip.

            >>> steps = Steps.from_rows([dict(task="t", trajectory=0, turn=0, reward=1.0, state="kitchen")])
            >>> len(steps), steps.names["state"][steps.state[0]]
            (1, 'kitchen')

        Raises:
            BadTable: there is no list of rows, a row is not a mapping or lacks a column that others have, a value is
                not usable.
        """
        if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
            raise BadTable(
                f"from_rows wants a list of mappings, one a turn; came {type(rows).__name__} (whole columns go into "
                "Steps.from_columns)"
            )
        table = list(rows)
        for number, row in enumerate(table):
            if not isinstance(row, Mapping):
                raise BadTable(f"row {number} must be a mapping with {', '.join(REQUIRED)}; came {type(row).__name__}")
        present = set(REQUIRED) if table else set()
        keys = dict.fromkeys(key for row in table for key in row)
        present.update(name for name in keys if name in MEANING)
        _refuse_slips(keys)
        return cls.from_columns(**{name: _gather(name, table) for name in MEANING if name in present})

    @classmethod
    def from_columns(cls, **columns: Any) -> Self:
        """Return the table of whole columns: ids and keys of any kind, numbers as arrays or sequences.

        The fast way in: integer and text arrays are coded without a Python loop over rows.

        Args:
            **columns: the columns of `Steps` by name, each of length N. None counts as absent.

        Raises:
            BadTable: an unknown or missing column, or a value that is not usable.
        """
        given = {name: column for name, column in columns.items() if column is not None}
        for name in given:
            if name not in MEANING:
                raise BadTable(f"{name!r} is not a column of the table of turns; {near(name, MEANING)}")
        if not given:
            return cls.empty()
        for name in REQUIRED:
            if name not in given:
                raise BadTable(f"the column {name!r} ({MEANING[name]}) is missing; there are: {', '.join(given)}")
        coders: dict[str, Coder] = {}
        for name in _KEYS:
            if name in given:
                coder = coders.setdefault("state" if name == "next_state" else name, Coder())
                given[name] = coder.encode(_one_dimensional(name, given[name]))
        names = {name: tuple(coder.names) for name, coder in coders.items()}
        if len(given["task"]) == len(given["trajectory"]):
            given["trajectory"], names["trajectory"] = _per_task(
                given["task"], given["trajectory"], names["trajectory"]
            )
        return cls(names=names, **given)

    @classmethod
    def empty(cls) -> Self:
        """Return a table without rows; every estimator answers it with an empty result."""
        none = np.zeros(0, dtype=np.int64)
        return cls(task=none, trajectory=none, turn=none, reward=np.zeros(0))

    def __len__(self) -> int:
        """Number of rows N."""
        return len(self.task)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this table has."""
        return tuple(f.name for f in fields(self) if f.name in MEANING and getattr(self, f.name) is not None)

    @cached_property
    def source(self) -> Ints:
        """int64 [N]: the row itself, or the row of which it is a copy."""
        own = np.arange(len(self), dtype=np.int64)
        if self.duplicate_of_row is None:
            return own
        return np.where(self.duplicate_of_row >= 0, self.duplicate_of_row, own)

    @property
    def has_copies(self) -> bool:
        """Whether any row is a copy of another."""
        return self.duplicate_of_row is not None and bool((self.duplicate_of_row >= 0).any())

    @cached_property
    def time_order(self) -> Ints:
        """int64 [originals]: the rows that are no copies, trajectory after trajectory, each in order of time."""
        rows: Ints = np.lexsort((self.turn, self.trajectory)).astype(np.int64, copy=False)
        return rows[self.source[rows] == rows] if self.has_copies else rows

    @property
    def invalid(self) -> Bools:
        """bool [N]: whether the row's action was invalid; all false when the table does not say."""
        return np.zeros(len(self), dtype=np.bool_) if self.valid is None else ~self.valid

    def ids(self, column: str) -> npt.NDArray[Any]:
        """Return a column of keys as the values that were given, object [N]; codes where the table has no names.

            >>> steps = Steps.from_columns(task=["t"], trajectory=["a"], turn=[0], reward=[1.0])
            >>> steps.ids("trajectory").tolist()
            ['a']

        Args:
            column: `task`, `trajectory`, or another column of keys that the table has.
        """
        codes: Ints = getattr(self, column)
        names = self.names.get("state" if column == "next_state" else column)
        if names is None:
            return np.asarray(codes, dtype=object)
        known = np.empty(len(names), dtype=object)
        for code, name in enumerate(names):  # one by one: numpy would unpack a name that is a sequence
            known[code] = name
        found: npt.NDArray[Any] = known[codes]
        return found

    def take(self, rows: npt.ArrayLike) -> Self:
        """Return the table of some rows, in the order given; codes and names stay as they are.

        Args:
            rows: integer [M] row numbers or bool [N]. Copies may be taken only without their mark of origin, so a table
                with copies comes back as one in which the taken rows are originals.

        Raises:
            BadTable: the rows hold the same turn of the same trajectory twice.
        """
        chosen = np.asarray(rows)
        chosen = chosen if chosen.size else np.zeros(0, dtype=np.int64)  # [] comes as an array of floats
        parts = {name: getattr(self, name)[chosen] for name in self.columns if name != "duplicate_of_row"}
        return replace(self, duplicate_of_row=None, **parts)


def need(steps: Steps, method: str, *columns: str) -> None:
    """Make sure that a table is one, and that the columns which a method needs are there. An empty table needs none.

    Args:
        steps: what a caller handed in as the table.
        method: name of the estimator, for the message.
        *columns: names of columns.

    Raises:
        BadTable: it is no table, but rows of one or something else.
        MissingColumn: the first column that is absent, with the method's name.
    """
    if not isinstance(steps, Steps):
        raise BadTable(f"{method} wants a table of turns, Steps.from_rows(rows); came {type(steps).__name__}")
    for name in columns:
        if len(steps) and getattr(steps, name) is None:
            raise MissingColumn(
                f"{method} needs the column {name!r} ({MEANING[name]}); this table has: {', '.join(steps.columns)}"
            )


def _gather(name: str, table: Sequence[Mapping[str, Any]]) -> list[Any]:
    if name == "duplicate_of_row":
        return [-1 if row.get(name) is None else row[name] for row in table]
    column = [row.get(name, _gather) for row in table]  # the function itself: a value that no row can hold
    if _gather in column if name not in _KEYS and name not in _TABLES else any(item is _gather for item in column):
        number = next(i for i, item in enumerate(column) if item is _gather)
        others = "" if name in REQUIRED else "; a column must be in every row or in none"
        raise BadTable(f"row {number} has no {name!r} ({MEANING[name]}){others}")
    return column


def _refuse_slips(keys: Iterable[object]) -> None:
    """Refuse a key that is nearly the name of a column which no row has: `vaild` would silently bring no penalty."""
    found = set(keys)
    for name in found - MEANING.keys():
        close = difflib.get_close_matches(str(name), MEANING.keys() - found, n=1, cutoff=0.8)
        if close:
            raise BadTable(f"rows have a key {name!r}, which is not a column of the table; did you mean {close[0]!r}?")


def _one_dimensional(name: str, column: Any) -> Any:
    """Keys arrive as a sequence of N values; an array with more dimensions is N arrays."""
    if isinstance(column, str | bytes | Mapping) or not hasattr(column, "__iter__"):
        raise BadTable(f"column {name!r} must be a sequence with one value a row; came {type(column).__name__}")
    return plain(column)


def _per_task(task: Ints, trajectory: Ints, names: Sequence[object]) -> tuple[Ints, tuple[object, ...]]:
    """Give the same id in two tasks two codes."""
    if not len(task):
        return trajectory, ()
    pair = task * (int(trajectory.max()) + 1) + trajectory
    _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
    return inverse.reshape(-1).astype(np.int64, copy=False), tuple(names[code] for code in trajectory[first])


def _column(name: str, values: Any) -> npt.NDArray[Any]:
    values = plain(values)
    if name == "valid":
        return _boolean(values)
    if name in _KEYS or name in _INTEGERS or name == "duplicate_of_row":
        return _integer(name, values)
    return _number(name, values)


def _boolean(values: Any) -> Bools:
    array: npt.NDArray[Any] = unboxed(np.asarray(values))
    if array.ndim == 1 and array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
        array = array.astype(np.bool_)
    if array.ndim == 1 and not len(array):
        array = array.astype(np.bool_)
    if array.ndim != 1 or array.dtype != np.bool_:
        raise BadTable(f"column 'valid' must be true or false in every row; came {_describe(values)}")
    return array


def _integer(name: str, values: Any) -> Ints:
    array: npt.NDArray[Any] = unboxed(np.asarray(values))
    if array.ndim == 1 and not len(array):
        return np.zeros(0, dtype=np.int64)
    whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool((array == np.floor(array)).all()))
    if array.ndim != 1 or not whole or not (np.abs(array.astype(np.float64)) < 2.0**62).all():
        raise BadTable(f"column {name!r} ({MEANING[name]}) must hold one whole number a row; came {_describe(values)}")
    if name == "tokens" and int(array.min()) < 0:
        raise BadTable(f"column 'tokens' ({MEANING[name]}) must not be negative; came {_describe(values)}")
    return array.astype(np.int64, copy=False)


def _number(name: str, values: Any) -> Floats:
    most = 2 if name in _TABLES else 1
    wanted = "one number a row" if most == 1 else "the same number of numbers in every row"
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError(f"came {_describe(array)}")
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadTable(f"column {name!r} ({MEANING[name]}) must hold {wanted}: {error}") from error
    if name == "multi" and array.ndim == 1:
        array = array[:, None] if len(array) else array.reshape(0, 0)
    if not 1 <= array.ndim <= most:
        raise BadTable(f"column {name!r} must have 1 to {most} dimensions; it has the shape {array.shape}")
    bad = ~(np.abs(array) <= LARGEST).reshape(len(array), -1).all(axis=1) if array.size else np.zeros(0, dtype=np.bool_)
    if bad.any():
        row = int(np.argmax(bad))
        raise BadTable(
            f"column {name!r} must be finite and at most {LARGEST:g} in size; row {row} has {array[row]} "
            f"({int(bad.sum())} of {len(array)} rows). Leave failed episodes out, or decide what they are worth"
        )
    return array


def _describe(values: Any) -> str:
    array = np.asarray(values)
    sample = ", ".join(repr(item) for item in array.ravel()[:3].tolist())
    return f"dtype {array.dtype}, shape {array.shape} ({sample}{', ...' if array.size > 3 else ''})"


def _check_trajectories(steps: Steps) -> None:
    if not len(steps):
        return
    if min(int(steps.task.min()), int(steps.trajectory.min())) < 0:
        raise BadTable("codes of tasks and trajectories must not be negative; from_columns takes ids of any kind")
    order = np.argsort(steps.trajectory, kind="stable")
    trajectory, task = steps.trajectory[order], steps.task[order]
    mixed = np.flatnonzero((trajectory[1:] == trajectory[:-1]) & (task[1:] != task[:-1]))
    if len(mixed):
        raise BadTable(
            f"trajectory code {trajectory[mixed[0]]} occurs in two tasks; a trajectory belongs to one. "
            "from_columns and from_rows keep ids apart by task"
        )


def _check_copies(steps: Steps) -> None:
    if steps.duplicate_of_row is None:
        return
    copies = np.flatnonzero(steps.duplicate_of_row >= 0)
    origin = steps.duplicate_of_row[copies]
    for copy, row in zip(copies.tolist(), origin.tolist(), strict=True):
        if row >= len(steps) or row == copy or steps.duplicate_of_row[row] >= 0:
            raise BadTable(f"row {copy} is marked as a copy of row {row}, which is not an original row of this table")
        if steps.trajectory[copy] != steps.trajectory[row] or steps.turn[copy] != steps.turn[row]:
            raise BadTable(f"row {copy} is marked as a copy of row {row}, which is another turn")


def _check_turns(steps: Steps) -> None:
    order = steps.time_order
    trajectory, turn = steps.trajectory[order], steps.turn[order]
    again = np.flatnonzero((trajectory[1:] == trajectory[:-1]) & (turn[1:] == turn[:-1]))
    if len(again):
        at = int(again[0])
        first, second = sorted((int(order[at]), int(order[at + 1])))
        code = int(trajectory[at])
        known = steps.names.get("trajectory", ())
        name = repr(known[code]) if code < len(known) else f"code {code}"
        raise BadTable(
            f"rows {first} and {second} are both turn {int(turn[at])} of trajectory {name}; a turn is one row "
            "(mark a copy with duplicate_of_row)"
        )
