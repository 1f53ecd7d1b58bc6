"""Rows of tokens as a forest of their prefixes, in which rows that begin alike share what they have in common.

Each distinct prefix is one token of the forest. Tokens lie depth first: what descends from a token follows it, so "j
sees i" is `i <= j < end[i]`. What a row adds to the rows before it is a branch, which lies in one piece. Without shared
prefixes the forest is the rows one after another.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Branch:
    """What one row adds to the forest.

    Attributes:
        size: number of its tokens, at least 1.
        depth: of its first token, which is the number of tokens that it shares with the row before it.
        path: numbers of the forest's pieces from the root to its last token.
    """

    size: int
    depth: int
    path: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PrefixForest:
    """The N distinct prefixes of B rows of at most L tokens.

    Attributes:
        tokens: int64 [N], the last token of each prefix.
        depth: int64 [N], its position in every row that has it.
        end: int64 [N], number after the last token that descends from it.
        at: int64 [B, L], number of each row's token; -1 where padded.
        branches: in the order of their tokens, which they divide.
        pieces: sizes of consecutive tokens that lie on the same paths.
    """

    tokens: Integers
    depth: Integers
    end: Integers
    at: Integers
    branches: tuple[Branch, ...]
    pieces: tuple[int, ...]

    @classmethod
    def of(cls, tokens: Integers, lengths: Integers, *, share: bool = True) -> "PrefixForest":
        """Return the forest of some rows.

        Args:
            tokens: int64 [B, L], padded on the right.
            lengths: int64 [B].
            share: whether rows share prefixes; if not, they stay in their order.
        """
        order = prefix_order(tokens, lengths) if share else np.arange(len(lengths))
        order = order[lengths[order] > 0]
        shared = common_prefixes(tokens[order], lengths[order]) if share else np.zeros_like(order)
        added = lengths[order] - shared
        starts = np.cumsum(added) - added
        forest_tokens, depth, end = (np.zeros(int(added.sum()), dtype=np.int64) for _ in range(3))
        at = np.full(tokens.shape, -1, dtype=np.int64)
        previous = 0
        for row, common, start, length in zip(
            *(x.tolist() for x in (order, shared, starts, lengths[order])), strict=True
        ):
            stop = start + length - common
            at[row, :common] = at[previous, :common]
            at[row, common:length] = np.arange(start, stop)
            forest_tokens[start:stop], depth[start:stop] = tokens[row, common:length], np.arange(common, length)
            end[at[row, :length]] = stop
            previous = row
        branches, pieces = _branches(at[order], shared, added, starts)
        return cls(forest_tokens, depth, end, at, branches, pieces)

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def spread(self, values: Integers) -> Integers:
        """Return the values [B, L] of tokens that the rows have, by number in the forest, int64 [N]."""
        spread = np.zeros(len(self), dtype=np.int64)
        spread[self.at[self.at >= 0]] = values[self.at >= 0]
        return spread

    @property
    def longest(self) -> int:
        """Number of tokens on the longest path."""
        return int(self.depth.max(initial=-1)) + 1


def _branches(
    at: Integers, shared: Integers, added: Integers, starts: Integers
) -> tuple[tuple[Branch, ...], tuple[int, ...]]:
    """Return the branches of ordered rows, and the sizes of the pieces: a new one begins where paths part."""
    grows = added > 0
    forks = [int(at[row, shared[row] - 1]) + 1 for row in np.flatnonzero(grows & (shared > 0))]
    bounds = np.unique([*forks, *starts[grows].tolist(), int(added.sum())])
    branches = []
    for row in np.flatnonzero(grows):
        path = np.unique(np.searchsorted(bounds, at[row, : shared[row] + added[row]], side="right") - 1)
        branches.append(Branch(int(added[row]), int(shared[row]), tuple(path.tolist())))
    return tuple(branches), tuple(np.diff(bounds).tolist())


def prefix_order(tokens: Integers, lengths: Integers) -> Integers:
    """Return the rows in lexicographic order, in which each shares most with the row before it.

    Args:
        tokens: int64 [B, L], ids below 2^32.
        lengths: int64 [B].
    """
    # bytes with the highest one first compare as the ids do
    keys = [row[:length].tobytes() for row, length in zip(tokens.astype(">u4"), lengths.tolist(), strict=True)]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


def common_prefixes(tokens: Integers, lengths: Integers) -> Integers:
    """Return how many tokens each row shares with the row before it, int64 [B]; 0 for the first."""
    shared = np.zeros(len(lengths), dtype=np.int64)
    if len(lengths) > 1 and tokens.shape[1]:
        differ = tokens[1:] != tokens[:-1]
        first = np.where(differ.any(axis=1), differ.argmax(axis=1), tokens.shape[1])
        shared[1:] = np.minimum(first, np.minimum(lengths[1:], lengths[:-1]))
    return shared


def stand_ins(tokens: Integers, lengths: Integers) -> Integers:
    """Return other numbers for tokens, nearly all of them 0, with which rows begin alike and are ordered as they do.

    `prefix_order` and `common_prefixes` of them are those of the tokens, also where ends of rows are left out: of two
    rows that part, the later one in the order has the larger number.

    Args:
        tokens: int64 [B, L].
        lengths: int64 [B].
    """
    numbers = np.zeros_like(tokens)
    order = prefix_order(tokens, lengths)
    shared = common_prefixes(tokens[order], lengths[order])
    previous = -1
    for row, common in zip(order.tolist(), shared.tolist(), strict=True):
        if previous >= 0:
            numbers[row, :common] = numbers[previous, :common]
            if common < min(lengths[row], lengths[previous]):
                numbers[row, common] = numbers[previous, common] + 1
        previous = row
    return numbers


def distinct_tokens(tokens: Integers, lengths: Integers) -> int:
    """Return the number of distinct prefixes of some rows."""
    order = prefix_order(tokens, lengths)
    return int((lengths[order] - common_prefixes(tokens[order], lengths[order])).sum())


def prefix_micro_batches(tokens: Integers, lengths: Integers, budget: int) -> list[Integers]:
    """Return micro-batches of rows that share much.

    Args:
        tokens: int64 [B, L].
        lengths: int64 [B].
        budget: maximum number of distinct tokens per micro-batch; a longer row is a micro-batch of its own.

    Returns:
        Row numbers, the largest micro-batch first, so that memory runs out early or never. Rows of length 0 are left
        out.
    """
    order = prefix_order(tokens, lengths)
    order = order[lengths[order] > 0]
    shared = common_prefixes(tokens[order], lengths[order])
    cuts: list[tuple[int, list[int]]] = []
    for row, common in zip(order.tolist(), shared.tolist(), strict=True):
        length = int(lengths[row])
        if cuts and cuts[-1][0] + length - common <= budget:
            cuts[-1] = cuts[-1][0] + length - common, [*cuts[-1][1], row]
        else:
            cuts.append((length, [row]))
    return [np.array(rows, dtype=np.int64) for _, rows in sorted(cuts, key=lambda cut: -cut[0])]


def deal_prefixes(tokens: Integers, lengths: Integers, ranks: int) -> list[Integers]:
    """Return the rows of each rank: neighbours in lexicographic order, with about as many distinct tokens for each.

    Args:
        tokens: int64 [B, L].
        lengths: int64 [B].
        ranks: how many.

    Returns:
        Row numbers. Rows of length 0 are left out.
    """
    order = prefix_order(tokens, lengths)
    order = order[lengths[order] > 0]
    added = lengths[order] - common_prefixes(tokens[order], lengths[order])
    middle = np.cumsum(added) - added / 2
    share = np.minimum(ranks - 1, middle * ranks // max(1, int(added.sum()))).astype(np.int64)
    return [order[share == rank] for rank in range(ranks)]
