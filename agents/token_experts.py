"""Which experts of a mixture-of-experts model computed each token of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Experts = NDArray[np.unsignedinteger]
"""Experts of N tokens, uint8 or uint16 [N, layers, K]: the K experts that each layer with a router chose, in the order
in which it chose them."""


def experts_dtype(count: int) -> np.dtype[np.unsignedinteger]:
    """Return the smallest type that holds the number of any of `count` experts."""
    return np.dtype(np.uint8 if count <= 256 else np.uint16)


def agreement(first: Experts, second: Experts) -> int:
    """Return how many tokens at the beginning have the same experts in both."""
    count = min(len(first), len(second))
    if first.shape[1:] != second.shape[1:]:
        return 0
    differ = (first[:count] != second[:count]).any(axis=(1, 2))
    return int(differ.argmax()) if differ.any() else count


def token_codes(tokens: NDArray[np.int64], experts: Sequence[Experts | None]) -> NDArray[np.int64]:
    """Return numbers that are equal where tokens and their experts are, int64 [B, L].

    Args:
        tokens: int64 [B, L].
        experts: of the first tokens of each row; those of the others are unknown, which equals unknown alone.
    """
    code = np.zeros(tokens.shape, dtype=np.int64)
    rows = [row for row, own in enumerate(experts) if own is not None]
    parts = [own[: tokens.shape[1]] for own in experts if own is not None]
    if sum(map(len, parts)):
        flat = np.concatenate(parts)
        flat = flat.reshape(len(flat), -1)
        # the experts of a token as one value, whose bytes are compared
        distinct = np.unique(flat.view(np.dtype((np.void, flat[0].nbytes))), return_inverse=True)[1]
        ends = np.cumsum([len(part) for part in parts])
        for row, part, end in zip(rows, parts, ends.tolist(), strict=True):
            code[row, : len(part)] = distinct.reshape(-1)[end - len(part) : end] + 1
    pairs = tokens * (int(code.max(initial=0)) + 1) + code
    numbers: NDArray[np.int64] = np.unique(pairs, return_inverse=True)[1].reshape(tokens.shape).astype(np.int64)
    return numbers


@dataclass(frozen=True, slots=True, eq=False)
class TurnExperts:
    """The experts of a turn's prompt and response without its last token, which no later token of the turn came from.

    The first tokens, as far as they have the experts of the turn before, are that turn's: a conversation holds the
    experts of each token once.

    Attributes:
        own: experts of the tokens that are not the turn before's.
        before: of the turn before; None where nothing is taken over.
        shared: number of tokens that are taken over.
    """

    own: Experts
    before: TurnExperts | None = None
    shared: int = 0

    @classmethod
    def after(cls, before: TurnExperts | None, experts: Experts) -> TurnExperts:
        """Return the experts of a turn, of which the beginning may be those of the turn before."""
        shared = 0 if before is None else agreement(before.array(), experts)
        return cls(experts[shared:].copy(), before, shared) if shared else cls(experts)

    def __len__(self) -> int:
        """Number of tokens."""
        return self.shared + len(self.own)

    def array(self) -> Experts:
        """Return the experts of all tokens, [N, layers, K]."""
        parts: list[Experts] = []
        end, part = len(self), self
        while part.before is not None:
            parts.append(part.own[: end - part.shared] if end > part.shared else part.own[:0])
            end, part = min(end, part.shared), part.before
        parts.append(part.own[:end])
        return np.concatenate(parts[::-1])

    @property
    def kind(self) -> tuple[tuple[int, ...], np.dtype[np.unsignedinteger]]:
        """Layers and experts of a token, and the type of their numbers."""
        return self.own.shape[1:], self.own.dtype

    def __eq__(self, other: object) -> bool:
        """Whether the same tokens have the same experts."""
        if not isinstance(other, TurnExperts):
            return NotImplemented
        return len(self) == len(other) and np.array_equal(self.array(), other.array())

    def __hash__(self) -> int:
        """Return a number that equal experts have in common."""
        return hash(len(self))
