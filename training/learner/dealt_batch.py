"""A batch on its way to the ranks that compute it: each receives the contents of its own rows.

Contents are tokens, images and the experts of tokens. What is small, and what the weights of tokens and the objectives
of whole groups and mini-batches need of every row, all ranks receive: masks, advantages, log-probabilities, turns.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turncredit.training.batch.batch import Batch
from turncredit.training.batch.cutting import Cutting
from turncredit.training.batch.prefix_forest import stand_ins
from turncredit.training.learner.rank_commands import Dealt

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DealtBatch(Dealt):
    """A batch, of which each rank computes some rows.

    Attributes:
        batch: the whole.
        rows: of each rank, in ascending order.
        codes: int64 [B, L], what ranks compare rows by that share prefixes; None where none do.
    """

    batch: Batch
    rows: tuple[Rows, ...]
    codes: NDArray[np.int64] | None

    @classmethod
    def of(cls, batch: Batch, parts: Sequence[tuple[Rows, Batch]], cutting: Cutting, ranks: int) -> "DealtBatch":
        """Return a batch whose rows are dealt as a scorer of several ranks deals them.

        Args:
            batch: the whole.
            parts: what is computed together, one part after the other: row numbers, and the batch of these rows with
                the lengths to which they are computed.
            cutting: of the scorer.
            ranks: how many.
        """
        rows: list[list[Rows]] = [[np.empty(0, dtype=np.int64)] for _ in range(ranks)]
        for index, part in parts:
            for own, dealt in zip(rows, cutting.deal(part, ranks), strict=True):
                own.append(index[dealt])
        codes = stand_ins(batch.path, batch.lengths) if cutting.shares(batch) else None
        return cls(batch, tuple(np.unique(np.concatenate(own)) for own in rows), codes)

    def part(self, rank: int) -> Batch:
        """Return the batch as a rank receives it."""
        return self.batch.with_contents_of(self.rows[rank], self.codes)
