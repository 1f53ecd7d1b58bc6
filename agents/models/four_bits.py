"""Frozen weights in 4 bits (QLoRA): nf4 numbers in blocks of 64, whose scales are quantized once more (bitsandbytes).

A matrix is made whole again, in the type of the computation, each time that it multiplies. What leaves this process is
always whole: engines and folders receive the dequantized weights.

Source: Dettmers et al. 2023, arXiv 2305.14314.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING

from turncredit.agents.errors import ModelError
from turncredit.installation import needs

if TYPE_CHECKING:
    import torch
    from torch import Tensor

BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a number: 4 bits, one byte of scale for 64 numbers, and four for 256 of these bytes."""
FINGERPRINT = "whole_fingerprint"
"""Attribute of a quantized model: the fingerprint that it had before."""


def quantize(model: torch.nn.Module, fingerprint: Callable[[torch.nn.Module], str]) -> torch.nn.Module:
    """Return a model whose matrices are in 4 bits and frozen, but for the embedding and the output layer.

    They are quantized where the model lies; it is changed in place.

    Args:
        model: of transformers, whole, in the type that it will compute in.
        fingerprint: of the whole model, which it keeps as `whole_fingerprint`.

    Raises:
        ModelError: bitsandbytes is not installed, or the model has no such matrices.
    """
    import torch

    bnb = import_bitsandbytes()
    output = getattr(model, "get_output_embeddings", None)
    head = None if output is None else output()
    layers = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if type(layer) is torch.nn.Linear and layer is not head
    ]
    if not layers:
        raise ModelError(f"policy.lora.bits = 4: {type(model).__name__} has no matrices that could be quantized")
    # the second is what peft asks for
    for attribute, value in ((FINGERPRINT, fingerprint(model)), ("is_loaded_in_4bit", True)):
        setattr(model, attribute, value)
    for parent, name, layer in layers:
        setattr(parent, name, _quantized(bnb, layer))
    model.requires_grad_(False)
    return model


def _quantized(bnb: ModuleType, layer: torch.nn.Linear) -> torch.nn.Linear:
    weight = layer.weight.data
    own = bnb.nn.Linear4bit(
        layer.in_features,
        layer.out_features,
        bias=False,
        compute_dtype=weight.dtype,
        compress_statistics=True,
        quant_type="nf4",
        device="meta",
    )
    # On a CPU it would lay the numbers out anew at the first pass without gradient, for sums in bfloat16 from which no
    # gradient comes, and which no longer can be dequantized.
    own.support_avx512bf16_for_cpu = False
    packed = bnb.nn.Params4bit(weight, requires_grad=False, compress_statistics=True, quant_type="nf4", module=own)
    own.weight = packed.to(weight.device)
    own.bias = layer.bias
    frozen: torch.nn.Linear = own.eval()
    return frozen


def is_quantized(parameter: object) -> bool:
    """Whether a parameter is in 4 bits."""
    return getattr(parameter, "quant_state", None) is not None


def numbers_in(parameter: Tensor) -> int:
    """Return how many numbers a parameter has, each of 4 bits or whole."""
    state = getattr(parameter, "quant_state", None)
    return int(parameter.numel()) if state is None else math.prod(state.shape)


def whole(parameter: Tensor) -> Tensor:
    """Return the numbers of a parameter in the type and shape that they had before they were quantized."""
    state = getattr(parameter, "quant_state", None)
    if state is None:
        return parameter.detach()
    numbers: Tensor = import_bitsandbytes().functional.dequantize_4bit(parameter.data, state)
    return numbers.to(state.dtype)


def whole_state(module: torch.nn.Module) -> dict[str, Tensor]:
    """Return the state of a module, whose matrices in 4 bits are quantized still, without what belongs to them."""
    quantized = {name for name, parameter in module.named_parameters() if is_quantized(parameter)}
    if not quantized:
        return module.state_dict()
    parameters = dict(module.named_parameters(remove_duplicate=False))
    prefixes = tuple(f"{name}." for name in quantized)
    return {
        name: parameters.get(name, tensor)
        for name, tensor in module.state_dict().items()
        if not name.startswith(prefixes)
    }


def import_bitsandbytes() -> ModuleType:
    """Return the package bitsandbytes.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import bitsandbytes
    except ImportError as error:
        raise ModelError(needs("policy.lora.bits = 4 needs bitsandbytes", "qlora")) from error
    package: ModuleType = bitsandbytes
    return package
