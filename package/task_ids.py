"""Ids of tasks: which part of a mixture a task belongs to, and its id in the part itself."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["part_of", "within"]


def part_of(task: str, names: Collection[str]) -> str:
    """Return the name of a task's part; "" if it belongs to none.

    >>> names = ["search", "household/tiny", "household/small"]
    >>> part_of("household/tiny/train/tiny/000003", names), part_of("train/tiny/000003", names)
    ('household/tiny', '')

    Args:
        task: id of a task, or of an episode.
        names: names of the parts, or beginnings of them up to a "/".
    """
    words = task.split("/")
    both, first = "/".join(words[:2]), words[0]  # names have at most two words
    return both if both in names else first if first in names else ""


def within(task: str, part: str) -> str:
    """Return the id that a task of a part has in the part itself."""
    return task[len(part) + 1 :]
