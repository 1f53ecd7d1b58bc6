"""Program output as observations: of bounded length, and without unprintable characters."""

from __future__ import annotations

from typing import Final

__all__ = ["escape_unprintable", "truncate"]

_UNPRINTABLE: Final = {
    code: f"\\x{code:02x}" for code in (*range(9), *range(0x0B, 0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000))
}


def escape_unprintable(text: str) -> str:
    """Return a text with unprintable characters escaped, for binary output.

    >>> escape_unprintable("a\\x00b")
    'a\\\\x00b'
    """
    return text.replace("\r\n", "\n").translate(_UNPRINTABLE)


def truncate(text: str, budget: int) -> str:
    """Return a text of about `budget` characters: its start, its end, and how much was left out between.

    >>> truncate("a" * 6 + "-" * 90 + "z" * 4, 9)
    'aaaaaa\\n[... 91 characters left out ...]\\nzzz'
    """
    if len(text) <= budget:
        return text
    head = budget * 2 // 3
    tail = budget - head
    return f"{text[:head]}\n[... {len(text) - budget:,} characters left out ...]\n{text[-tail:]}"
