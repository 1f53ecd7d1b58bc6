"""When memory runs out during training: the computation is repeated with half as many tokens per micro-batch.

Several ranks begin again together, wherever memory ran out on one of them. Before every micro-batch, and at the end of
the last, each rank says whether its memory has run out (`Ranks.check_memory`); if one says so, all of them raise
`OutOfMemoryOnRank` there. Until then it takes part, with zeros, in the exchanges that are left of its micro-batch
(`TokenScorer.together`). So no rank waits for one that is not coming, and none is asked before every exchange.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch

from turncredit.agents.device_memory import DeviceMemory
from turncredit.training.errors import NotEnoughMemory

T = TypeVar("T")


class OutOfMemoryOnRank(MemoryError):
    """Memory has run out on one of several ranks; every rank raises it, also the others.

    Attributes:
        rank: on which it ran out; the last one if there are several.
    """

    def __init__(self, rank: int) -> None:
        super().__init__(f"memory has run out on rank {rank}")
        self.rank = rank


class MicroBatchLimit:
    """The largest number of tokens per micro-batch that fits into memory, as far as it is known.

    Args:
        note: called with a sentence whenever the limit is lowered.

    Attributes:
        tokens: the limit; None before memory has run out.
    """

    def __init__(self, note: Callable[[str], None] | None = None) -> None:
        self.tokens: int | None = None
        self._note = note

    def within(
        self,
        compute: Callable[[int], T],
        sizes: Callable[[int], Sequence[tuple[int, int]]],
        longest: int,
        budget: int,
    ) -> T:
        """Return `compute(budget)`, computed again with half the budget as often as memory runs out.

        Args:
            compute: receives the tokens per micro-batch; it must start from the beginning each time.
            sizes: returns rows and computed tokens of each micro-batch for a number of tokens, those of all ranks.
            longest: tokens of the longest row.
            budget: tokens per micro-batch.

        Raises:
            NotEnoughMemory: memory runs out even with one row per micro-batch.
        """
        while True:
            size = budget if self.tokens is None else min(budget, self.tokens)
            try:
                return compute(size)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                where = f" on rank {error.rank}" if isinstance(error, OutOfMemoryOnRank) else ""
            # outside of the handler, since the exception holds the arrays of the failed computation
            self._halve(size, sizes(size), longest, where)

    def _halve(self, size: int, cuts: Sequence[tuple[int, int]], longest: int, where: str) -> None:
        if torch.cuda.is_available():
            DeviceMemory("cuda").release()
        if all(rows <= 1 for rows, _ in cuts):
            raise NotEnoughMemory(
                f"memory ran out{where} with a single sequence of {longest:,} tokens per micro-batch; set "
                "policy.recompute_activations = true or policy.lora, or shorten the episodes"
            )
        largest = min(size, max(tokens for _, tokens in cuts))
        self.tokens = max(1, largest // 2)
        if self._note is not None:
            self._note(
                f"memory ran out{where} with micro-batches of {largest:,} tokens; the step is computed again with "
                f"{self.tokens:,} (set train.micro_batch = {self.tokens} to begin with that)"
            )


def out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory has run out, on a GPU or on the CPU."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "DefaultCPUAllocator" in str(error)
