"""What a family of programs draws, and what its programs are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Final

__all__ = ["DRAWS", "LETTERS", "WORDS", "FunctionDraft"]

WORDS: Final = (
    "pear",
    "fig",
    "plum",
    "kiwi",
    "apple",
    "lime",
    "nut",
    "bean",
    "corn",
    "rice",
    "tea",
    "egg",
    "oat",
    "level",
)
LETTERS: Final = "abcde"


@dataclass(frozen=True, slots=True)
class FunctionDraft:
    """A function as a family draws it.

    Args:
        key: what tells it from the other drafts of its family: its parameters.
        says: what it returns, with the arguments' capitals for names: "the larger of A and B".
        code: its text.
        takes: kinds of its arguments, in their order, as in `DRAWS`.
        gives: kind of its value; "" for one that no other function takes.
    """

    key: str
    says: str
    code: str
    takes: tuple[str, ...]
    gives: str = ""


def _text(rng: Random) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, 7)))


def _pairs(rng: Random) -> dict[str, int]:
    return {rng.choice(WORDS): rng.randint(0, 9) for _ in range(rng.randint(0, 4))}


DRAWS: Final[dict[str, Callable[[Random], Any]]] = {
    "int": lambda rng: rng.randint(-9, 9),
    "count": lambda rng: rng.randint(0, 9),
    "positive": lambda rng: rng.randint(1, 12),
    "number": lambda rng: rng.randint(0, 999),
    "ints": lambda rng: [rng.randint(-9, 9) for _ in range(rng.randint(0, 6))],
    "some": lambda rng: [rng.randint(-9, 9) for _ in range(rng.randint(1, 6))],
    "text": _text,
    "line": lambda rng: " ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 4))),
    "words": lambda rng: [rng.choice(WORDS) for _ in range(rng.randint(0, 5))],
    "counts": _pairs,
    "rows": lambda rng: [[rng.randint(0, 9) for _ in range(3)] for _ in range(rng.randint(1, 3))],
    "tree": lambda rng: _tree(rng, 3),
    "marks": lambda rng: "".join(rng.choice("()") for _ in range(rng.randint(0, 6))),
}
"""What arguments are drawn from, by kind."""


def _tree(rng: Random, depth: int) -> list[Any]:
    return [
        _tree(rng, depth - 1) if depth and rng.random() < 0.35 else rng.randint(0, 9) for _ in range(rng.randint(0, 3))
    ]
