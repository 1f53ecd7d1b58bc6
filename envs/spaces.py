"""The space of texts: any string up to a length.

Gymnasium's own Text space fixes a set of characters, and checks every character against it; what a model writes and
what an environment answers have no such set. Only the length is bounded here, so that an observation that grows
without end is noticed.

Left out on purpose: flattening to arrays (tokens are the business of the sampler), and lone surrogates, which are no
text: they cannot be written to a file.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from gymnasium.spaces import Space

__all__ = ["LONGEST", "Text"]

LONGEST: Final = 1 << 20
"""Default bound in code points: room for any page of text, and far too small for a runaway log."""

# What sample() draws from: letters weigh most, and the rest is what careless code trips over.
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
        """Make the space.

        Args:
            max_length: most code points of a member.
            seed: seed of `sample`.

        Raises:
            ValueError: `max_length` is negative; no string is that short.
        """
        if max_length < 0:
            raise ValueError(f"max_length must be 0 or more, got {max_length}")
        self.max_length = int(max_length)
        super().__init__(dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: texts of any characters have no array of fixed shape."""
        return False

    def contains(self, x: Any) -> bool:
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
        """Return a random string of up to 64 code points (or `max_length`), the same for the same seed.

        Raises:
            ValueError: a mask or probability was given; there is no finite set of members to weigh.
        """
        if mask is not None or probability is not None:
            raise ValueError("Text.sample takes no mask and no probability: its members cannot be listed")
        length = int(self.np_random.integers(0, min(self.max_length, _SAMPLED) + 1))
        return "".join(_ALPHABET[i] for i in self.np_random.integers(0, len(_ALPHABET), size=length))

    def __eq__(self, other: object) -> bool:
        """Equal when the bound is; the state of the random generator does not matter."""
        return isinstance(other, Text) and self.max_length == other.max_length

    def __hash__(self) -> int:
        """Hash by what equality compares."""
        return hash((Text, self.max_length))

    def __repr__(self) -> str:
        """Return the call that makes this space."""
        return f"Text(max_length={self.max_length})"
