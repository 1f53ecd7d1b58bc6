"""Program output as observations: of bounded length, and without unprintable characters."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["escape_unprintable", "truncate"]

_UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def escape_unprintable(text: str) -> str:
    """Return a text with unprintable characters escaped, for binary output.

    >>> shown("a\\x00b")
    'a\\\\x00b'
    """
    return _UNPRINTABLE.sub(lambda found: f"\\x{ord(found.group()):02x}", text.replace("\r\n", "\n"))


def truncate(text: str, budget: int) -> str:
    """Return a text of about `budget` characters: its start, its end, and how much was left out between.

    >>> cut("a" * 6 + "-" * 90 + "z" * 4, 9)
    'aaaaaa\\n[... 91 characters left out ...]\\nzzz'
    """
    if len(text) <= budget:
        return text
    head = budget * 2 // 3
    tail = budget - head
    return f"{text[:head]}\n[... {len(text) - budget:,} characters left out ...]\n{text[-tail:]}"
