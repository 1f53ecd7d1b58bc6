"""LoRA beside a base in 16 bits: the adapter is computed in the base's type, and added in the product that ends it.

    y = W x + B (s A x),    s = alpha / rank

peft computes an adapter that is held in float32 in float32, and writes the inputs and outputs of every matrix in
float32, or passes over them several times. Here A and B are rounded to the type of the base for each pass, and keep
their gradients in float32.
"""

from __future__ import annotations

import torch
from peft.tuners.lora.layer import Linear
from torch import Tensor

HALF = (torch.bfloat16, torch.float16)


class HalfLinear(Linear):
    """A matrix of peft with one plain adapter; in other cases, and beside float32, it computes what peft does."""

    def forward(self, x: Tensor, *args: object, **kwargs: object) -> Tensor:
        """Return y, in the type of the base."""
        name = self.active_adapters[0] if len(self.active_adapters) == 1 else ""
        plain = name in self.lora_A and name not in self.lora_variant
        if args or kwargs or not plain or self.disable_adapters or self.merged or x.dtype not in HALF:
            result: Tensor = super().forward(x, *args, **kwargs)
            return result
        base: Tensor = self.base_layer(x)
        if base.dtype != x.dtype:
            return super().forward(x)
        inside, outside = self._matrix(self.lora_A[name], x.dtype), self._matrix(self.lora_B[name], x.dtype)
        hidden = torch.nn.functional.linear(x, inside) * self.scaling[name]
        added = torch.addmm(base.flatten(0, -2), hidden.flatten(0, -2), outside.t())
        return added.view_as(base)

    @staticmethod
    def _matrix(layer: torch.nn.Module, dtype: torch.dtype) -> Tensor:
        weight: Tensor = layer.get_parameter("weight")
        return weight.to(dtype)


def compute_in_half(model: torch.nn.Module) -> None:
    """Let the matrices of a peft model that are in 16 bits compute their adapters so; others stay as they are.

    Adapters of turncredit have neither dropout nor a bias, which this leaves out.
    """
    for module in model.modules():
        if type(module) is Linear and _is_plain(module):
            module.__class__ = HalfLinear


def _is_plain(module: Linear) -> bool:
    """Return whether a matrix is in 16 bits, and its adapters have no dropout and no bias."""
    half = getattr(module.base_layer, "weight", None) is not None and module.base_layer.weight.dtype in HALF
    drops = any(isinstance(layer, torch.nn.Dropout) and layer.p > 0 for layer in module.lora_dropout.values())
    return half and not drops and all(layer.bias is None for layer in module.lora_B.values())
