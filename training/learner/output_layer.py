"""Whether the logits of a model are what its output layer makes of the last hidden state, and nothing else."""

from typing import Any, Final

import torch
from torch import Tensor

from turnwise.training.learner.untyped import CausalLM

WIDEST: Final = 1e4
"""Largest logit of the ramp that shows what a model does after its output layer."""


def head_is_a_projection(model: CausalLM) -> bool:
    """Return whether a model's logits are the output layer's, and its input the last hidden state, on two tokens.

    In the place of the output layer's own outputs the model gets a ramp up to `WIDEST`: a cap, a scale or a mask after
    the layer shows in it, however small the logits of the weights at hand are.
    """
    head: Any = model.get_output_embeddings()
    body: Any = getattr(model, "base_model", model)
    if head is None or body is model:
        return False
    hidden: list[Tensor] = []
    ramps: list[Tensor] = []

    def replace_output(_: Any, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        hidden.extend(arguments)
        values = torch.linspace(-WIDEST, WIDEST, output.numel(), device=output.device)
        ramps.append(values.view(output.shape).to(output.dtype))
        return ramps[-1]

    probe = torch.tensor([[1, 2]], device=next(iter(model.parameters())).device)
    handle = head.register_forward_hook(replace_output)
    try:
        logits = model(input_ids=probe, use_cache=False).logits
    finally:
        handle.remove()
    last = body(input_ids=probe, use_cache=False).last_hidden_state
    if len(ramps) != 1 or len(hidden) != 1 or ramps[0].shape != logits.shape or hidden[0].shape != last.shape:
        return False
    return torch.equal(logits.double(), ramps[0].double()) and torch.allclose(hidden[0], last, atol=1e-4)
