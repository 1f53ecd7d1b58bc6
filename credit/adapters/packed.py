"""A table of turns that remembers which tokens each turn has in the batch of a trainer."""

from dataclasses import dataclass

import numpy as np

from turnwise.credit.adapters.arrays import numbers_of
from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import group_sums
from turnwise.credit.errors import BadTable
from turnwise.credit.steps import Bools, Floats, Ints, Steps


@dataclass(frozen=True, eq=False)
class PackedSteps:
    """The turns of a batch, and the way back to its tokens.

    Args:
        steps: the table of turns, N rows.
        place: int64 [B, L], the row of `steps` to which each token of the batch belongs; -1 for tokens that are not
            trained: prompts, the environment's answers, padding, rows that are not active.
    """

    steps: Steps
    place: Ints

    def spread(self, values: Floats) -> Floats:
        """Return any one number a turn at each of its tokens, float64 [B, L]; zero at the others.

        Args:
            values: float64 [N].

        Raises:
            BadTable: there are not N of them.
        """
        if len(values) != len(self.steps):
            raise BadTable(f"this batch has {len(self.steps)} turns, got {len(values)} values of another table")
        out: Floats = np.append(values, 0.0)[self.place]  # -1 is the zero at the end
        return out

    def gather(self, values: Floats) -> Floats:
        """Return numbers of tokens as one number a turn, float64 [N]: the mean over its tokens, zero without any.

        What `spread` has spread comes back. So do token advantages of another implementation, to be compared.

        Args:
            values: float64 [B, L].

        Raises:
            BadTable: they have another shape, or one of a turn's is not finite.
        """
        given = numbers_of("values", values, self.place.shape, inside=self.place >= 0)
        return averages(given, self.place, len(self.steps))

    def tokens(self, advantages: Advantages) -> Floats:
        """Return the advantage of every token, float64 [B, L]; zero at tokens that are not trained.

            weight * value of the token's turn, and 0 where the method drops the turn

        In a loss that is linear in the advantage (policy gradient, PPO's clip) a factor of the advantage is one of the
        loss. A loss that divides by the number of tokens should take `mask` too, so as not to count dropped ones.

        Args:
            advantages: of `steps`.
        """
        return self.spread(np.where(advantages.keep, advantages.weight * advantages.values, 0.0))

    def mask(self, advantages: Advantages) -> Bools:
        """Return which tokens are to be trained, bool [B, L]: those of the batch less the turns that the method drops.

        Args:
            advantages: of `steps`.
        """
        return self.spread(advantages.keep.astype(np.float64)) > 0.0


def averages(value: Floats, place: Ints, count: int) -> Floats:
    """Return the mean of the tokens of each turn, float64 [count]; zero for a turn without tokens.

    Args:
        value: float64 [B, L]; tokens of no turn do not count, whatever they are.
        place: int64 [B, L], the turn of each token, or -1.
        count: number of turns.
    """
    mine = place >= 0
    total = group_sums(place[mine], value[mine], count)
    return total / np.maximum(np.bincount(place[mine], minlength=count), 1)


def runs(mask: Bools) -> tuple[Ints, Ints, Ints]:
    """Return the unbroken runs of true values of each row: row and first place, int64 [R] each, and place int64 [B, L].

        >>> rows, starts, place = runs(np.array([[True, True, False, True]]))
        >>> rows.tolist(), starts.tolist(), place.tolist()
        ([0, 0], [0, 3], [[0, 0, -1, 1]])

    Args:
        mask: bool [B, L].

    Returns:
        The runs row after row, left to right; `place` is the number of the run of each token, -1 outside.
    """
    starting = mask.copy()
    starting[:, 1:] &= ~mask[:, :-1]
    rows, starts = np.nonzero(starting)
    number = (np.cumsum(starting) - 1).reshape(mask.shape)
    return rows, starts, np.where(mask, number, -1)
