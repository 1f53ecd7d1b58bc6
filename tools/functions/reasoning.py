"""Which part of a model's text may hold calls."""

from __future__ import annotations

__all__ = ["spoken"]


def spoken(text: str) -> str:
    """Return what is not reasoning: the text after the last `</think>` and before a `<think>` that is not closed.

    >>> spoken("<think>shall I <find>x</find>?</think>yes"), spoken("yes<think>no")
    ('yes', 'yes')
    """
    return text.rpartition("</think>")[2].partition("<think>")[0]
