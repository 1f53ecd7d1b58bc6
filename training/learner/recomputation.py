"""Gradient checkpointing: the activations inside each layer are computed again in the backward pass, not kept.

transformers recomputes layers only in training mode, in which dropout is active. Here the model stays in evaluation
mode; only the layers themselves are switched, and only for the duration of one forward pass, so that a sampler that
shares the model keeps its cache.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch.utils.checkpoint import checkpoint

from turncredit.training.errors import ConfigError
from turncredit.training.learner.untyped import CausalLM


def known_layers(model: CausalLM) -> list[CausalLM]:
    """Return the layers of a model as far as transformers marks them; none for models that it does not cut."""
    from transformers.modeling_layers import GradientCheckpointingLayer

    return [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]


def layers_of(model: CausalLM) -> list[CausalLM]:
    """Return the layers of a model that can be recomputed.

    Raises:
        ConfigError: there are none.
    """
    layers = known_layers(model)
    if not layers:
        raise ConfigError(f"policy.recompute_activations is not available: {type(model).__name__} does not support it")
    return layers


@contextmanager
def recomputing(
    layers: list[CausalLM], attend: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Iterator[None]:
    """Compute the given layers so that the backward pass recomputes them; no dropout is active.

    Args:
        layers: from `layers_of`.
        attend: returns the context in which a layer computes, also in the backward pass.
    """
    for layer in layers:
        layer.training = layer.gradient_checkpointing = True
        layer._gradient_checkpointing_func = partial(_recompute, layer, attend)
    try:
        yield
    finally:
        for layer in layers:
            layer.training = False
            del layer.gradient_checkpointing, layer._gradient_checkpointing_func


def _recompute(
    layer: CausalLM, attend: Callable[[], AbstractContextManager[None]], function: Callable[..., Any], *args: object
) -> object:
    def forward(*args: object) -> object:
        before, layer.training = layer.training, False
        # Compiled kernels depend on it and must be the same in both passes: `recomputing` has ended in the second one.
        marked = layer.__dict__.pop("gradient_checkpointing", None)
        try:
            with attend():
                if getattr(function, "args", ()) == (layer,):
                    # transformers 5.24 names the forward of the layer's class; other kernels are in the layer itself
                    return layer.forward(*args, **function.keywords)  # type: ignore[attr-defined]
                return function(*args)
        finally:
            layer.training = before
            if marked is not None:
                layer.gradient_checkpointing = marked

    return checkpoint(forward, *args, use_reentrant=False)
