"""Adapters beside a base in 16 bits: as exact as peft's, with gradients in float32, and peft's own where it matters."""

from __future__ import annotations

import copy

import pytest
import torch

peft = pytest.importorskip("peft")

from turncredit.agents.models.lora_layers import HalfLinear, compute_in_half  # noqa: E402


class Layers(torch.nn.Module):
    """Two matrices with biases and something between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(48, 96), torch.nn.Linear(96, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.nn.functional.silu(self.up(x)))


def adapted(dtype: torch.dtype, *, half: bool, dropout: float = 0.0):
    """A peft model that is always the same, with matrices that change what the base computes."""
    torch.manual_seed(0)
    config = peft.LoraConfig(r=4, lora_alpha=8, target_modules=["up", "down"], lora_dropout=dropout)
    model = peft.get_peft_model(Layers().to(dtype), config)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.2)
    if half:
        compute_in_half(model)
    return model.eval()


def outcome(model, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """What it computes, and the gradients of its adapters and of its input, in float64."""
    torch.manual_seed(1)
    x = torch.randn(3, 7, 48).to(dtype).requires_grad_()
    y = model(x)
    y.double().square().sum().backward()
    gradients = {name: weight.grad.double() for name, weight in model.named_parameters() if "lora_" in name}
    return {"output": y.detach().double(), "input": x.grad.double(), **gradients}


def test_outputs_and_gradients_are_as_close_to_the_truth_as_those_of_peft():
    base = adapted(torch.bfloat16, half=False)
    truth = outcome(copy.deepcopy(base).double(), torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # as a learner computes it
        peft_numbers = outcome(base, torch.bfloat16)
    model = adapted(torch.bfloat16, half=True)
    numbers = outcome(model, torch.bfloat16)
    assert isinstance(model.base_model.model.up, HalfLinear)
    assert all(weight.grad.dtype == torch.float32 for name, weight in model.named_parameters() if "lora_" in name)
    for name, right in truth.items():
        error, other = ((each[name] - right).norm() / right.norm() for each in (numbers, peft_numbers))
        assert error < 1.3 * other, name


@pytest.mark.parametrize("case", ["float32", "dropout"])
def test_other_layers_stay_those_of_peft(case: str):
    dtype, dropout = (torch.float32, 0.0) if case == "float32" else (torch.bfloat16, 0.5)
    model = adapted(dtype, half=True, dropout=dropout)
    assert not any(isinstance(module, HalfLinear) for module in model.modules())


def test_switched_off_and_merged_adapters_are_heeded():
    model, plain = (adapted(torch.bfloat16, half=half) for half in (True, False))
    x = torch.randn(2, 48).bfloat16()
    with torch.no_grad():
        with model.disable_adapter(), plain.disable_adapter():
            assert torch.equal(model(x), plain(x))
        model.merge_adapter()
        plain.merge_adapter()
        assert torch.equal(model(x), plain(x))


def test_a_copy_computes_with_its_own_weights():
    model = adapted(torch.bfloat16, half=True)
    other = copy.deepcopy(model)
    with torch.no_grad():
        for name, weight in other.named_parameters():
            if "lora_B" in name:
                weight.zero_()
        x = torch.randn(2, 48).bfloat16()
        with model.disable_adapter():
            base = model(x)
        assert torch.equal(other(x), base)
        assert not torch.equal(model(x), base)
