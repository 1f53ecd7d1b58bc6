"""Copies of a model in another type or on another device, and new weights for a model."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch

from turncredit.agents.errors import SamplerError
from turncredit.agents.models.checkpoint_layout import in_module_layout
from turncredit.agents.models.lora_folders import merge
from turncredit.agents.models.weights import WeightSource, has_adapter, named_tensors, require_plain_adapter


def copy_model(model: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """Return a copy of a model with its weights in another type or on another device; LoRA adapters are merged.

    Buffers keep their type: position encodings in bfloat16 would be wrong for long sequences.

    Args:
        model: a transformers model, or one wrapped by peft.
        device: device of the copy.
        dtype: dtype of its floating-point parameters.

    Raises:
        SamplerError: an adapter cannot be merged.
    """
    if has_adapter(model):
        require_plain_adapter(model)
    memo: dict[int, Any] = {}
    for weight in model.parameters():
        kind = dtype if weight.is_floating_point() else weight.dtype
        moved = weight.detach().to(device=device, dtype=kind, copy=True)
        memo[id(weight)] = torch.nn.Parameter(moved, requires_grad=False)
    twin = copy.deepcopy(model, memo)
    if not has_adapter(model):
        return twin.to(device)
    twin = merge(twin).to(device)
    fill_model(twin, model)  # merged in the type of the original
    return twin


def fill_model(model: Any, weights: WeightSource) -> None:
    """Copy weights into a model, after checking that all of them are there and fit.

    Args:
        model: a transformers model without adapter.
        weights: another module, named tensors, or the path of a Hugging Face folder. Tied weights may be left out.

    Raises:
        SamplerError: tensors are missing, unknown or of another shape; nothing was copied then.
    """
    own = model.state_dict()
    if not has_adapter(weights):
        tensors = dict(named_tensors(weights))
        weights = tensors if isinstance(weights, torch.nn.Module) else in_module_layout(model, tensors)
    _check(own, {name: tuple(tensor.shape) for name, tensor in _tensors(weights)})
    with torch.no_grad():
        for name, tensor in _tensors(weights):
            if name in own and tensor is not own[name]:
                own[name].copy_(tensor)


def _tensors(weights: WeightSource) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield named tensors; adapters are merged again at each use, since a merged copy may not fit into memory."""
    yield from named_tensors(weights)


def _check(own: dict[str, torch.Tensor], shapes: dict[str, tuple[int, ...]]) -> None:
    places = {own[name].data_ptr() for name in shapes if name in own}
    missing = [name for name, tensor in own.items() if name not in shapes and tensor.data_ptr() not in places]
    unknown = [name for name in shapes if name not in own]
    other = [name for name, shape in shapes.items() if name in own and shape != tuple(own[name].shape)]
    problems = [
        f"{len(names)} {problem}, the first is {names[0]}"
        for names, problem in ((missing, "tensors are missing"), (unknown, "are unknown to the model"))
        if names
    ]
    if other:
        problems.append(f"{other[0]} has shape {list(shapes[other[0]])}, expected {list(own[other[0]].shape)}")
    if problems:
        raise SamplerError(f"the new weights do not fit the sampler's model: {'; '.join(problems)}")
