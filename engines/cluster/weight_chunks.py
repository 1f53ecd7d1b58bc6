"""Weights on their way through Ray's object store: chunks of named tensors as numpy arrays, which are read in place.

A process on the same node reads an array where it lies in shared memory, so that all engines of a node read one copy.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.models.checkpoint_layout import buffer_names, checkpoint_tensors, lasting_addresses
from turncredit.agents.models.weights import WeightSource, is_adapter, is_module

if TYPE_CHECKING:
    import torch

__all__ = ["CHUNK", "WeightChunk", "join_chunks", "split_weights"]

CHUNK = 2**28
"""Bytes after which a chunk is full; a larger tensor is a chunk by itself."""


@dataclass(slots=True)
class WeightChunk:
    """A part of a model's tensors."""

    arrays: dict[str, tuple[str, NDArray[np.generic]]] = field(default_factory=dict)
    """By name: the type as torch names it, and the numbers; bfloat16, which numpy lacks, as its bits in int16."""
    same: dict[str, str] = field(default_factory=dict)
    """Second names of tensors (tied weights), and the first name of each, which may be in an earlier chunk."""
    size: int = 0
    """In bytes."""


def split_weights(weights: WeightSource, size: int = CHUNK, dtype: str = "") -> Iterator[WeightChunk]:
    """Yield a whole model in chunks, one at a time on the CPU.

    Args:
        weights: a torch module (adapters are merged), named tensors, or the path of a Hugging Face folder or of a
            folder with a LoRA adapter, whose base is read as well.
        size: bytes after which a chunk is full.
        dtype: type in which a module's floating-point parameters travel, as torch names it: that of the engines, which
            would round them anyway. They are rounded where they are, before they leave a GPU. Buffers, and weights
            that are no module, keep their types. Empty: their own.

    Raises:
        SamplerError: the weights are none of these.
    """
    if isinstance(weights, Path) and is_adapter(weights):
        from turncredit.agents.models.model_folder import load_model

        weights = load_model(weights)
    exact = buffer_names(weights) if is_module(weights) else None
    chunk = WeightChunk()
    lasting = lasting_addresses(weights)
    seen: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, tensor in checkpoint_tensors(weights):
        location = tensor.data_ptr(), tuple(tensor.shape)
        if location in seen:
            chunk.same[name] = seen[location]
            continue
        if location[0] in lasting:
            seen[location] = name
        kind, array = _array(tensor, "" if exact is None or name in exact else dtype)
        chunk.arrays[name] = kind, array
        chunk.size += array.nbytes
        if chunk.size >= size:
            yield chunk
            chunk = WeightChunk()
    if chunk.arrays or chunk.same:
        yield chunk


def join_chunks(chunks: Iterable[WeightChunk]) -> dict[str, torch.Tensor]:
    """Return the named tensors of all chunks; they read the memory of the chunks and must not be written."""
    tensors: dict[str, torch.Tensor] = {}
    same: dict[str, str] = {}
    for chunk in chunks:
        tensors |= {name: _tensor(dtype, array) for name, (dtype, array) in chunk.arrays.items()}
        same |= chunk.same
    return tensors | {name: tensors[first] for name, first in same.items()}


def _array(tensor: torch.Tensor, dtype: str) -> tuple[str, NDArray[np.generic]]:
    """Return the type of a tensor on its way, and its numbers."""
    import torch

    value = tensor.detach()
    if dtype and tensor.is_floating_point():
        value = value.to(getattr(torch, dtype))  # on its own device
    value = value.to("cpu").contiguous()
    array = (value.view(torch.int16) if value.dtype == torch.bfloat16 else value).numpy()
    return str(value.dtype).removeprefix("torch."), array


def _tensor(dtype: str, array: NDArray[np.generic]) -> torch.Tensor:
    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable.*")
        value = torch.from_numpy(array)
    return value.view(torch.bfloat16) if dtype == "bfloat16" else value
