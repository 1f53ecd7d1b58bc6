"""What an estimator gives back: one advantage a row, which rows to train on, and where the number comes from.

Left out on purpose: tokens. Whoever packs a batch puts the row's advantage on the row's tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from turnwise.credit.errors import CreditError
from turnwise.credit.steps import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Advantages:
    """One advantage for every row of a table, in the table's order.

    Args:
        values: float64 [N], the advantage of each turn, finite.
        keep: bool [N], false for a row that the method wants out of the loss.
        weight: float64 [N], factor of the row's loss; 1 where the method weighs nothing.
        parts: the terms of `values` by name, float64 [N] each, as the method's equation has them (before any factor
            such as GiGPO's w).
        report: scalars worth a line in a log: numbers of groups, of groups without spread, of penalised turns, ...
        state: what a method with memory wants back at its next call, as its option `state`; None for the others, and
            at the first call. Plain Python values and numpy arrays, so that a checkpoint can keep it.
    """

    values: Floats
    keep: Bools
    weight: Floats
    parts: Mapping[str, Floats] = field(default_factory=dict)
    report: Mapping[str, float] = field(default_factory=dict)
    state: object = None

    def __post_init__(self) -> None:
        """Refuse what would silently poison an update."""
        for name, column in {"keep": self.keep, "weight": self.weight, **self.parts}.items():
            if column.shape != self.values.shape:
                raise CreditError(f"{name!r} has shape {column.shape}, the advantages have {self.values.shape}")
        if not np.isfinite(self.values).all():
            raise CreditError(
                f"{int((~np.isfinite(self.values)).sum())} of {len(self.values)} advantages are not finite"
            )

    @classmethod
    def of(
        cls, values: Floats, parts: Mapping[str, Floats] | None = None, report: Mapping[str, float] | None = None
    ) -> Self:
        """Return advantages that keep every row at weight one."""
        ones = np.ones(len(values))
        return cls(values, np.ones(len(values), dtype=np.bool_), ones, dict(parts or {}), dict(report or {}))

    def __len__(self) -> int:
        """Number of rows N."""
        return len(self.values)

    def spread(self, source: Ints) -> Self:
        """Return the advantages of a longer table, whose row i stands for row `source[i]` of this one.

        Args:
            source: int64 [M], row numbers of this result.
        """
        parts = {name: column[source] for name, column in self.parts.items()}
        return type(self)(self.values[source], self.keep[source], self.weight[source], parts, self.report, self.state)
