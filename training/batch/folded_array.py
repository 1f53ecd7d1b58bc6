"""Arrays of a batch on their way to other ranks: without padding, and without what was not sampled.

A batch has eight numbers for each place of its rectangle, most of which hold nothing: padding, and prompts, which have
no log-probability, advantage or version. Only places that hold something travel, and where they begin and end.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class FoldedArray:
    """An array of which most places hold the same.

    Attributes:
        shape: of the array.
        dtype: of the array, as numpy names it.
        empty: what is in all places that are left out.
        places: where places that are there and others take turns, if these runs are long; else a bit for each place.
        runs: whether they are long.
        values: of the places that are there; integers in the smallest type that has room for them.
    """

    shape: tuple[int, ...]
    dtype: str
    empty: int
    places: NDArray[np.generic]
    runs: bool
    values: NDArray[np.generic]

    @classmethod
    def of(cls, array: NDArray[np.generic], empty: int = 0) -> "FoldedArray":
        """Return an array, folded.

        Args:
            array: of any shape.
            empty: what most places hold.
        """
        blank = np.array(empty, dtype=array.dtype)
        there = array != blank
        if array.dtype.kind == "f":  # -0.0 equals 0.0 and is not the same
            there |= np.signbit(array) != np.signbit(blank)
        turns = _smallest(np.flatnonzero(np.diff(there.reshape(-1), prepend=False)))
        bits = np.packbits(there)
        runs = turns.nbytes < bits.nbytes
        return cls(array.shape, array.dtype.str, empty, turns if runs else bits, runs, _smallest(array[there]))

    def unfold(self) -> NDArray[np.generic]:
        """Return the array, bit for bit."""
        array = np.full(self.shape, self.empty, dtype=self.dtype)
        if self.runs:
            there = np.zeros(array.size, dtype=np.bool_)
            there[self.places.astype(np.int64)] = True
            there = np.logical_xor.accumulate(there)
        else:
            there = np.unpackbits(self.places.astype(np.uint8), count=array.size).astype(np.bool_)
        array[there.reshape(self.shape)] = self.values
        return array


def _smallest(values: NDArray[np.generic]) -> NDArray[np.generic]:
    if values.dtype.kind != "i" or not values.size:
        return values
    room = np.promote_types(np.min_scalar_type(int(values.min())), np.min_scalar_type(int(values.max())))
    return values.astype(room)
