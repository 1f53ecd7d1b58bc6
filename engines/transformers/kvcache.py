"""The tensors of a KV cache of many episodes: pages of a few tokens, in one block of memory per layer that grows.

A pass writes its new keys and values in place, and attends either to a dense copy or view of its rows (`DenseAccess`,
for any attention function that takes a mask), or to the pages themselves (see `paged_attention` in this package).
Which sequence holds which page is decided in `cache_pages`.

Not included: quantised or off-loaded caches, and layers with a recurrent state. `unsupported_reason` says why a model
cannot use this cache; such models compute every sequence from its beginning.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import Cache, CacheLayerMixin

from turncredit.agents.models.rotary import rotary_limit

GROWTH = 1.5
"""Factor by which the blocks grow."""


@dataclass(slots=True)
class NewTokens:
    """Where the new keys and values of one pass go; shared by all layers."""

    rows: np.ndarray
    """Row of each new token, int64 [N]."""
    columns: np.ndarray
    """Its column within the pass, int64 [N]."""
    pages: np.ndarray
    """The page that receives it, int64 [N]."""
    offsets: np.ndarray
    """Its place in that page, int64 [N]."""
    size: int
    """Number of rows of the pass, with padding and idle rows."""
    length: int
    """Number of columns of the pass."""
    device: torch.device
    _places: dict[tuple[int, int], tuple[torch.Tensor | None, torch.Tensor]] = field(default_factory=dict)

    def places(self, heads: int, width: int) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Return index of every new vector in [B * heads * L] (None: all of them), and in the flattened block."""
        key = (heads, width)
        if key not in self._places:
            head = np.arange(heads)
            target = ((self.pages[:, None] * heads + head) * width + self.offsets[:, None]).reshape(-1)
            source = ((self.rows[:, None] * heads + head) * self.length + self.columns[:, None]).reshape(-1)
            every = len(source) == self.size * heads * self.length and bool((np.diff(source) == 1).all())
            at = None if every else to_device(source, self.device)
            self._places[key] = (at, to_device(target, self.device))
        return self._places[key]

    def write(self, block: torch.Tensor, new: torch.Tensor) -> None:
        """Write new keys or values [B, heads, L, size] into a block [pages, heads, width, size]."""
        _, heads, width, size = block.shape
        source, target = self.places(heads, width)
        vectors = new.reshape(-1, size)
        block.view(-1, size).index_copy_(0, target, vectors if source is None else vectors.index_select(0, source))


@dataclass(slots=True)
class DenseAccess:
    """A pass that attends to the pages of each row as one tensor, through the model's own attention function."""

    new: NewTokens
    pages: slice | torch.Tensor
    """Pages of the rows: a slice if each row has one and they are contiguous (a view), else int64 [B, pages]."""
    length: int
    """Number of columns that are attended to."""

    def read(self, block: torch.Tensor) -> torch.Tensor:
        """Return what the rows of this pass attend to, [B, heads, length, size]."""
        if isinstance(self.pages, slice):
            return block[self.pages, :, : self.length]
        rows, count = self.pages.shape
        _, heads, width, size = block.shape
        if count == 1:
            return block[:, :, : self.length].index_select(0, self.pages[:, 0])
        taken = block.index_select(0, self.pages.reshape(-1)).view(rows, count, heads, width, size)
        return taken.transpose(1, 2).reshape(rows, heads, count * width, size)[:, :, : self.length]


class PagedLayer(CacheLayerMixin):  # type: ignore[misc]
    """Keys and values of one layer: two blocks [pages, heads, width, size]."""

    is_sliding = False

    def __init__(self, width: int) -> None:
        """Keep the width; the blocks are allocated when the number and size of heads are known."""
        super().__init__()
        self.width = width
        self.capacity = 0
        self.access: Any = None

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor | None = None) -> None:
        """Allocate the blocks."""
        value_states = key_states if value_states is None else value_states
        self.keys, self.values = (self._zeros(states, self.capacity) for states in (key_states, value_states))
        self.is_initialized = True

    def _zeros(self, states: torch.Tensor, capacity: int) -> torch.Tensor:
        # Masked columns are read too and must be finite.
        return states.new_zeros((capacity, states.shape[1], self.width, states.shape[3]))

    def grow(self, capacity: int) -> None:
        """Make room for a number of pages, and keep the contents of those in use."""
        held = self.capacity
        if capacity <= held:
            return
        if self.is_initialized:
            for name in ("keys", "values"):
                old = getattr(self, name)
                new = self._zeros(old, capacity)
                new[:held] = old[:held]
                setattr(self, name, new)
        self.capacity = capacity  # once both are there: memory may run out

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: object,
        **kwargs: object,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Write the new keys and values [B, heads, L, size], and return what the pass attends to.

        A pass that attends to pages reads them itself, so its new keys and values are returned as they are.
        """
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.access.new.write(self.keys, key_states)
        self.access.new.write(self.values, value_states)
        if isinstance(self.access, DenseAccess):
            return self.access.read(self.keys), self.access.read(self.values)
        return key_states, value_states

    def copy_pages(self, sources: torch.Tensor, targets: torch.Tensor) -> None:
        """Copy the contents of pages over those of others."""
        if self.is_initialized:
            for block in (self.keys, self.values):
                block[targets] = block[sources]

    def get_seq_length(self, *args: object) -> int:
        """Return the number of cached columns of the longest row; positions are always passed explicitly."""
        return 0 if self.access is None else max(0, self.access.length - self.access.new.length)

    def get_mask_sizes(self, query_length: Any) -> tuple[int, int]:
        """Return the number of columns that are attended to, and the index of the first."""
        return (query_length if self.access is None else self.access.length), 0

    def get_max_length(self) -> int:
        """Return -1: the layer grows."""
        return -1


class PagedCache(Cache):  # type: ignore[misc]
    """The cache object that models of transformers take; its memory grows up to a number of pages."""

    def __init__(self, layers: int, width: int, most: int, least: int = 8, growth: float = GROWTH) -> None:
        """Make the layers without any page.

        Args:
            layers: number of layers.
            width: tokens in a page.
            most: pages that the cache may have.
            least: pages for which memory is taken at first.
            growth: factor by which it grows.
        """
        super().__init__(layers=[PagedLayer(width) for _ in range(layers)])
        self.most, self.least, self._growth = most, least, growth
        self.capacity = 0

    def reserve(self, pages: int) -> None:
        """Make room for a number of pages."""
        if pages > self.capacity:
            capacity = min(self.most, max(pages, int(self._growth * self.capacity), self.least))
            for layer in self.layers:
                layer.grow(capacity)
            self.capacity = capacity

    def prepare(self, access: Any) -> None:
        """Set what the next forward pass reads and writes."""
        for layer in self.layers:
            layer.access = access

    @torch.inference_mode()
    def copy_pages(self, sources: list[int], targets: list[int]) -> None:
        """Copy the contents of pages over those of others, in every layer."""
        if self.device is not None:
            at = [to_device(np.array(pages, dtype=np.int64), self.device) for pages in (sources, targets)]
            for layer in self.layers:
                layer.copy_pages(*at)

    @property
    def device(self) -> torch.device | None:
        """Where the blocks are; None before the first pass."""
        return self.layers[0].keys.device if self.layers[-1].is_initialized else None

    @property
    def memory(self) -> int:
        """Bytes that the blocks take."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.layers if layer.is_initialized)


def to_device(array: np.ndarray, device: torch.device) -> torch.Tensor:
    """Return an array as a tensor on a device; nothing waits for the device."""
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    # From other memory than pinned, a copy to a GPU waits for all work that was started before.
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor.to(device)


def unsupported_reason(config: Any, context: int, attention: str) -> str | None:
    """Return why a model with this configuration cannot use the cache, or None.

    A configuration does not reveal everything (position biases computed from the mask, for example), so
    `decoder_choice.make_decoder` also compares the results with and without the cache.

    Args:
        config: configuration of the model.
        context: maximum number of tokens of a sequence; an attention chunk of at least this length has no effect.
        attention: the attention function.
    """
    text = config.get_text_config()
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder model"
    if attention not in ("sdpa", "eager", "flash_attention_2"):
        return f"its attention implementation ({attention}) takes no explicit mask"
    chunk = getattr(text, "attention_chunk_size", None)
    if isinstance(chunk, int) and chunk < context:
        return f"its attention has chunks of {chunk} tokens, shorter than the context of {context}"
    kinds = set(getattr(text, "layer_types", None) or ())
    other = kinds - {"full_attention", "sliding_attention", "chunked_attention"}
    if other:
        return f"it has layers of type {', '.join(sorted(other))}"
    limit = rotary_limit(config)
    if limit is not None and context > limit.tokens:
        return f"its position encoding ({limit.kind}) depends on the longest sequence beyond {limit.tokens} tokens"
    return None


def attention_window(config: Any, context: int) -> int | None:
    """Return the length of the model's attention window; None if it is as long as the context, or there is none."""
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None) if getattr(text, "use_sliding_window", True) else None
    return window if isinstance(window, int) and window < context else None
