"""How a title is cut into words, for every tagger of ours."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["words"]

_WORD: Final = re.compile(r"[\w'-]+|[^\w\s]")


def words(title: str) -> list[str]:
    """Return the words of a title, hyphens and apostrophes in them, and its other signs one by one.

    >>> words("Men's T-Shirt, 2-Pack (Navy)")
    ["Men's", 'T-Shirt', ',', '2-Pack', '(', 'Navy', ')']
    """
    return _WORD.findall(title)
