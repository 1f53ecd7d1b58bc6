"""Many strings in two arrays, so that a million of them need no objects and can lie in a mapped file."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class Strings:
    """Strings as one run of UTF-8 bytes and the places where each ends.

    >>> strings = Strings.of(["ab", "b"])
    >>> strings[1], strings.find("ab"), strings.find("z")
    ('b', 0, None)

    Args:
        text: uint8 [bytes], all of them, one after the other.
        ends: int64 [n + 1], where each ends, behind a zero.
    """

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        """Take both arrays as they are."""
        self.text, self.ends = text, ends

    @classmethod
    def of(cls, strings: Iterable[str]) -> "Strings":
        """Return the strings packed; lone surrogates are kept.

        Args:
            strings: any; for `find` they must ascend, without repeats.
        """
        raw = [string.encode("utf-8", "surrogatepass") for string in strings]
        ends = np.zeros(len(raw) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in raw], out=ends[1:])
        return cls(np.frombuffer(b"".join(raw), dtype=np.uint8), ends)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ends) - 1

    def _raw(self, row: int) -> bytes:
        return self.text[self.ends[row] : self.ends[row + 1]].tobytes()

    def __getitem__(self, row: int) -> str:
        """Return one of them."""
        return self._raw(row).decode("utf-8", "surrogatepass")

    def find(self, string: str) -> int | None:
        """Return the row of a string among ascending ones, by halving; None if it is not there.

        Args:
            string: what to look for.
        """
        wanted, low, high = string.encode("utf-8", "surrogatepass"), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self._raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self._raw(low) == wanted else None
