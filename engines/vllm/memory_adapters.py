"""LoRA adapters that reach vLLM's workers as tensors; vLLM itself reads adapters from folders only.

A request names its adapter by a number. A worker that has an adapter of that number asks for no folder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from turncredit.agents.errors import SamplerError

if TYPE_CHECKING:
    import torch

__all__ = ["AdapterManager", "add_adapter"]


class LoraConfig(Protocol):
    """vLLM's configuration of adapters."""

    lora_dtype: torch.dtype


class AdapterManager(Protocol):
    """vLLM's `WorkerLoRAManager`, as far as it is used here."""

    lora_config: LoraConfig
    max_position_embeddings: int | None
    vocab_size: int
    _adapter_manager: Any
    _lora_model_cls: Any


def add_adapter(
    manager: AdapterManager, number: int, config: Mapping[str, object], tensors: Mapping[str, torch.Tensor]
) -> None:
    """Put an adapter among those of a worker, and into a free place on its device.

    Args:
        manager: vLLM's `WorkerLoRAManager`.
        number: by which requests name it.
        config: as in peft's adapter_config.json.
        tensors: by the names that peft gives them in files, in main memory.

    Raises:
        SamplerError: the model has no place for an adapter on one of its layers.
        ValueError: vLLM does not compute with such an adapter.
    """
    from vllm.lora.model_manager import LRUCacheLoRAModelManager
    from vllm.lora.peft_helper import PEFTHelper

    adapters = manager._adapter_manager
    helper = PEFTHelper.from_dict({**config, "vllm_max_position_embeddings": manager.max_position_embeddings})
    helper.validate_legal(manager.lora_config)
    mapper = getattr(adapters.model, "hf_to_vllm_mapper", None)
    adapter = manager._lora_model_cls.from_lora_tensors(
        number,
        dict(tensors),
        helper,
        device="cpu",  # activation copies it to its place on the device
        dtype=manager.lora_config.lora_dtype,
        model_vocab_size=manager.vocab_size,
        weights_mapper=mapper.get_rename_mapper() if mapper else None,
        skip_prefixes=getattr(adapters.model, "lora_skip_prefixes", None),
    )
    _check_layers(adapter.loras, adapters.supported_lora_modules, adapters.packed_modules_mapping)
    adapters._validate_moe_lora_format(adapter)
    adapters.remove_adapter(number)
    if len(adapters) >= adapters.capacity and isinstance(adapters, LRUCacheLoRAModelManager):
        adapters.remove_oldest_adapter()
    adapters.add_adapter(adapter)
    adapters.activate_adapter(number)


def _check_layers(names: Iterable[str], supported: Collection[str], packed: Mapping[str, Iterable[str]]) -> None:
    """Check that adapters lie on layers that take one; vLLM leaves out the others without a word.

    Args:
        names: of the adapted layers.
        supported: last parts of the names of vLLM's layers that take adapters.
        packed: layers that vLLM computes as one.
    """
    parts = {part for layer in supported for part in packed.get(layer, [layer])} | ({"experts"} & set(supported))
    unknown = sorted(name for name in names if _last_part(name) not in parts)
    if unknown:
        raise SamplerError(f"vLLM takes no adapter on {len(unknown)} layers, such as {unknown[0]}")


def _last_part(name: str) -> str:
    """Return what names a kind of layer: of experts, all from "experts" on."""
    before, experts, after = name.partition(".experts")
    return f"experts{after}" if experts else before.rpartition(".")[2]
