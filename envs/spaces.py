"""The space of all strings up to a length.

Gymnasium's own Text space checks every character against a fixed set, which model outputs and observations do not have.
This space bounds only the length, so that observations that grow without end are noticed. Lone surrogates are not
members, since they cannot be written to a file; flattening to arrays is not supported.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from gymnasium.spaces import Space

__all__ = ["LONGEST", "Text"]

LONGEST: Final = 1 << 20
"""Default bound in code points: enough for any page of text, too small for a runaway log."""

# sample() draws from these: mostly letters, and characters that careless code trips over.
_ALPHABET: Final = (
    "abcdefghijklmnopqrstuvwxyz" * 4 + "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 \t\n.,:;!?'\"<>{}[]%\\éßЖ語🙂"
)
_SAMPLED: Final = 64


class Text(Space[str]):
    """Strings of at most `max_length` code points, the empty string included.

    >>> "go to desk 1" in Text(), "go to desk 1" in Text(max_length=4), 7 in Text()
    (True, False, False)
    """

    def __init__(self, max_length: int = LONGEST, *, seed: int | np.random.Generator | None = None) -> None:
        """Create the space.

        Args:
            max_length: maximum number of code points.
            seed: seed of `sample`.

        Raises:
            ValueError: `max_length` is negative.
        """
        if max_length < 0:
            raise ValueError(f"max_length must be >= 0, got {max_length}")
        self.max_length = int(max_length)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: strings have no array of fixed shape."""
        return False

    def contains(self, x: object) -> bool:
        """Return whether `x` is a string within the bound that can be written as UTF-8."""
        if not isinstance(x, str) or len(x) > self.max_length:
            return False
        if x.isascii():
            return True
        try:
            x.encode("utf-8")
        except UnicodeEncodeError:
            return False
        return True

    def sample(self, mask: None = None, probability: None = None) -> str:
        """Return a random string of up to 64 code points (or `max_length`).

        Raises:
            ValueError: `mask` or `probability` is given; the members cannot be listed.
        """
        if mask is not None or probability is not None:
            raise ValueError("Text.sample supports neither mask nor probability, since its members cannot be listed")
        length = int(self.np_random.integers(0, min(self.max_length, _SAMPLED) + 1))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(0, len(_ALPHABET), size=length))

    def __eq__(self, other: object) -> bool:
        """Return whether the bounds are equal; the random generators do not matter."""
        return isinstance(other, Text) and self.max_length == other.max_length

    def __hash__(self) -> int:
        """Return a hash consistent with equality."""
        return hash((Text, self.max_length))

    def __repr__(self) -> str:
        """Return the constructor call of this space."""
        return f"Text(max_length={self.max_length})"
