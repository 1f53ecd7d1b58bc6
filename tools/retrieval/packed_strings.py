"""Many strings in two arrays, so that a million of them need no Python objects and can be mapped from a file."""

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class PackedStrings:
    """Strings as UTF-8 bytes with the offsets at which each one ends.

    >>> strings = PackedStrings.of(["ab", "b"])
    >>> strings[1], strings.find("ab"), strings.find("z")
    ('b', 0, None)

    Args:
        text: uint8 [bytes], all strings concatenated.
        ends: int64 [n + 1], offset of the end of each string, after a leading zero.
    """

    def __init__(self, text: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self.text, self.ends = text, ends

    @classmethod
    def of(cls, strings: Iterable[str]) -> "PackedStrings":
        """Pack strings; lone surrogates are kept. For `find`, they must be in ascending order without duplicates."""
        raw = [string.encode("utf-8", "surrogatepass") for string in strings]
        ends = np.zeros(len(raw) + 1, dtype=np.int64)
        np.cumsum([len(encoded) for encoded in raw], out=ends[1:])
        return cls(np.frombuffer(b"".join(raw), dtype=np.uint8), ends)

    def __len__(self) -> int:
        """Return the number of strings."""
        return len(self.ends) - 1

    def _raw(self, row: int) -> bytes:
        return self.text[self.ends[row] : self.ends[row + 1]].tobytes()

    def __getitem__(self, row: int) -> str:
        """Return a string by its row."""
        return self._raw(row).decode("utf-8", "surrogatepass")

    def find(self, string: str) -> int | None:
        """Return the row of a string by binary search; None if it is not present."""
        encoded = string.encode("utf-8", "surrogatepass")
        row = bisect_left(range(len(self)), encoded, key=self._raw)
        return row if row < len(self) and self._raw(row) == encoded else None
