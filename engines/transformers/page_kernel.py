"""Attention of one new token for each row to the pages of its sequence, as Triton kernels for CUDA.

The tokens of a row are split among several programs, since a few rows alone would leave most of a GPU idle; a second
kernel combines what these found with the log-sum-exps of their scores. Every number that changes between two tokens is
read from a tensor, so that a captured launch can be replayed. float32 is multiplied in full precision.

Not included: more than one new token, and scores with caps or biases.
"""

# ruff: noqa: ANN001, ANN202 - Triton compiles kernels anew for the types that they are called with

from __future__ import annotations

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

BLOCK = 64
"""Most tokens that a program looks at at once; a block lies in one page."""

TILE = 32768
"""Most bytes of the keys of a block: keys and values of two blocks have to fit into the memory of a multiprocessor."""

LEAST = 16
"""Smallest side of a matrix that Triton multiplies."""

SPLITS = 32
"""Most programs among which the tokens of a row are split."""

PROGRAMS = 264
"""Programs that occupy a large GPU: two for each of the 132 multiprocessors of an H100."""


def attend_pages(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    pages: torch.Tensor,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """Return the attention [B, heads, 1, value size] of each row's query to its tokens up to its position.

    Args:
        query: [B, heads, 1, size].
        keys: [pages, key heads, width, size]; `width` is a power of two and at least 16.
        values: [pages, key heads, width, value size].
        positions: int64 [B], of the new tokens, whose keys and values are in the pages already.
        pages: int64 [B, n], of each row.
        scale: factor of the scores.
        window: number of tokens that are attended to; None: all.
    """
    rows, heads, _, size = query.shape
    kinds, width, depth = keys.shape[1], keys.shape[2], values.shape[3]
    side = triton.next_power_of_2(max(size, depth, LEAST))
    block = max(LEAST, min(BLOCK, width, TILE // (side * keys.element_size())))
    splits = min(SPLITS, triton.next_power_of_2(triton.cdiv(PROGRAMS, rows * kinds)), pages.shape[1] * width // block)
    splits = 1 << (splits.bit_length() - 1)
    query = query.reshape(rows, heads, size).contiguous()
    out = torch.empty((rows, heads, depth), dtype=query.dtype, device=query.device)
    partial = torch.empty((rows, heads, splits, depth), dtype=torch.float32, device=query.device)
    total = torch.empty((rows, heads, splits), dtype=torch.float32, device=query.device)
    groups = heads // kinds
    sides = [max(LEAST, triton.next_power_of_2(side)) for side in (groups, size, depth)]
    shape = (groups, splits, window or 0, width, block, size, depth, *sides)
    _attend[(rows, kinds, splits)](
        query,
        keys,
        values,
        positions,
        pages,
        partial,
        total,
        scale,
        pages.shape[1],
        kinds,
        shape,
        num_warps=4,
        num_stages=2,
    )
    _combine[(rows * heads,)](partial, total, out, splits, depth, triton.next_power_of_2(depth), num_warps=2)
    return out[:, :, None]


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _attend(  # type: ignore[no-untyped-def]
    query,
    keys,
    values,
    positions,
    pages,
    partial,
    total,
    scale,
    count,
    kinds,
    SHAPE: tl.constexpr,
):
    """Attend to the tokens of one row that are this program's, with the heads that share their keys."""
    GROUPS: tl.constexpr = SHAPE[0]
    SPLIT: tl.constexpr = SHAPE[1]
    WINDOW: tl.constexpr = SHAPE[2]
    WIDTH: tl.constexpr = SHAPE[3]
    TOKENS: tl.constexpr = SHAPE[4]
    SIZE: tl.constexpr = SHAPE[5]
    DEPTH: tl.constexpr = SHAPE[6]
    QUERIES: tl.constexpr = SHAPE[7]  # and the others, padded to sides that can be multiplied
    SIZE_2: tl.constexpr = SHAPE[8]
    DEPTH_2: tl.constexpr = SHAPE[9]
    row, kind, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    position = tl.load(positions + row)
    lowest = tl.maximum(position - WINDOW + 1, 0) if WINDOW > 0 else position * 0
    # Blocks from that of the first visible token to that of the last, in equal shares.
    first, last = lowest // TOKENS, position // TOKENS + 1
    share = (last - first + SPLIT - 1) // SPLIT
    begin = first + split * share
    end = tl.minimum(begin + share, last)
    member = tl.arange(0, QUERIES)
    inside, across, token = tl.arange(0, SIZE_2), tl.arange(0, DEPTH_2), tl.arange(0, TOKENS)
    head = (row * kinds + kind) * GROUPS + member
    asked = tl.load(
        query + head[:, None] * SIZE + inside[None, :],
        mask=(member[:, None] < GROUPS) & (inside[None, :] < SIZE),
        other=0.0,
    )
    highest = tl.full([QUERIES], float("-inf"), tl.float32)
    mass = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, DEPTH_2], tl.float32)
    for block in range(begin, end):
        start = block * TOKENS
        page = tl.load(pages + row * count + start // WIDTH).to(tl.int64)
        vector = (page * kinds + kind) * WIDTH + start % WIDTH + token
        key = tl.load(
            keys + vector[None, :] * SIZE + inside[:, None],
            mask=inside[:, None] < SIZE,
            other=0.0,
        )
        score = tl.dot(asked, key, input_precision="ieee") * scale
        seen = (start + token <= position) & (start + token >= lowest)
        score = tl.where(seen[None, :], score, float("-inf"))
        # Each block has a visible token, so that the maximum is finite.
        top = tl.maximum(highest, tl.max(score, 1))
        weight = tl.exp(score - top[:, None])
        fade = tl.exp(highest - top)
        value = tl.load(
            values + vector[:, None] * DEPTH + across[None, :],
            mask=across[None, :] < DEPTH,
            other=0.0,
        )
        sums = sums * fade[:, None] + tl.dot(weight.to(value.dtype), value, input_precision="ieee")
        mass = mass * fade + tl.sum(weight, 1)
        highest = top
    # A program without tokens writes zeros with the weight exp(-inf).
    empty = mass == 0.0
    mass = tl.where(empty, 1.0, mass)
    target = head * SPLIT + split
    tl.store(
        partial + target[:, None] * DEPTH + across[None, :],
        sums / mass[:, None],
        mask=(member[:, None] < GROUPS) & (across[None, :] < DEPTH),
    )
    tl.store(total + target, tl.where(empty, float("-inf"), highest + tl.log(mass)), mask=member < GROUPS)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _combine(  # type: ignore[no-untyped-def]
    partial, total, out, SPLIT: tl.constexpr, DEPTH: tl.constexpr, DEPTH_2: tl.constexpr
):
    """Combine what the programs of one head found."""
    head = tl.program_id(0)
    split, across = tl.arange(0, SPLIT), tl.arange(0, DEPTH_2)
    masses = tl.load(total + head * SPLIT + split)
    weight = tl.exp(masses - tl.max(masses, 0))
    weight = weight / tl.sum(weight, 0)
    parts = tl.load(
        partial + (head * SPLIT + split)[:, None] * DEPTH + across[None, :],
        mask=across[None, :] < DEPTH,
        other=0.0,
    )
    tl.store(out + head * DEPTH + across, tl.sum(parts * weight[:, None], 0), mask=across < DEPTH)
