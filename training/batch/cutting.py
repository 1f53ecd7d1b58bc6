"""How the rows of a batch are divided among processes, and cut into micro-batches, by the tokens that are computed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from turncredit.training.batch.batch import Batch, deal, micro_batches
from turncredit.training.batch.prefix_forest import (
    common_prefixes,
    deal_prefixes,
    distinct_tokens,
    prefix_micro_batches,
    prefix_order,
)

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cutting:
    """One way to lay out rows.

    Attributes:
        packed: without padding.
        shared: as a forest, with common prefixes once, and without the tokens that no masked token comes after.
    """

    packed: bool = False
    shared: bool = False

    def shares(self, batch: Batch) -> bool:
        """Whether common prefixes are computed once: not where the same tokens may stand for different images."""
        return self.shared and batch.images is None

    def tokens(self, batch: Batch, rows: Rows) -> int:
        """Return the tokens that some rows are computed with: the distinct ones, or all with their padding."""
        if self.shares(batch):
            return distinct_tokens(batch.path[rows], batch.needed[rows])
        return len(rows) * int(batch.lengths[rows].max(initial=0))

    def spans(self, batch: Batch) -> tuple[Rows, Rows]:
        """Return where the computed tokens of each row begin and end, int64 [B] each; rows come in any order."""
        if self.shares(batch):
            order = prefix_order(batch.path, batch.needed)
            ends = batch.needed[order]
            return common_prefixes(batch.path[order], ends), ends
        ends = batch.lengths if self.packed else np.full_like(batch.lengths, batch.lengths.max(initial=0))
        return np.zeros_like(ends), ends

    def deal(self, batch: Batch, processes: int) -> list[Rows]:
        """Return the rows of each process, with about as many tokens as for every other."""
        if self.shares(batch):
            return deal_prefixes(batch.path, batch.needed, processes)
        return deal(batch.lengths, processes)

    def cuts(self, batch: Batch, budget: int, processes: int = 1) -> list[list[Rows]]:
        """Return the micro-batches of each process.

        Args:
            batch: the rows.
            budget: maximum number of tokens per micro-batch, padding included where there is any; a longer row is a
                micro-batch of its own.
            processes: that divide the rows.
        """
        dealt = self.deal(batch, processes)
        if self.shares(batch):
            needed = batch.needed
            return [
                [rows[cut] for cut in prefix_micro_batches(batch.path[rows], needed[rows], budget)] for rows in dealt
            ]
        lengths = batch.lengths
        return [[rows[cut] for cut in micro_batches(lengths[rows], budget, packed=self.packed)] for rows in dealt]
