"""Weights on their way to a sampler: a module, named tensors or a folder, as one stream of named tensors."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from turnwise.agents.errors import SamplerError

if TYPE_CHECKING:
    import torch

__all__ = ["has_adapter", "named_tensors", "one_name_each"]

_LORA = ".base_layer."


def has_adapter(module: Any) -> bool:
    """Return whether a module is wrapped by peft, with a LoRA adapter around frozen weights."""
    return bool(getattr(module, "peft_config", None))


def named_tensors(weights: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a whole model under the names of its Hugging Face folder.

    LoRA adapters are merged: W + scaling * B A, one matrix at a time, so that no second copy of the model exists.

    Args:
        weights: a torch module, a mapping of names to tensors, or the path of a Hugging Face folder with safetensors.

    Raises:
        SamplerError: the folder has no safetensors, or the weights are of another type.
    """
    if isinstance(weights, Path):
        yield from _of_folder(weights)
    elif isinstance(weights, Mapping):
        yield from weights.items()
    elif has_adapter(weights):
        yield from _merged(weights)
    elif hasattr(weights, "state_dict"):
        yield from weights.state_dict().items()
    else:
        raise SamplerError(
            f"weights must be a torch module, a mapping of names to tensors, or a Path; got {type(weights).__name__}"
        )


def one_name_each(weights: Any, names: Collection[str] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what `named_tensors` yields, but a second name of a tensor (tied weights) only if it is among `names`.

    Args:
        weights: see `named_tensors`.
        names: of the tensors that whoever loads them has, if they are known.
    """
    seen: dict[int, weakref.ref[Any]] = {}  # a tensor that is gone may leave its address to another
    for name, tensor in named_tensors(weights):
        address = tensor.data_ptr()
        twin = seen[address]() if address in seen and tensor.numel() else None  # all empty tensors have one address
        if twin is not None and twin.shape == tensor.shape and name not in names:
            continue
        seen[address] = weakref.ref(tensor)
        yield name, tensor


def _of_folder(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SamplerError(f"{folder} has no *.safetensors files")
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                yield name, opened.get_tensor(name)


def _merged(module: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of the model inside a peft module, each adapted matrix with its adapter added."""
    base = module.get_base_model()
    parts = dict(base.named_modules())
    for name, tensor in base.state_dict().items():
        if "lora_" in name:
            continue
        if _LORA not in name:
            yield name, tensor
            continue
        layer = parts[name.partition(_LORA)[0]]
        value = tensor
        if name.endswith(".weight"):
            deltas = [cast("torch.Tensor", layer.get_delta_weight(adapter)) for adapter in layer.active_adapters]
            value = sum((delta.float() for delta in deltas), tensor.float()).to(tensor.dtype)  # rounded once
        yield name.replace(_LORA, "."), value
