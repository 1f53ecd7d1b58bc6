"""Frozen weights in 4 bits (QLoRA): nf4 numbers in blocks of 64, whose scales are quantized once more (bitsandbytes).

A matrix is made whole again, in the type of the computation, each time that it multiplies. What leaves this process is
always whole: engines and folders receive the dequantized weights.

Source: Dettmers et al. 2023, arXiv 2305.14314.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from turnwise.agents.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

BYTES = 0.5 + 1 / 64 + 4 / (64 * 256)
"""Bytes of a number: 4 bits, one byte of scale for 64 numbers, and four for 256 of these bytes."""


def quantize(model: Any, fingerprint: Callable[[Any], str]) -> Any:
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
    model.whole_fingerprint = fingerprint(model)
    head = model.get_output_embeddings()
    layers = [
        (parent, name, layer)
        for parent in model.modules()
        for name, layer in parent.named_children()
        if type(layer) is torch.nn.Linear and layer is not head
    ]
    if not layers:
        raise ModelError(f"policy.lora.bits = 4: {type(model).__name__} has no matrices that could be quantized")
    for parent, name, layer in layers:
        setattr(parent, name, _quantized(bnb, layer))
    model.is_loaded_in_4bit = True  # peft asks for it
    return model.requires_grad_(False)


def _quantized(bnb: Any, layer: Any) -> Any:
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
    return own.eval()


def is_quantized(parameter: object) -> bool:
    """Whether a parameter is in 4 bits."""
    return getattr(parameter, "quant_state", None) is not None


def numbers_in(parameter: Tensor) -> int:
    """Return how many numbers a parameter has, each of 4 bits or whole."""
    state = getattr(parameter, "quant_state", None)
    return int(parameter.numel()) if state is None else math.prod(state.shape)


def whole(parameter: Tensor) -> Tensor:
    """Return the numbers of a parameter in the type and shape that they had before they were quantized."""
    if not is_quantized(parameter):
        return parameter.detach()
    functional = import_bitsandbytes().functional
    state: Any = parameter.quant_state  # type: ignore[attr-defined]
    numbers: Tensor = functional.dequantize_4bit(parameter.data, state)
    return numbers.to(state.dtype)


def whole_state(module: Any) -> dict[str, Tensor]:
    """Return the state of a module, whose matrices in 4 bits are quantized still, without what belongs to them."""
    quantized = {name for name, parameter in module.named_parameters() if is_quantized(parameter)}
    if not quantized:
        state: dict[str, Tensor] = module.state_dict()
        return state
    parameters = dict(module.named_parameters(remove_duplicate=False))
    prefixes = tuple(f"{name}." for name in quantized)
    return {
        name: parameters.get(name, tensor)
        for name, tensor in module.state_dict().items()
        if not name.startswith(prefixes)
    }


def import_bitsandbytes() -> Any:
    """Return the package bitsandbytes.

    Raises:
        ModelError: it is not installed.
    """
    try:
        import bitsandbytes
    except ImportError as error:
        raise ModelError(
            "policy.lora.bits = 4 needs bitsandbytes; install it with: pip install 'turnwise[qlora]'"
        ) from error
    return bitsandbytes
