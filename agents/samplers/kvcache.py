"""A KV cache of many episodes: one preallocated block per layer, with one row (slot) for each episode.

A step of a batch writes its new keys and values in place, at its own column in every row, and attends to a view of the
rows and columns in use. Nothing is concatenated, and rows of different lengths go through the model together. The last
column is scratch space: padding is written there and never read.

Not included: paged, quantised or off-loaded caches, sliding windows, and layers with a recurrent state.
`unsupported_reason` says why a model cannot use this cache; such models compute every sequence from its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(slots=True)
class CacheAccess:
    """Where one forward pass writes to the cache and what it attends to; shared by all layers."""

    rows: slice | torch.Tensor
    """Slots of the batch's rows: a slice if they are contiguous (reading then copies nothing), else int64 [B]."""
    slots: torch.Tensor
    """The same slots as int64 [B]."""
    columns: torch.Tensor
    """Column of each new token, int64 [B, L]."""
    length: int
    """Number of columns that are attended to."""
    _targets: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    def targets(self, heads: int, width: int) -> torch.Tensor:
        """Return the index of every new vector in the flattened block, int64 [B * heads * L]."""
        key = (heads, width)
        if key not in self._targets:
            head = torch.arange(heads, device=self.slots.device)
            row = (self.slots[:, None] * heads + head[None, :])[:, :, None]
            self._targets[key] = (row * width + self.columns[:, None, :]).reshape(-1)
        return self._targets[key]

    def read(self, block: torch.Tensor) -> torch.Tensor:
        """Return what the rows of this pass attend to, [B, heads, length, size]."""
        if isinstance(self.rows, slice):
            return block[self.rows, :, : self.length]
        return block[:, :, : self.length].index_select(0, self.rows)


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer: two blocks [slots, heads, context + 1, size]."""

    is_sliding = False

    def __init__(self, slots: int, context: int) -> None:
        """Keep the sizes; the blocks are allocated at first use, when the number and size of heads are known."""
        super().__init__()
        self.slots = slots
        self.width = context + 1
        self.access: CacheAccess | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor | None = None) -> None:
        """Allocate the blocks with zeros, since masked columns are read too and must be finite."""
        value_states = key_states if value_states is None else value_states
        self.keys = key_states.new_zeros((self.slots, key_states.shape[1], self.width, key_states.shape[3]))
        self.values = value_states.new_zeros((self.slots, value_states.shape[1], self.width, value_states.shape[3]))
        self.is_initialized = True

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,
        **kwargs: Any,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values [B, heads, L, size], and return what the pass attends to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.access is not None
        for block, new in ((self.keys, key_states), (self.values, value_states)):
            _, heads, width, size = block.shape
            block.view(-1, size).index_copy_(0, self.access.targets(heads, width), new.reshape(-1, size))
        return self.access.read(self.keys), self.access.read(self.values)

    def copy_slot(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of one slot over those of another."""
        if self.is_initialized:
            for block in (self.keys, self.values):
                block[target, :, :length] = block[source, :, :length]

    def get_seq_length(self, *args: Any) -> int:
        """Return the number of cached columns of the longest row; positions are always passed explicitly."""
        return 0 if self.access is None else max(0, self.access.length - self.access.columns.shape[1])

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """Return the number of columns that are attended to, and the index of the first."""
        return (query_length if self.access is None else self.access.length), 0

    def get_max_length(self) -> int:
        """Return the capacity of a slot in tokens."""
        return self.width - 1

    def get_max_cache_shape(self) -> int:
        """Return the same under the name that transformers 4 uses."""
        return self.width - 1


class SlotCache(Cache):  # type: ignore[misc]
    """The cache object that models of transformers take."""

    def __init__(self, layers: int, slots: int, context: int) -> None:
        """Make the layers; memory is allocated at first use."""
        super().__init__(layers=[SlotLayer(slots, context) for _ in range(layers)])

    def prepare(self, access: CacheAccess) -> None:
        """Set what the next forward pass reads and writes."""
        for layer in self.layers:
            layer.access = access

    @torch.inference_mode()
    def copy_slot(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of one slot over those of another, in every layer."""
        for layer in self.layers:
            layer.copy_slot(source, target, length)


def unsupported_reason(config: Any, context: int) -> str | None:
    """Return why a model with this configuration cannot use the cache, or None.

    A configuration does not reveal everything (position biases computed from the mask, for example), so
    `turnwise.agents.samplers.decoding.make_decoder` also compares the results with and without the cache.

    Args:
        config: configuration of the model.
        context: most tokens of a sequence; an attention window of at least this length has no effect.
    """
    text = config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder model"
    attention = getattr(text, "_attn_implementation", None)
    if attention not in ("sdpa", "eager"):
        return f"its attention implementation ({attention}) takes no explicit mask"
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    window = window or getattr(text, "attention_chunk_size", None)
    if isinstance(window, int) and window < context:
        return f"its attention has a window of {window} tokens, shorter than the context of {context}"
    kinds = set(getattr(text, "layer_types", None) or ())
    other = kinds - {"full_attention", "sliding_attention", "chunked_attention"}
    if other:
        return f"it has layers of type {', '.join(sorted(other))}"
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type")) if isinstance(rope, dict) else None
    if kind in ("dynamic", "longrope"):
        return f"its position encoding ({kind}) depends on the longest sequence of the batch"
    return None
