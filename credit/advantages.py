"""The result of a credit rule: one advantage per row, with the trajectory and turn that the row belongs to.

Advantages are joined with other data by (trajectory, turn), never by the order of rows.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from turncredit.credit.errors import CreditError
from turncredit.credit.key_codes import freeze
from turncredit.credit.steps import Bools, Floats, Ints, Steps


@dataclass(frozen=True, eq=False)
class Advantages:
    """One advantage for every row of a table. Create it with `Advantages.of`.

    Args:
        task, trajectory: object [N], the ids of each row as they were given to `Steps`.
        turn: int64 [N], the turn number of each row.
        values: float64 [N], the advantage of each turn, finite.
        keep: bool [N], False for rows that the method excludes from the loss.
        weight: float64 [N], factor of the row's loss; 1 where the method does not weight rows.
        parts: the terms of `values` by name, float64 [N] each, as they appear in the method's equation (before factors
            such as GiGPO's w).
        report: scalars to log: number of groups, zero-variance groups, penalised turns, ...
        state: memory of the method, to be passed to its next call as the option `state`; None for methods without
            memory. It consists of plain Python values and numpy arrays, so that a checkpoint can store it.
    """

    task: npt.NDArray[Any]
    trajectory: npt.NDArray[Any]
    turn: Ints
    values: Floats
    keep: Bools
    weight: Floats
    parts: Mapping[str, Floats] = field(default_factory=dict)
    report: Mapping[str, float] = field(default_factory=dict)
    state: object = None

    def __post_init__(self) -> None:
        """Refuse wrong shapes and advantages that are not finite."""
        columns = {"task": self.task, "trajectory": self.trajectory, "turn": self.turn, "keep": self.keep}
        for name, column in {**columns, "weight": self.weight, **self.parts}.items():
            if column.shape != self.values.shape:
                raise CreditError(f"{name!r} has shape {column.shape}, but the advantages have {self.values.shape}")
        if not np.isfinite(self.values).all():
            raise CreditError(
                f"{int((~np.isfinite(self.values)).sum())} of {len(self.values)} advantages are not finite"
            )

    @classmethod
    def of(
        cls,
        steps: Steps,
        values: Floats,
        parts: Mapping[str, Floats] | None = None,
        report: Mapping[str, float] | None = None,
        *,
        keep: Bools | None = None,
        weight: Floats | None = None,
        state: object = None,
    ) -> Self:
        """Return the advantages of a table's rows.

        Args:
            steps: the table, N rows.
            values: float64 [N], in the order of the table's rows.
            parts, report, state: see the class.
            keep: bool [N]; None keeps every row.
            weight: float64 [N]; None gives every row weight 1.

        Raises:
            CreditError: a column has another length than the table, or an advantage is not finite.
        """
        if values.shape != (len(steps),):
            raise CreditError(f"the table has {len(steps)} rows, but the advantages have shape {values.shape}")
        keep = np.ones(len(values), dtype=np.bool_) if keep is None else keep
        weight = np.ones(len(values)) if weight is None else weight
        rows = steps.ids("task"), steps.ids("trajectory"), steps.turn
        return cls(*rows, values, keep, weight, dict(parts or {}), dict(report or {}), state)

    def __len__(self) -> int:
        """Number of rows N."""
        return len(self.values)

    def take(self, rows: Ints) -> Self:
        """Return the advantages of some rows.

        Args:
            rows: int64 [M], row numbers; a row may occur more than once.
        """
        columns = ("task", "trajectory", "turn", "values", "keep", "weight")
        parts = {name: column[rows] for name, column in self.parts.items()}
        return replace(self, parts=parts, **{name: getattr(self, name)[rows] for name in columns})

    def aligned(self, trajectory: Iterable[object], turn: Iterable[int]) -> Self:
        """Return the advantages of the given turns, in the given order.

            >>> steps = Steps.from_columns(task=["t", "t"], trajectory=["a", "b"], turn=[0, 0], reward=[1.0, 0.0])
            >>> Advantages.of(steps, steps.reward).aligned(["b", "a"], [0, 0]).values.tolist()
            [0.0, 1.0]

        Args:
            trajectory: M trajectory ids.
            turn: M turn numbers.

        Raises:
            CreditError: a turn has no advantage, or trajectories of several tasks share its id.
        """
        known = self._rows()
        rows = []
        for name, number in zip(trajectory, turn, strict=True):
            row = known.get((freeze(name), int(number)))
            if row is None:
                raise CreditError(f"turn {number} of trajectory {name!r} has no advantage; was it in the table?")
            rows.append(row)
        return self.take(np.asarray(rows, dtype=np.int64))

    def _rows(self) -> dict[tuple[Any, int], int]:
        """The row of each turn by trajectory and turn number."""
        rows: dict[tuple[Any, int], int] = {}
        turns = zip(self.task.tolist(), self.trajectory.tolist(), self.turn.tolist(), strict=True)
        for row, (task, trajectory, turn) in enumerate(turns):
            first = rows.setdefault((freeze(trajectory), turn), row)
            if first != row and freeze(self.task[first]) != freeze(task):
                raise CreditError(
                    f"trajectory {trajectory!r} occurs in tasks {self.task[first]!r} and {task!r}; "
                    "rows can be joined by trajectory only where ids are unique over all tasks"
                )
        return rows
