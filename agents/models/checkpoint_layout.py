"""Tensors as a model's checkpoint has them, where transformers holds them under other names or in another shape.

transformers stacks the experts of a mixture into one tensor, and gives the language model of an image model a prefix of
its own. What it did when it loaded a model it can undo (`save_pretrained` does), and other engines read the result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.errors import SamplerError
from turncredit.agents.models.four_bits import whole_state
from turncredit.agents.models.model_folder import causal_class, quiet, transformers_library
from turncredit.agents.models.weights import WeightSource, base_model, is_module, named_tensors

if TYPE_CHECKING:
    import torch

__all__ = [
    "adapted_layers",
    "buffer_names",
    "checkpoint_tensors",
    "described_tensors",
    "ignored_names",
    "in_checkpoint_layout",
    "in_module_layout",
    "lasting_addresses",
    "one_name_each",
]

_INSIDE = "base_layer."
_BLOCK = re.compile(r".*?\.\d+\.")
"""The beginning of a name, up to the number of its layer."""


def checkpoint_tensors(weights: WeightSource) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a whole model as its Hugging Face folder has them, one layer at a time.

    Adapters are merged, see `named_tensors`. Tensors of a folder and of a mapping are yielded as they are.

    Args:
        weights: where they are.

    Raises:
        SamplerError: see `named_tensors`.
    """
    tensors = named_tensors(weights)
    yield from in_checkpoint_layout(weights, tensors) if is_module(weights) else tensors


def one_name_each(weights: WeightSource, names: Collection[str] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what `checkpoint_tensors` yields, but a second name of a tensor (tied weights) only if it is among `names`.

    Args:
        weights: see `checkpoint_tensors`.
        names: names of the tensors that the receiving model has, if they are known.
    """
    lasting = lasting_addresses(weights)  # a tensor that was computed on the way may leave its address to another
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in checkpoint_tensors(weights):
        location = tensor.data_ptr(), tuple(tensor.shape)
        if location in seen and name not in names:
            continue
        if location[0] in lasting:
            seen.add(location)
        yield name, tensor


def described_tensors(weights: WeightSource, names: Collection[str] = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what `one_name_each` yields; of a module, on torch's meta device, so that nothing is merged or copied.

    Args:
        weights: see `checkpoint_tensors`.
        names: see `one_name_each`.
    """
    if not is_module(weights):
        yield from one_name_each(weights, names)
        return
    base = base_model(weights)
    state = {name: _described(tensor) for name, tensor in whole_state(base).items() if "lora_" not in name}
    first: dict[tuple[int, tuple[int, ...]], str] = {}
    for name, tensor in state.items():
        first.setdefault((tensor.data_ptr() or id(tensor), tuple(tensor.shape)), name)
    again = [(name.replace(_INSIDE, ""), state[name].to("meta")) for name in state.keys() - set(first.values())]
    second = {name for name, _ in in_checkpoint_layout(weights, again)} - set(names)
    empty = ((name.replace(_INSIDE, ""), tensor.to("meta")) for name, tensor in state.items())
    yield from (item for item in in_checkpoint_layout(weights, empty) if item[0] not in second)


def _described(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor as it is, or of one in 4 bits the whole one without numbers."""
    import torch

    state = getattr(tensor, "quant_state", None)
    return tensor if state is None else torch.empty(state.shape, dtype=state.dtype, device="meta")


def in_checkpoint_layout(
    module: torch.nn.Module, tensors: Iterable[tuple[str, torch.Tensor]]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield tensors of a module under the names and in the shapes of its checkpoint; most are views of them.

    Args:
        module: transformers or peft model.
        tensors: some or all of its tensors by name, without adapters, those of a layer one after another.
    """
    base = base_model(module)
    revert = _reversal() if hasattr(base, "config") else None
    if revert is None:
        yield from tensors
        return
    for _, block in groupby(tensors, key=lambda item: _block(item[0])):
        yield from revert(base, dict(block)).items()


def in_module_layout(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    """Return the tensors of a checkpoint under the names and in the shapes that a module of its model has.

    Where they differ, the result is a copy. Tensors that the module lacks are part of it, and it lacks those that the
    checkpoint lacks.

    Args:
        module: transformers model without adapter.
        tensors: by the names of a checkpoint, or by the module's own.

    Raises:
        SamplerError: they do not fit the module.
    """
    own = module.state_dict().keys()
    if own >= tensors.keys() or _reversal() is None:
        return tensors
    transformers = transformers_library()
    try:
        with quiet(transformers):
            loaded, report = type(base_model(module)).from_pretrained(
                None,
                config=module.config,
                state_dict=dict(tensors),
                dtype=module.dtype,
                output_loading_info=True,
                trust_remote_code=False,
            )
    except Exception as error:  # of torch, where shapes differ, and of transformers
        raise SamplerError(f"the new weights do not fit the sampler's model: {error}") from error
    missing = set(report.get("missing_keys") or ())
    state = {name: tensor for name, tensor in loaded.state_dict().items() if name not in missing}
    return state | {name: tensors[name] for name in report.get("unexpected_keys") or () if name in tensors}


def buffer_names(module: torch.nn.Module) -> frozenset[str]:
    """Return the names that `checkpoint_tensors` gives a module's buffers, such as the biases of a router."""
    base = base_model(module)
    state = base.state_dict()
    buffers = [(name, state[name]) for name, _ in base.named_buffers() if name in state]
    return frozenset(name for name, _ in in_checkpoint_layout(module, buffers))


def adapted_layers(module: object) -> dict[str, str]:
    """Return the names that the adapted matrices of a peft model have in its checkpoint, without ".weight".

    Raises:
        SamplerError: an adapter lies on experts, which are stacked in the module and apart in the checkpoint.
    """
    names = {}
    base = base_model(module)
    for name, layer in base.named_modules():
        if not hasattr(layer, "lora_A"):
            continue
        plain = f"{name}.{getattr(layer, 'parameter_name', 'weight')}".replace(_INSIDE, "")
        weight = layer.get_param() if hasattr(layer, "get_param") else layer.get_base_layer().weight
        (own, *others) = dict(in_checkpoint_layout(base, [(plain, weight)]))
        if others or weight.ndim != 2:
            raise SamplerError(
                f"an engine takes no adapter on stacked experts such as {plain}: leave the option enable_lora (of a "
                "server: adapters) out, so that the adapter is merged, or name other matrices in policy.lora.targets"
            )
        names[name] = own.removesuffix(".weight")
    return names


def ignored_names(folder: Path) -> tuple[str, ...]:
    """Return patterns of the names in a model folder that are no part of the language model as transformers loads it.

    These are layers that predict further tokens (DeepSeek-V3, Qwen 3.5), and the image encoder of a model that is
    loaded without it (Qwen 3.5). They stay as they are in an engine that has them.

    Raises:
        ModelError: transformers knows no causal language model with the configuration in the folder.
    """
    # no model is made: in its workers, vLLM changes the classes of transformers that it computes with
    return (r"inv_freq$", *(getattr(causal_class(folder), "_keys_to_ignore_on_load_unexpected", None) or ()))


def lasting_addresses(weights: WeightSource) -> frozenset[int]:
    """Return where tensors lie that stay as they are while others are yielded; all empty ones have one address."""
    if isinstance(weights, Path):
        return frozenset()
    tensors = weights.values() if isinstance(weights, Mapping) else getattr(weights, "state_dict", dict)().values()
    return frozenset(tensor.data_ptr() for tensor in tensors if tensor.numel())


def _block(name: str) -> str:
    match = _BLOCK.match(name)
    return match[0] if match else ""


def _reversal() -> Callable[[object, Mapping[str, torch.Tensor]], dict[str, torch.Tensor]] | None:
    """Return what undoes the conversions of transformers; None before version 5, which has none."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return None
    reversal: Callable[[object, Mapping[str, torch.Tensor]], dict[str, torch.Tensor]] = revert_weight_conversion
    return reversal
