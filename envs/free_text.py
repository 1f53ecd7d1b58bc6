"""Free text as a player without any skill writes it: words that were read, in the forms that the environment names."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import Final

__all__ = ["candidates", "places", "random_text"]

_READ: Final = 8000
"""Characters at the end of a text in which names are looked for."""
_NAMES: Final = re.compile(
    r"\"[^\"\n]{1,60}\"|'[^'\n]{1,60}'|\d[\d.,:/-]*\d|\d|\b[A-Z][\w'-]*(?: [A-Z][\w'-]*)*|\b[a-z]{3,}\b"
)


def places(text: str) -> list[tuple[str, int]]:
    """Return all names, numbers and quoted texts, each with the place where it begins, in the order of the text."""
    first = max(0, len(text) - _READ)
    matches = ((match.group().strip("\"'"), match.start() + first) for match in _NAMES.finditer(text[first:]))
    return [(name, at) for name, at in matches if name]


def candidates(texts: Sequence[str]) -> list[str]:
    """Return all names, numbers and quoted texts, in the order in which they are read, without repetition."""
    return list(dict.fromkeys(name for text in texts for name, _ in places(text)))


def random_text(forms: Sequence[str], texts: Sequence[str], rng: random.Random) -> str:
    """Return one of the forms with a random word of the texts in the place of each "...".

    >>> random_text(["search[...]"], ["red"], random.Random(0))
    'search[red]'
    """
    words = candidates(texts) or [""]
    first, *others = rng.choice(forms).split("...")
    return first + "".join(rng.choice(words) + part for part in others)
