"""Similarity of texts: thefuzz's `token_set_ratio`, which WebShop uses, implemented with rapidfuzz."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from rapidfuzz import fuzz, utils

__all__ = ["ALIKE", "alike", "prepared", "token_set_ratio"]

ALIKE: Final = 85
"""Texts match if their ratio is above this."""

_LATIN: Final = dict.fromkeys(range(128, 256))


@lru_cache(maxsize=1 << 16)
def prepared(text: str) -> str:
    """Return a text in lower case, without U+0080 to U+00FF, other signs replaced by blanks, stripped.

    >>> prepared("  Café (2-Pack) ")
    'caf  2 pack'
    """
    return utils.default_process(text.translate(_LATIN))


@lru_cache(maxsize=1 << 17)
def token_set_ratio(text: str, other: str) -> int:
    r"""Return the similarity of the word sets of two texts, from 0 to 100.

    With $I$ the common words, $A$ and $B$ the words of one text only (each joined in alphabetical order), and
    $r(x, y) = 100 (1 - d / (|x| + |y|))$ for $d$ insertions and deletions: 100 if $I$ is not empty and $A$ or $B$ is,
    else the largest of $r(IA, IB)$, $r(I, IA)$ and $r(I, IB)$, rounded half to even. 0 if a text has no words.

    Source: SeatGeek, thefuzz 0.22, `token_set_ratio`.

    >>> token_set_ratio("Long Sleeve", "sleeve, long")
    100
    """
    return round(fuzz.token_set_ratio(prepared(text), prepared(other)))


def alike(text: str, other: str) -> bool:
    """Return whether the `token_set_ratio` of two texts is above `ALIKE`."""
    return token_set_ratio(text, other) > ALIKE
