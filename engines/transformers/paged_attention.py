"""Attention to the pages of a KV cache where they lie, as an attention function of transformers.

Each page is attended to on its own; the results are combined with the weights that the log-sum-exps of the pages give,
which is exact: with out_p the attention to page p alone, and lse_p the log-sum-exp of its scores, the attention to all
pages is the sum over p of w_p out_p, w = softmax over p of lse_p. New tokens of a prompt attend to each other directly.
Rows of different lengths therefore cost what their own tokens cost, and nothing is copied for a batch, not even a page
that several rows hold. Attention windows are masks.

On CUDA, `flash_attention_2` uses the flash-attn package, which reads pages itself.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AttentionInterface

from turncredit.engines.transformers.kvcache import NewTokens, PagedCache, to_device
from turncredit.engines.transformers.step_access import StepAccess

NAME = "turncredit_paged"
"""Name of the attention function in transformers."""

JOINED = 16
"""Rows with more new tokens than this attend to a dense copy of their pages: copying costs less than combining."""

ROW_ALIGNMENT = {"cuda": 16}
"""Elements, by device, of which a mask's rows must begin at a multiple: the fused kernel reads 16 bytes at a time."""

GAPS = 8
"""Number of ranges of pages that are always attended to as views; if there are many more, the pages are copied together
instead (see `COPIED`)."""

COPIED = 4
"""Pages that are copied as quickly as one more range is attended to."""


@dataclass(slots=True)
class Part:
    """Pages that one call attends to: P entries, each for one row of the pass."""

    pages: slice | torch.Tensor
    """A range of pages, int64 [P], or int64 [P, n] for n pages that are joined."""
    rows: torch.Tensor | None
    """Row of each entry, int64 [P]; None: entry i belongs to row i."""
    first: torch.Tensor
    """Position in the sequence of each entry's first token, int64 [P]."""
    held: torch.Tensor
    """Number of tokens of each entry that may be attended to, int64 [P]."""
    sharers: int = 0
    """Rows that hold every page of the range; entry i * pages + j is page j for the i-th of them. 0: each entry has a
    page of its own."""


@dataclass(slots=True)
class PagedAccess:
    """What the rows of one pass attend to; shared by all layers."""

    new: NewTokens
    parts: list[Part]
    table: torch.Tensor
    """Entries of each row in the parts together, int64 [B, n]; -1 where a row has fewer."""
    starts: torch.Tensor
    """Number of tokens of each row in the cache before the pass, int64 [B]."""
    counts: torch.Tensor
    """Number of new tokens of each row, int64 [B]."""
    equal: bool
    """All rows have as many new tokens as the pass has columns."""
    length: int
    """Tokens of the longest row with its new ones."""
    width: int
    """Tokens in a page."""
    pages: torch.Tensor | None = None
    """Pages of each row as int32 [B, n], for the flash-attn package only."""
    calls: int = 0
    _masks: dict[object, torch.Tensor | None] = field(default_factory=dict)

    def mask(self, index: int, window: int | None, groups: int, dtype: torch.dtype) -> torch.Tensor:
        """Return the additive mask of a part, [P, 1, 1 or groups * L, columns]."""
        key = (index, window, groups, dtype)
        mask = self._masks.get(key)
        if mask is None:
            part = self.parts[index]
            columns = self.width * (1 if isinstance(part.pages, slice) or part.pages.ndim == 1 else part.pages.shape[1])
            at = torch.arange(columns, device=part.held.device)
            seen = at < part.held[:, None, None, None]
            if window is not None:
                # Without a window the mask is the same for every query and is broadcast. With one it depends on the
                # query, and the queries of the heads that share their keys lie one after the other (see `_old`).
                asks = self._positions() if part.rows is None else self._positions()[part.rows]
                seen = seen & (asks[:, None, :, None] - (part.first[:, None, None, None] + at) < window)
                seen = seen.repeat(1, 1, groups, 1)
            mask = self._masks[key] = _additive(seen, dtype)
        return mask

    def own_mask(self, window: int | None, dtype: torch.dtype) -> torch.Tensor | None:
        """Return the additive mask [B, 1, L, L] between the new tokens; None if they are simply causal."""
        length = self.new.length
        if self.equal and (window is None or window >= length):
            return None
        key = ("new", window, dtype)
        if key not in self._masks:
            at = torch.arange(length, device=self.counts.device)
            seen = (at[None, :] <= at[:, None]) & (at >= length - self.counts[:, None, None, None])
            if window is not None:
                seen = seen & (at[:, None] - at[None, :] < window)
            self._masks[key] = _additive(seen, dtype)
        return self._masks[key]

    def _positions(self) -> torch.Tensor:
        """Return the position of every new token in its sequence, int64 [B, L]; they are aligned to the right."""
        at = torch.arange(self.new.length, device=self.starts.device)
        return (self.starts + self.counts)[:, None] - self.new.length + at


def make_access(
    new: NewTokens, rows: list[tuple[list[int], int, int]], width: int, *, flash: bool = False
) -> PagedAccess:
    """Return what the rows of a pass attend to.

    A pass of one token for each row attends to the pages only, which hold the new token by then.

    Args:
        new: where the new tokens go.
        rows: pages, number of tokens before the pass, and number of new tokens of each row.
        width: tokens in a page.
        flash: for the flash-attn package.
    """
    device = new.device
    starts, counts = (np.array([row[k] for row in rows], dtype=np.int64) for k in (1, 2))
    reach = starts + (counts if new.length == 1 else 0)
    # A single new token is written before attention and read from its page with the rest. Several new tokens attend to
    # each other apart, since among them the mask is causal, and so their own pages are left out.
    needed = -(-reach // width)
    parts, table = [], np.full((len(rows), 1), -1, dtype=np.int64)
    most = int(needed.max())
    if flash:
        most = int((-(-(starts + counts) // width)).max())
    elif most and new.length > JOINED:
        parts, table = [_joined(rows, reach, most, device)], np.arange(len(rows))[:, None]
    elif most:
        parts, table = _views(rows, reach, needed, width, device)
    pages = None
    if flash:
        filled = np.zeros((len(rows), most), dtype=np.int32)
        for index, (held, _, _) in enumerate(rows):
            filled[index, : len(held[:most])] = held[:most]
        pages = to_device(filled, device)
    return PagedAccess(
        new,
        parts,
        to_device(table, device),
        to_device(starts, device),
        to_device(counts, device),
        bool((counts == new.length).all()),
        int((starts + counts).max()),
        width,
        pages,
    )


def _joined(rows: list[tuple[list[int], int, int]], reach: np.ndarray, most: int, device: torch.device) -> Part:
    pages = np.zeros((len(rows), most), dtype=np.int64)
    for index, (held, _, _) in enumerate(rows):
        pages[index, : len(held[:most])] = held[:most]
    return Part(to_device(pages, device), None, to_device(np.zeros_like(reach), device), to_device(reach, device))


def _views(
    rows: list[tuple[list[int], int, int]], reach: np.ndarray, needed: np.ndarray, width: int, device: torch.device
) -> tuple[list[Part], np.ndarray]:
    """Return views of the pages in use, or one copy of them if they are too scattered, and each row's entries."""
    pages = np.concatenate([np.array(held[:n], dtype=np.int64) for (held, _, _), n in zip(rows, needed, strict=True)])
    owner = np.repeat(np.arange(len(rows)), needed)
    first = np.concatenate([np.arange(n) * width for n in needed])
    held = np.minimum(reach[owner] - first, width)
    # Neighbours in memory are read as one view, without a copy; in which order a row's pages come does not matter to a
    # weighted sum. Positions count only for windows, and travel with each entry (`first`).
    order = np.argsort(pages, kind="stable")
    columns = Columns(*(column[order] for column in (pages, owner, first, held)))
    ranges = _ranges(columns)
    if len(ranges) > max(GAPS, len(pages) // COPIED) or (device.type != "cpu" and any(ends for _, ends in ranges)):
        copied, owners, firsts, tokens = (to_device(column, device) for column in columns)
        parts, entry = [Part(copied, owners, firsts, tokens)], np.arange(len(pages))
    else:
        parts, entry, total = [], np.zeros(len(pages), dtype=np.int64), 0
        for at, sharers in ranges:
            part, places = (_shared_view if sharers else _view)(columns, at, sharers, device)
            parts.append(part)
            entry[at] = total + places
            total += len(part.held)
    table = np.full((len(rows), int(needed.max())), -1, dtype=np.int64)
    table[columns.owner, columns.first // width] = entry
    return parts, table


class Columns(NamedTuple):
    """What is known of the entries of a pass, int64 [P], by rising page."""

    pages: np.ndarray
    owner: np.ndarray
    first: np.ndarray
    held: np.ndarray


def _ranges(columns: Columns) -> list[tuple[np.ndarray, int]]:
    """Return the entries of each range of neighbouring pages, and how many rows hold all of it (0: one for each page).

    Pages of others in a range are computed along, and no row reads the result; wide gaps begin a new range.
    """
    distinct, start, count = np.unique(columns.pages, return_index=True, return_counts=True)
    single = np.flatnonzero(count == 1)
    limit = max(2, len(single) // 32)
    wide = np.flatnonzero(np.diff(distinct[single]) - 1 > limit) + 1
    ranges = [(start[part], 0) for part in np.split(single, wide) if len(part)]
    several = np.flatnonzero(count > 1)
    holders = [tuple(columns.owner[start[k] : start[k] + count[k]]) for k in several]
    begin = 0
    for k in range(1, len(several) + 1):
        if k < len(several) and distinct[several[k]] == distinct[several[k - 1]] + 1 and holders[k] == holders[k - 1]:
            continue
        low, high = several[begin], several[k - 1]
        ranges.append((np.arange(start[low], start[high] + count[high]), len(holders[begin])))
        begin = k
    return ranges


def _view(columns: Columns, at: np.ndarray, sharers: int, device: torch.device) -> tuple[Part, np.ndarray]:
    """Return a range of pages that one row each holds, and the place of each entry in it."""
    pages = columns.pages[at]
    lowest, size = int(pages[0]), int(pages[-1] - pages[0]) + 1
    places = pages - lowest
    filled = []
    # A page of nobody in the range has one visible token, so that its softmax is a number and not 0 / 0.
    for column, blank in ((columns.owner, 0), (columns.first, 0), (columns.held, 1)):
        full = np.full(size, blank, dtype=np.int64)
        full[places] = column[at]
        filled.append(to_device(full, device))
    return Part(slice(lowest, lowest + size), filled[0], filled[1], filled[2]), places


def _shared_view(columns: Columns, at: np.ndarray, sharers: int, device: torch.device) -> tuple[Part, np.ndarray]:
    """Return a range of pages of which several rows hold every one, and the place of each entry in it."""
    lowest, size = int(columns.pages[at[0]]), len(at) // sharers
    turned = at.reshape(size, sharers).T.reshape(-1)  # by row, then by page
    owner, first, held = (to_device(column[turned], device) for column in columns[1:])
    part = Part(slice(lowest, lowest + size), owner, first, held, sharers)
    return part, np.arange(len(at)).reshape(sharers, size).T.reshape(-1)


# transformers calls an attention function with tensors and the layer's module alone: the cache comes by this way. Two
# samplers in one process may interleave, so it is a context variable and no global.
_PASS: ContextVar[PagedCache | None] = ContextVar("pass")


@contextmanager
def attention_of(model: Any, name: str, cache: PagedCache | None = None) -> Iterator[None]:
    """Let the model use an attention function (or keep its own, if the name is empty), and restore its own afterwards.

    Args:
        model: a transformers model.
        name: as transformers knows it; `NAME` reads the pages of `cache`.
        cache: cache of the running pass.
    """
    text = model.config.get_text_config()
    before, token = text._attn_implementation, _PASS.set(cache)
    text._attn_implementation = name or before
    try:
        yield
    finally:
        text._attn_implementation = before
        _PASS.reset(token)


# Never traced: the number of parts and their shapes change with every pass, and each would be compiled anew.
@torch.compiler.disable  # type: ignore[untyped-decorator]
def paged_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: object = None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Return the attention of the new tokens, [B, L, heads, size]; the cache of the running pass has the rest.

    Raises:
        NotImplementedError: the model needs something of its attention that is not offered here.
    """
    # What would change the scores must not be dropped without a word.
    other = [name for name in ("softcap", "s_aux", "position_bias") if kwargs.get(name) is not None]
    if other:
        raise NotImplementedError(f"attention with {', '.join(other)}")
    cache = _PASS.get()
    assert cache is not None
    layer = cache.layers[module.layer_idx]
    access: PagedAccess | StepAccess = layer.access
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(access, StepAccess):
        return access.attend(query, layer.keys, layer.values, scale, sliding_window), None
    access.calls += 1
    if access.pages is not None:
        return _flash(access, query, layer, scale, sliding_window), None
    results = [_old(access, k, query, layer, scale, sliding_window) for k in range(len(access.parts))]
    if query.shape[2] == 1:  # the new token is in its page already, see `make_access`
        return _combine(access, results, None).to(query.dtype).transpose(1, 2), None
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    mask = access.own_mask(sliding_window, query.dtype)
    if not results:
        out = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=mask is None, scale=scale
        )
    else:
        own = _attend(query, key, value, mask, scale, causal=mask is None)
        out = _combine(access, results, own).to(query.dtype)
    return out.transpose(1, 2).contiguous(), None


Result = tuple[torch.Tensor, torch.Tensor]
"""What was attended to, [P, heads, L, size], and the log-sum-exp of the scores, float32 [P, heads, L]."""


def _old(access: PagedAccess, index: int, query: torch.Tensor, layer: Any, scale: float, window: int | None) -> Result:
    """Attend to one part of the pages."""
    part = access.parts[index]
    keys, values = (_read(block, part.pages) for block in (layer.keys, layer.values))
    asked = query if part.rows is None else query.index_select(0, part.rows)
    entries, heads, length, size = asked.shape
    kinds = keys.shape[1]
    groups = heads // kinds
    asked = asked.reshape(entries, kinds, groups * length, size)  # all heads that share their keys at once
    mask = access.mask(index, window, groups, query.dtype)
    if part.sharers:
        # The pages are one more dimension beside the heads, so that a view repeats them for each row.
        rows, pages = part.sharers, entries // part.sharers
        keys, values = (
            block.view(1, pages * kinds, *block.shape[2:]).expand(rows, -1, -1, -1) for block in (keys, values)
        )
        asked = asked.reshape(rows, pages * kinds, groups * length, size)
        mask = mask.expand(-1, kinds, -1, -1).reshape(rows, pages * kinds, *mask.shape[2:])
    out, total = _attend(asked, keys, values, mask, scale)
    return out.reshape(entries, heads, length, -1), total.reshape(entries, heads, length)


def _read(block: torch.Tensor, pages: slice | torch.Tensor) -> torch.Tensor:
    if isinstance(pages, slice):
        return block[pages]
    taken = block.index_select(0, pages.reshape(-1))
    if pages.ndim == 1:
        return taken
    _, heads, width, size = block.shape
    rows, count = pages.shape
    return taken.view(rows, count, heads, width, size).transpose(1, 2).reshape(rows, heads, count * width, size)


def _combine(access: PagedAccess, results: list[Result], own: Result | None) -> torch.Tensor:
    """Return the attention [B, heads, L, size] to all entries of each row, and to its new tokens."""
    out = results[0][0] if len(results) == 1 else torch.cat([part for part, _ in results])
    total = results[0][1] if len(results) == 1 else torch.cat([part for _, part in results])
    table = access.table
    if own is None and table.shape[1] == 1:
        return out.index_select(0, table[:, 0])
    # A row with fewer entries than the longest reads entry 0 instead, with the weight exp(-inf) = 0. Each row has at
    # least one entry or new tokens, so the softmax over its entries is defined.
    missing = (table < 0)[:, :, None, None]
    rows, count = table.shape
    index = table.clamp(min=0).reshape(-1)
    total = total.index_select(0, index).view(rows, count, *total.shape[1:]).masked_fill(missing, -math.inf)
    out = out.index_select(0, index).view(rows, count, *out.shape[1:])
    if own is None:
        return (torch.softmax(total, dim=1)[..., None] * out).sum(dim=1)
    weights = torch.softmax(torch.cat([total, own[1][:, None]], dim=1), dim=1)[..., None]
    return (weights[:, :-1] * out).sum(dim=1) + weights[:, -1] * own[0]


def _attend(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scale: float,
    *,
    causal: bool = False,
) -> Result:
    """Return attention and log-sum-exp by the fused kernel of the device, or by the formula where there is none."""
    # torch's public function keeps the log-sum-exp to itself, so its kernels are called below it.
    aten = torch.ops.aten
    if query.device.type == "cpu":
        out, total = aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, attn_mask=mask, scale=scale
        )
        return out, total
    if query.device.type == "cuda":
        bias = None if mask is None else mask.expand(*query.shape[:3], key.shape[2])
        out, total, _, _ = aten._scaled_dot_product_efficient_attention(
            query, key, value, bias, True, 0.0, causal, scale=scale
        )
        return out, total[:, :, : query.shape[2]]  # padded to a multiple of 32
    scores = (query.float() @ key.float().transpose(-1, -2)) * scale
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(hidden, torch.finfo(torch.float32).min)
    if mask is not None:
        scores = scores + mask.float()
    return (torch.softmax(scores, dim=-1) @ value.float()).to(query.dtype), torch.logsumexp(scores, dim=-1)


def _flash(
    access: PagedAccess, query: torch.Tensor, layer: Any, scale: float, window: int | None
) -> torch.Tensor:  # pragma: no cover - needs CUDA and the flash-attn package
    flash_attn = importlib.import_module("flash_attn")
    # Queries and keys are aligned at their ends, so the padding on the left attends to nothing and gives zeros.
    out: torch.Tensor = flash_attn.flash_attn_with_kvcache(
        query.transpose(1, 2),
        layer.keys.transpose(1, 2),
        layer.values.transpose(1, 2),
        cache_seqlens=(access.starts + access.counts).to(torch.int32),
        block_table=access.pages,
        softmax_scale=scale,
        causal=True,
        window_size=(-1, -1) if window is None else (window - 1, 0),
    )
    return out


def _additive(seen: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return 0 where `seen`, else the lowest finite number: minus infinity would give 0 / 0 where nothing is seen."""
    columns = seen.shape[-1]
    if excess := columns % ROW_ALIGNMENT.get(seen.device.type, 1):
        seen = torch.nn.functional.pad(seen, (0, ROW_ALIGNMENT[seen.device.type] - excess))
    hidden = torch.full((), torch.finfo(dtype).min, dtype=dtype, device=seen.device)
    return torch.where(seen, torch.zeros_like(hidden), hidden)[..., :columns]


AttentionInterface.register(NAME, paged_attention)
