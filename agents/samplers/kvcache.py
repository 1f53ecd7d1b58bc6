"""Keys and values of many episodes in one preallocated block per layer, one row (slot) an episode.

A step of a batch writes its new keys and values in place, at a column of its own in every row, and attends over a view
of the rows and columns in use: nothing is concatenated, and rows of different lengths go through the model together.
The last column is scratch: padding is written there and never read.

Left out on purpose: pages, quantised or off-loaded caches, sliding windows, and layers that keep a recurrent state;
`why_not_slots` says which models cannot use this, and they take the plain path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(slots=True)
class Plan:
    """Where one forward pass writes, and what it attends to; shared by all layers.

    `rows` is the slot of each row of the batch (a slice when they are neighbours: then reading copies nothing),
    `slots` int64 [B] the same as numbers, `columns` int64 [B, L] where each new token goes, `length` the columns that
    are attended to.
    """

    rows: slice | torch.Tensor
    slots: torch.Tensor
    columns: torch.Tensor
    length: int
    _targets: dict[tuple[int, int], torch.Tensor] = field(default_factory=dict)

    def targets(self, heads: int, width: int) -> torch.Tensor:
        """Return int64 [B * heads * L]: the index of every new vector in the block seen as a list of vectors."""
        key = (heads, width)
        if key not in self._targets:
            head = torch.arange(heads, device=self.slots.device)
            row = (self.slots[:, None] * heads + head[None, :])[:, :, None]
            self._targets[key] = (row * width + self.columns[:, None, :]).reshape(-1)
        return self._targets[key]

    def read(self, block: torch.Tensor) -> torch.Tensor:
        """Return [B, heads, length, size]: what the rows of this pass attend to."""
        if isinstance(self.rows, slice):
            return block[self.rows, :, : self.length]
        return block[:, :, : self.length].index_select(0, self.rows)


class SlotLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer: two blocks [slots, heads, context + 1, size]."""

    is_sliding = False

    def __init__(self, slots: int, context: int) -> None:
        """Remember the sizes; the blocks are made at the first use, when heads and size are known."""
        super().__init__()
        self.slots = slots
        self.width = context + 1
        self.plan: Plan | None = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor | None = None) -> None:
        """Make the blocks, full of zeros: masked columns are read too, and must be finite."""
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
        """Write the new keys and values [B, heads, L, size] and return what the pass attends to."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.plan is not None
        for block, new in ((self.keys, key_states), (self.values, value_states)):
            _, heads, width, size = block.shape
            block.view(-1, size).index_copy_(0, self.plan.targets(heads, width), new.reshape(-1, size))
        return self.plan.read(self.keys), self.plan.read(self.values)

    def copy_slot(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of one slot over those of another."""
        if self.is_initialized:
            for block in (self.keys, self.values):
                block[target, :, :length] = block[source, :, :length]

    def get_seq_length(self, *args: Any) -> int:
        """Return the columns before the new ones of the longest row; the positions are given explicitly anyway."""
        return 0 if self.plan is None else max(0, self.plan.length - self.plan.columns.shape[1])

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """Return how many columns are attended to, and the first of them."""
        return (query_length if self.plan is None else self.plan.length), 0

    def get_max_length(self) -> int:
        """Return the most tokens of a slot."""
        return self.width - 1

    def get_max_cache_shape(self) -> int:
        """Return the same under the name that transformers 4 asks for."""
        return self.width - 1


class SlotCache(Cache):  # type: ignore[misc]
    """The layers' blocks, as the cache object that transformers' models take."""

    def __init__(self, layers: int, slots: int, context: int) -> None:
        """Make the layers; memory is taken at the first use."""
        super().__init__(layers=[SlotLayer(slots, context) for _ in range(layers)])

    def prepare(self, plan: Plan) -> None:
        """Set where the next forward pass writes and reads."""
        for layer in self.layers:
            layer.plan = plan

    @torch.inference_mode()
    def copy_slot(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` columns of one slot over those of another, in every layer."""
        for layer in self.layers:
            layer.copy_slot(source, target, length)


def why_not_slots(config: Any, context: int) -> str | None:
    """Return why a model of this configuration cannot use the slots; None when nothing speaks against it.

    What a configuration does not tell (position biases made from the mask, states of another kind) is found by
    `turnwise.agents.samplers.decoding.make_runner`, which compares both paths on a few tokens.

    Args:
        config: of the model.
        context: most tokens of a sequence: a window that is not shorter changes nothing.
    """
    text = config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder"
    attention = getattr(text, "_attn_implementation", None)
    if attention not in ("sdpa", "eager"):
        return f"its attention ({attention}) takes no explicit mask"
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    window = window or getattr(text, "attention_chunk_size", None)
    if isinstance(window, int) and window < context:
        return f"its attention has a window of {window} tokens, shorter than the context of {context}"
    kinds = set(getattr(text, "layer_types", None) or ())
    other = kinds - {"full_attention", "sliding_attention", "chunked_attention"}
    if other:
        return f"it has layers of the kind {', '.join(sorted(other))}"
    rope = getattr(text, "rope_parameters", None) or getattr(text, "rope_scaling", None) or {}
    kind = rope.get("rope_type", rope.get("type")) if isinstance(rope, dict) else None
    if kind in ("dynamic", "longrope"):
        return f"its positions ({kind}) depend on the longest sequence of the batch"
    return None
