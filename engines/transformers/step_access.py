"""The new tokens of a pass, described by tensors alone, so that a captured pass can be replayed.

A pass has one row of tokens, [1, N], which may be of different sequences: each token has its position and the pages of
its sequence, where the keys of all new tokens are written before any attends. Lengths are not told apart in Python:
positions and pages are read on the device, and the pass has the same operations for all their values.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

StepAttention = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float, int | None], torch.Tensor
]
"""Attention of tokens to the pages of each; see `attend_gathered`."""


class StepAccess:
    """What the tokens of such a pass write and attend to; shared by all layers, and made anew for each forward pass."""

    length = 1
    """Columns that a mask would have; the pass has none."""

    def __init__(self, positions: torch.Tensor, pages: torch.Tensor, width: int, attention: StepAttention) -> None:
        """Keep the tensors; nothing is read from them before the pass.

        Args:
            positions: int64 [N], of the new tokens.
            pages: int64 [N, n], of each token's sequence.
            width: tokens in a page.
            attention: how the pages are attended to.
        """
        self._positions, self._pages, self._width, self._attention = positions, pages, width, attention
        self._targets: dict[int, torch.Tensor] = {}
        self.calls = 0

    @property
    def new(self) -> StepAccess:
        """What writes the new keys and values."""
        return self

    def write(self, block: torch.Tensor, new: torch.Tensor) -> None:
        """Write new keys or values [1, heads, N, size] into a block [pages, heads, width, size]."""
        heads, size = block.shape[1], block.shape[3]
        target = self._targets.get(heads)
        if target is None:  # once for all layers, as a part of the pass
            page = self._pages.gather(1, (self._positions // self._width)[:, None])
            head = page * heads + torch.arange(heads, device=page.device)
            target = (head * self._width + (self._positions % self._width)[:, None]).reshape(-1)
            self._targets[heads] = target
        block.view(-1, size).index_copy_(0, target, new.transpose(1, 2).reshape(-1, size))

    def attend(
        self, query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, scale: float, window: int | None
    ) -> torch.Tensor:
        """Return the attention of the new tokens, [1, N, heads, size], for queries [1, heads, N, size]."""
        self.calls += 1
        asked = query.permute(2, 1, 0, 3)
        out = self._attention(asked, keys, values, self._positions, self._pages, scale, window)
        return out.permute(2, 0, 1, 3)


def attend_gathered(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    positions: torch.Tensor,
    pages: torch.Tensor,
    scale: float,
    window: int | None,
) -> torch.Tensor:
    """Return the attention [B, heads, 1, value size] of each row's query to a copy of its pages, up to its position.

    Args:
        query: [B, heads, 1, size].
        keys: [pages, key heads, width, size].
        values: [pages, key heads, width, value size].
        positions: int64 [B], of the new tokens, whose keys and values are in the pages already.
        pages: int64 [B, n], of each row.
        scale: factor of the scores.
        window: number of tokens that are attended to; None: all.
    """
    rows, heads, _, size = query.shape
    kinds, width = keys.shape[1:3]
    count = pages.shape[1]
    copies = [
        block.index_select(0, pages.reshape(-1))
        .view(rows, count, kinds, width, block.shape[3])
        .transpose(1, 2)
        .reshape(rows, kinds, count * width, block.shape[3])
        for block in (keys, values)
    ]
    at = torch.arange(count * width, device=query.device)
    seen = at <= positions[:, None]
    if window is not None:
        seen = seen & (at > positions[:, None] - window)
    asked = query.reshape(rows, kinds, heads // kinds, size)  # all heads that share their keys at once
    out = torch.nn.functional.scaled_dot_product_attention(
        asked, copies[0], copies[1], attn_mask=seen[:, None, None, :], scale=scale
    )
    return out.reshape(rows, heads, 1, -1)
