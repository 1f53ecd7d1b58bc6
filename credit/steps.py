"""The table of turns that every credit rule reads: one row per turn, as numpy columns, with rows in any order.

Ids and keys are stored as integer codes (`turncredit.credit.key_codes` defines which keys are equal); the original
values are in `names`. A trajectory is identified by its task and its id together, so ids may be reused from task to
task.

Tokens are not part of the table: they appear when training packs a batch. The column `tokens` is a count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from turncredit.credit.columns import (
    COLUMNS,
    KEYS,
    REQUIRED,
    Bools,
    Floats,
    Ints,
    check_spelling,
    converted,
    described,
    empty,
    objects,
    sequence,
)
from turncredit.credit.errors import BadTable, MissingColumn
from turncredit.credit.key_codes import Coder

__all__ = ["Bools", "Floats", "Ints", "Steps", "need"]


@dataclass(frozen=True, eq=False)
class Steps:
    """Turns of many episodes as columns; N rows in any order. Create it with `from_rows` or `from_columns`.

    Args:
        task: int64 [N], code of the task instance. The trajectories of a task form a group.
        trajectory: int64 [N], code of the episode, unique over all tasks.
        turn: int64 [N], time within the trajectory. Only the order counts: a gap adds no discount.
        reward: float64 [N], finite.
        extra: all other columns by name, [N] or [N, M]. `turncredit.credit.columns.COLUMNS` lists those with a fixed
            meaning, such as `state`, `action`, `valid`, `tokens`, `role` or `value`. Keys among them are int64 codes;
            `state` and `next_state` share their codes. A row whose `duplicate_of_row` is >= 0 is a copy of that row
            (padding that a trainer added): it gets the advantage of the original and does not enter any statistic,
            except under a compatibility preset. Other columns belong to the caller: arrays of numbers or of objects.
        names: the original values of coded columns, `names[column][code]`; those of `next_state` are under `state`.

    Raises:
        BadTable: columns differ in length or kind, a number is not finite, two rows are the same turn of the same
            trajectory, or a copy does not match its original.
    """

    task: Ints
    trajectory: Ints
    turn: Ints
    reward: Floats
    extra: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    names: Mapping[str, Sequence[object]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        """Convert the columns to their dtypes and check the table."""
        for name in REQUIRED:
            object.__setattr__(self, name, converted(name, getattr(self, name)))
        object.__setattr__(self, "extra", {name: converted(name, column) for name, column in self.extra.items()})
        for name in self.columns:
            if len(self.column(name)) != len(self.task):
                raise BadTable(f"column {name!r} has {len(self.column(name))} rows, 'task' has {len(self.task)}")
        _check_trajectories(self)
        _check_copies(self)
        _check_turns(self)

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """Return the table of an iterable of mappings, one per turn.

        Every row has `task`, `trajectory`, `turn` and `reward`. Any other column with a fixed meaning must be in every
        row or in none (`duplicate_of_row` only in copies). Other keys become their own columns; where a row lacks
        one, its value is None.

            >>> steps = Steps.from_rows([dict(task="t", trajectory=0, turn=0, reward=1.0, state="kitchen", level=3)])
            >>> len(steps), steps.ids("state").tolist(), steps.column("level").tolist()
            (1, ['kitchen'], [3])

        Raises:
            BadTable: `rows` is not an iterable of mappings, a row lacks a column that others have, a key is a
                misspelled column name, or a value cannot be used.
        """
        if isinstance(rows, Mapping | str) or not isinstance(rows, Iterable):
            raise BadTable(
                f"from_rows expects an iterable of mappings, one per turn, got {type(rows).__name__}; "
                "use Steps.from_columns for whole columns"
            )
        table = list(rows)
        for number, row in enumerate(table):
            if not isinstance(row, Mapping):
                raise BadTable(f"row {number} must be a mapping with {', '.join(REQUIRED)}, got {type(row).__name__}")
        keys = dict.fromkeys(key for row in table for key in row if isinstance(key, str))
        names = dict.fromkeys((*REQUIRED, *keys)) if table else {}
        return cls.from_columns(**{name: _gathered(name, table) for name in names})

    @classmethod
    def from_columns(cls, **columns: Any) -> Self:
        """Return the table of whole columns: ids and keys of any kind, numbers as arrays or sequences.

        This is faster than `from_rows`: arrays of integers and strings are coded without a Python loop over rows.

        Args:
            **columns: columns by name, each of length N. None counts as absent.

        Raises:
            BadTable: a required column is missing, a name is a misspelled column name, or a value cannot be used.
        """
        given = {name: column for name, column in columns.items() if column is not None}
        check_spelling(given)
        if not given:
            return cls.empty()
        for name in REQUIRED:
            if name not in given:
                raise BadTable(f"column {described(name)} is missing; got: {', '.join(given)}")
        coders: dict[str, Coder] = {}
        for name in KEYS:
            if name in given:
                coder = coders.setdefault("state" if name == "next_state" else name, Coder())
                given[name] = coder.encode(sequence(name, given[name]))
        names = {name: tuple(coder.names) for name, coder in coders.items()}
        if len(given["task"]) == len(given["trajectory"]):
            given["trajectory"], names["trajectory"] = _per_task(
                given["task"], given["trajectory"], names["trajectory"]
            )
        task, trajectory, turn, reward = (given.pop(name) for name in REQUIRED)
        return cls(task, trajectory, turn, reward, given, names)

    @classmethod
    def empty(cls) -> Self:
        """Return a table without rows; every credit rule returns an empty result for it."""
        none = np.zeros(0, dtype=np.int64)
        return cls(task=none, trajectory=none, turn=none, reward=np.zeros(0))

    def __len__(self) -> int:
        """Number of rows N."""
        return len(self.task)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that this table has."""
        return (*REQUIRED, *self.extra)

    def __contains__(self, name: object) -> bool:
        """Whether the table has a column."""
        return name in REQUIRED or name in self.extra

    def column(self, name: str) -> npt.NDArray[Any]:
        """Return a column, [N] or [N, M]; keys as codes. A table without rows has every column.

        Raises:
            MissingColumn: the table does not have it.
        """
        if name in REQUIRED:
            column: npt.NDArray[Any] = getattr(self, name)
            return column
        if name in self.extra:
            return self.extra[name]
        if len(self):
            raise MissingColumn(f"the table has no column {described(name)}; it has: {', '.join(self.columns)}", name)
        return empty(name)

    def ids(self, name: str) -> npt.NDArray[Any]:
        """Return a column of keys as the values that were given, object [N]; codes where the table has no names.

            >>> steps = Steps.from_columns(task=["t"], trajectory=["a"], turn=[0], reward=[1.0])
            >>> steps.ids("trajectory").tolist()
            ['a']

        Args:
            name: `task`, `trajectory`, or another column of keys.

        Raises:
            MissingColumn: the table does not have it.
        """
        codes, known = self.column(name), self.names.get("state" if name == "next_state" else name)
        found: npt.NDArray[Any] = codes.astype(object) if known is None else objects(known)[codes]
        return found

    @cached_property
    def source(self) -> Ints:
        """int64 [N]: the row itself, or the row of which it is a copy."""
        own = np.arange(len(self), dtype=np.int64)
        if "duplicate_of_row" not in self:
            return own
        origin = self.column("duplicate_of_row")
        return np.where(origin >= 0, origin, own)

    @cached_property
    def has_copies(self) -> bool:
        """Whether any row is a copy of another."""
        return bool((self.source != np.arange(len(self))).any())

    @cached_property
    def time_order(self) -> Ints:
        """int64 [originals]: the rows that are not copies, by trajectory and then by time."""
        rows: Ints = np.lexsort((self.turn, self.trajectory)).astype(np.int64, copy=False)
        return rows[self.source[rows] == rows] if self.has_copies else rows

    @property
    def invalid(self) -> Bools:
        """bool [N]: whether the row's action was invalid; all False without the column `valid`."""
        return ~self.column("valid") if "valid" in self else np.zeros(len(self), dtype=np.bool_)

    def take(self, rows: npt.ArrayLike) -> Self:
        """Return the table of some rows, in the given order; codes and names stay as they are.

        Args:
            rows: integer [M] row numbers, or bool [N]. The rows of the new table are originals, also where they were
                copies.

        Raises:
            BadTable: the rows contain the same turn of the same trajectory twice.
        """
        chosen = np.asarray(rows)
        chosen = chosen if chosen.size else np.zeros(0, dtype=np.int64)  # [] arrives as an array of floats
        parts = {name: self.column(name)[chosen] for name in self.columns if name != "duplicate_of_row"}
        required = {name: parts.pop(name) for name in REQUIRED}
        return replace(self, extra=parts, **required)


def need(steps: Steps, method: str, *columns: str) -> None:
    """Check that `steps` is a table and has the columns that a method needs. An empty table has every column.

    Args:
        steps: what a caller passed as the table.
        method: name of the credit rule, for the message.
        *columns: names of columns.

    Raises:
        BadTable: `steps` is not a table.
        MissingColumn: a column is absent.
    """
    if not isinstance(steps, Steps):
        raise BadTable(f"{method} expects a table of turns, Steps.from_rows(rows), got {type(steps).__name__}")
    for name in columns:
        if len(steps) and name not in steps:
            raise MissingColumn(
                f"{method} needs the column {described(name)}; this table has: {', '.join(steps.columns)}", name
            )


def _gathered(name: str, table: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The values of one column."""
    if name == "duplicate_of_row":
        return [-1 if row.get(name) is None else row[name] for row in table]
    if name not in COLUMNS:
        return [row.get(name) for row in table]
    for number, row in enumerate(table):
        if name not in row:
            others = "" if name in REQUIRED else "; a column must be in every row or in none"
            raise BadTable(f"row {number} has no {described(name)}{others}")
    return [row[name] for row in table]


def _per_task(task: Ints, trajectory: Ints, names: Sequence[object]) -> tuple[Ints, tuple[object, ...]]:
    """Give the same id in two tasks two codes."""
    if not len(task):
        return trajectory, ()
    pair = task * (int(trajectory.max()) + 1) + trajectory
    _, first, inverse = np.unique(pair, return_index=True, return_inverse=True)
    return inverse.reshape(-1).astype(np.int64, copy=False), tuple(names[code] for code in trajectory[first])


def _check_trajectories(steps: Steps) -> None:
    if not len(steps):
        return
    if min(int(steps.task.min()), int(steps.trajectory.min())) < 0:
        raise BadTable("codes of tasks and trajectories must be >= 0; from_columns accepts ids of any kind")
    order = np.argsort(steps.trajectory, kind="stable")
    trajectory, task = steps.trajectory[order], steps.task[order]
    mixed = np.flatnonzero((trajectory[1:] == trajectory[:-1]) & (task[1:] != task[:-1]))
    if len(mixed):
        raise BadTable(
            f"trajectory code {trajectory[mixed[0]]} occurs in two tasks; "
            "use from_columns or from_rows, which keep equal ids of different tasks apart"
        )


def _check_copies(steps: Steps) -> None:
    if "duplicate_of_row" not in steps:
        return
    origin = steps.column("duplicate_of_row")
    for copy in np.flatnonzero(origin >= 0).tolist():
        row = int(origin[copy])
        if row >= len(steps) or row == copy or origin[row] >= 0:
            raise BadTable(f"row {copy} is marked as a copy of row {row}, which is not an original row of this table")
        if steps.trajectory[copy] != steps.trajectory[row] or steps.turn[copy] != steps.turn[row]:
            raise BadTable(f"row {copy} is marked as a copy of row {row}, which is another turn")


def _check_turns(steps: Steps) -> None:
    order = steps.time_order
    trajectory, turn = steps.trajectory[order], steps.turn[order]
    again = np.flatnonzero((trajectory[1:] == trajectory[:-1]) & (turn[1:] == turn[:-1]))
    if len(again):
        first, second = sorted(order[again[0] : again[0] + 2].tolist())
        raise BadTable(
            f"rows {first} and {second} are both turn {int(steps.turn[first])} of trajectory "
            f"{steps.ids('trajectory')[first]!r}; a turn is one row (mark copies with duplicate_of_row)"
        )
