"""Weights on their way to a sampler: a module, named tensors or a folder, as one stream of named tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from turncredit.agents.errors import SamplerError
from turncredit.agents.models.four_bits import whole, whole_state

if TYPE_CHECKING:
    import torch

__all__ = [
    "WeightSource",
    "Weights",
    "base_model",
    "has_adapter",
    "is_adapter",
    "is_module",
    "named_tensors",
    "require_plain_adapter",
    "shared_embedding",
]

WeightSource: TypeAlias = "torch.nn.Module | Mapping[str, torch.Tensor] | Path"
"""What weights come from: a torch module, a mapping of names (as in a Hugging Face folder) to tensors, or the path of a
Hugging Face folder or of a folder with a LoRA adapter."""

_CONFIG = "adapter_config.json"
_LAYER = "base_layer."
_LORA = f".{_LAYER}"


@dataclass(frozen=True, slots=True)
class Weights:
    """New weights for a sampler, whatever they come from; the folder and adapter properties say how to load them."""

    source: WeightSource

    @classmethod
    def of(cls, weights: Weights | WeightSource) -> Weights:
        """Return the weights of a source."""
        return weights if isinstance(weights, Weights) else cls(weights)

    @property
    def folder(self) -> Path | None:
        """The folder of a whole model that they lie in; None for an adapter, and for weights in memory."""
        return self.source if isinstance(self.source, Path) and not is_adapter(self.source) else None

    @property
    def adapter_folder(self) -> Path | None:
        """The folder of a LoRA adapter that they lie in."""
        return self.source if isinstance(self.source, Path) and is_adapter(self.source) else None

    @property
    def has_adapter(self) -> bool:
        """Whether they are a module with a LoRA adapter, which can be loaded as one, or merged."""
        return has_adapter(self.source)

    def named_tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield the tensors of the whole model; see the function `named_tensors`."""
        return named_tensors(self.source)


def is_adapter(folder: str | Path) -> bool:
    """Return whether a folder holds an adapter rather than a whole model."""
    path = Path(folder)
    return (path / _CONFIG).is_file() and not (path / "config.json").is_file()


def base_model(module: object) -> Any:
    """Return the model of transformers inside a peft model; another module as it is."""
    return module.get_base_model() if hasattr(module, "get_base_model") else module


def is_module(weights: WeightSource) -> TypeGuard[torch.nn.Module]:
    """Return whether weights are those of a torch module, which stacks and names tensors in its own way."""
    return hasattr(weights, "state_dict")


def has_adapter(module: object) -> bool:
    """Return whether a module is wrapped by peft, with a LoRA adapter around frozen weights."""
    # the configuration may stay on a model whose adapter was merged, which peft no longer wraps
    return bool(getattr(module, "peft_config", None)) and hasattr(module, "get_base_model")


_BEYOND = {
    "use_dora": "weights of another length (DoRA)",
    "lora_bias": "biases of its own",
    "modules_to_save": "whole modules",
    "trainable_token_indices": "rows of the embedding",
    "alora_invocation_tokens": "tokens that switch it on",
    "layer_replication": "replicated layers",
}
"""Options of peft with which an adapter is more than matrices B A, and what it then has."""


def require_plain_adapter(module: Any) -> None:
    """Check that the adapters of a peft model are B A beside matrices that nothing else uses.

    Raises:
        SamplerError: an adapter is more than that, or lies on one of the two layers that share their weights.
    """
    for config in module.peft_config.values():
        kind = getattr(config.peft_type, "value", config.peft_type)
        beyond = [text for name, text in _BEYOND.items() if getattr(config, name, None)]
        beyond += ["biases of the model"] if getattr(config, "bias", "none") != "none" else []
        if kind != "LORA" or beyond:
            problem = f"has {' and '.join(beyond)} beside its matrices" if beyond else f"is of the type {kind}"
            raise SamplerError(
                f"only plain LoRA adapters can be trained and loaded into engines, and this one {problem}"
            )
    for name, layer in shared_embedding(module).items():
        if hasattr(layer, "base_layer"):
            raise SamplerError(
                f"the model's embedding and output layer share their weights, so an adapter on {name} alone cannot be "
                "added to them; leave it out of the targets"
            )


def shared_embedding(module: object) -> dict[str, Any]:
    """Return embedding and output layer of a model by name if they share their weights (tied); else nothing.

    Args:
        module: transformers or peft model; a layer with an adapter is returned with it.
    """
    base = base_model(module)
    layers = base.get_input_embeddings(), base.get_output_embeddings()
    weights = [getattr(_without_adapter(layer), "weight", None) for layer in layers]
    if weights[0] is None or weights[0] is not weights[1]:
        return {}
    return {name: layer for name, layer in base.named_modules() if any(layer is shared for shared in layers)}


def _without_adapter(layer: Any) -> Any:
    """Return the model's own layer inside what peft has put around it."""
    while True:
        inner = getattr(layer, "base_layer", None) or getattr(layer, "original_module", None)
        if inner is None:
            return layer
        layer = inner


def named_tensors(weights: WeightSource) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of a whole model: those of a module under its own names, others under the names that they have.

    For the names and shapes of a Hugging Face folder see `turncredit.agents.models.checkpoint_layout`.

    LoRA adapters are merged: W + scaling * B A, one matrix at a time, so that no second copy of the model exists.
    Matrices in 4 bits are dequantized.

    Args:
        weights: where they are; of folders, those of whole models with safetensors.

    Raises:
        SamplerError: the folder has no safetensors, the weights are of another type, or an adapter cannot be merged.
    """
    if isinstance(weights, Path):
        yield from _of_folder(weights)
    elif isinstance(weights, Mapping):
        yield from weights.items()
    elif is_module(weights) and has_adapter(weights):
        yield from _merged(weights)
    elif is_module(weights):
        yield from weights.state_dict().items()
    else:
        raise SamplerError(
            f"weights must be a torch module, a mapping of names to tensors, or a Path; got {type(weights).__name__}"
        )


def _of_folder(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    from safetensors import safe_open

    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise SamplerError(f"{folder} has no *.safetensors files")
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 - it is no mapping
                yield name, opened.get_tensor(name)


def _merged(module: torch.nn.Module) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield the tensors of the model inside a peft module, each adapted matrix with its adapter added."""
    require_plain_adapter(module)
    base = base_model(module)
    parts = dict(base.named_modules())
    for name, parameter in whole_state(base).items():
        if "lora_" in name:
            continue
        tensor = whole(parameter)
        layer, around, own = name.partition(_LORA)
        if not around:
            yield name, tensor
            continue
        deltas = _deltas(parts[layer], own.rpartition(_LAYER)[2])
        value = sum((delta.float() for delta in deltas), tensor.float()).to(tensor.dtype) if deltas else tensor
        yield name.replace(_LAYER, ""), value  # rounded once


def _deltas(layer: Any, parameter: str) -> list[torch.Tensor]:
    """Return what the adapters around a layer add to one of its parameters; stacked experts have one for each."""
    deltas: list[torch.Tensor] = []
    while hasattr(layer, "base_layer"):
        if getattr(layer, "parameter_name", "weight") == parameter:
            deltas += [layer.get_delta_weight(adapter) for adapter in layer.active_adapters]
        layer = layer.base_layer
    return deltas
