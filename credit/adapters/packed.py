"""A table of turns with the tokens of each turn in a trainer's batch."""

from dataclasses import dataclass

import numpy as np

from turncredit.credit.adapters.arrays import numbers_of
from turncredit.credit.advantages import Advantages
from turncredit.credit.errors import BadTable
from turncredit.credit.numerics import group_sums
from turncredit.credit.steps import Bools, Floats, Ints, Steps


@dataclass(frozen=True, eq=False)
class PackedSteps:
    """The turns of a batch, and the mapping back to its tokens.

    Args:
        steps: the table of turns, N rows.
        place: int64 [B, L], the row of `steps` to which each token of the batch belongs; -1 for tokens that are not
            trained: prompts, observations, padding, inactive rows.
    """

    steps: Steps
    place: Ints

    def spread(self, values: Floats) -> Floats:
        """Return one number per turn at each of its tokens, float64 [B, L]; zero at other tokens.

        Args:
            values: float64 [N].

        Raises:
            BadTable: the number of values is not N.
        """
        if len(values) != len(self.steps):
            raise BadTable(f"this batch has {len(self.steps)} turns, got {len(values)} values of another table")
        out: Floats = np.append(values, 0.0)[self.place]  # -1 is the zero at the end
        return out

    def gather(self, values: Floats) -> Floats:
        """Return the mean of token values over each turn, float64 [N]; zero for a turn without tokens.

        It inverts `spread`, and converts token advantages of another implementation for comparison.

        Args:
            values: float64 [B, L].

        Raises:
            BadTable: the shape is wrong, or a value of a turn is not finite.
        """
        given = numbers_of("values", values, self.place.shape, inside=self.place >= 0)
        return averages(given, self.place, len(self.steps))

    def tokens(self, advantages: Advantages) -> Floats:
        """Return the advantage of every token, float64 [B, L]; zero outside the trained tokens.

            weight * value of the token's turn; 0 for dropped turns

        In a loss that is linear in the advantage (policy gradient, PPO), the weight of a turn is a factor of its loss.
        A loss that averages over tokens should also use `mask`, which excludes dropped turns.

        Args:
            advantages: the advantages of `steps`.
        """
        return self.spread(np.where(advantages.keep, advantages.weight * advantages.values, 0.0))

    def mask(self, advantages: Advantages) -> Bools:
        """Return the tokens to train on, bool [B, L]: the trained tokens of the batch without dropped turns.

        Args:
            advantages: the advantages of `steps`.
        """
        return self.spread(advantages.keep.astype(np.float64)) > 0.0


def averages(value: Floats, place: Ints, count: int) -> Floats:
    """Return the mean of the tokens of each turn, float64 [count]; zero for a turn without tokens.

    Args:
        value: float64 [B, L]; values outside turns are ignored.
        place: int64 [B, L], the turn of each token, or -1.
        count: number of turns.
    """
    mine = place >= 0
    total = group_sums(place[mine], value[mine], count)
    return total / np.maximum(np.bincount(place[mine], minlength=count), 1)


def unseen_turns(place: Ints, turns: Ints, seen: Ints) -> Ints:
    """Return the turn of each token where some rows have turns without trained tokens, int64 [B, L].

    Args:
        place: int64 [B, L], the run number of each token, or -1.
        turns: int64 [B], how many turns each row has.
        seen: int64 [B], how many of them have tokens: all or none.
    """
    missing = np.cumsum(np.where(seen == 0, turns, 0))
    return np.where(place >= 0, place + missing[:, None], -1)


def runs(mask: Bools) -> tuple[Ints, Ints, Ints]:
    """Return the unbroken runs of True in each row: row and start, int64 [R] each, and run number, int64 [B, L].

        >>> rows, starts, place = runs(np.array([[True, True, False, True]]))
        >>> rows.tolist(), starts.tolist(), place.tolist()
        ([0, 0], [0, 3], [[0, 0, -1, 1]])

    Args:
        mask: bool [B, L].

    Returns:
        The runs by row, left to right; the run number is -1 outside.
    """
    starting = mask.copy()
    starting[:, 1:] &= ~mask[:, :-1]
    rows, starts = np.nonzero(starting)
    number = (np.cumsum(starting) - 1).reshape(mask.shape)
    return rows, starts, np.where(mask, number, -1)
