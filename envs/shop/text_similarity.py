"""How alike two texts are, as the original asks it: thefuzz's `token_set_ratio`, on top of rapidfuzz.

thefuzz itself is not needed: what it adds to rapidfuzz is the preparation of the texts and the rounding, which are
here.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rapidfuzz import fuzz, utils

__all__ = ["ALIKE", "alike", "prepared", "token_set_ratio"]

ALIKE: Final = 85
"""Two texts are alike when their ratio is above this."""

_LATIN: Final = dict.fromkeys(range(128, 256))


@lru_cache(maxsize=1 << 16)
def prepared(text: str) -> str:
    """Return the text as it is compared: without U+0080 to U+00FF, other signs as blanks, in small letters, stripped.

    >>> prepared("  Café (2-Pack) ")
    'caf  2 pack'
    """
    return utils.default_process(text.translate(_LATIN))


@lru_cache(maxsize=1 << 17)
def token_set_ratio(one: str, other: str) -> int:
    r"""Return how alike the sets of words of two texts are, from 0 to 100.

    With $I$ the words that both have, $A$ and $B$ those that only one has (each joined in alphabetical order), and
    $r(x, y) = 100 (1 - d / (|x| + |y|))$ with $d$ insertions and deletions: 100 when $I$ is not empty and $A$ or $B$
    is, else the largest of $r(IA, IB)$, $r(I, IA)$ and $r(I, IB)$, rounded half to even. 0 when one has no words.

    Source: SeatGeek, thefuzz 0.22, `token_set_ratio`.

    >>> token_set_ratio("Long Sleeve", "sleeve, long")
    100
    """
    return round(fuzz.token_set_ratio(prepared(one), prepared(other)))


def alike(one: str, other: str) -> bool:
    """Return whether two texts are alike: a `token_set_ratio` above `ALIKE`."""
    return token_set_ratio(one, other) > ALIKE
