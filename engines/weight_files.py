"""Weights on their way to another process: a temporary folder with safetensors, checked against what it has.

The folder lies in memory (/dev/shm) where there is room for it. It is deleted once the engine has read it.

`turncredit.engines.weight_transfer` sends them without files. Not included: workers on other machines.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.errors import SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.models.checkpoint_layout import adapted_layers, one_name_each
from turncredit.agents.models.lora_folders import adapter_config, plain_adapter, save_adapter
from turncredit.agents.models.weights import WeightSource
from turncredit.tools.bounded_input import read_json

if TYPE_CHECKING:
    import torch

__all__ = [
    "check_adapter",
    "check_adapter_shapes",
    "check_shapes",
    "new_folder",
    "on_host",
    "packed_adapter",
    "shapes_of",
    "unpacked",
    "write_adapter",
    "write_tensors",
]

Shape = tuple[int, ...]
MEMORY = Path("/dev/shm")
SHARD = 2**30
"""Bytes of a file, and so the most that is copied at once."""


def new_folder(shapes: Mapping[str, Shape], dtype: torch.dtype | None = None) -> Path:
    """Return a new temporary folder; in memory if there is room for twice the tensors of these shapes.

    Args:
        shapes: of the tensors.
        dtype: torch type in which they are written; None: float32 at most.
    """
    need = 2 * (4 if dtype is None else dtype.itemsize) * sum(math.prod(shape) for shape in shapes.values())
    in_memory = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > need + 2**26
    return Path(tempfile.mkdtemp(prefix="turncredit-weights-", dir=MEMORY if in_memory else None))


def shapes_of(folder: Path) -> dict[str, Shape]:
    """Return the shapes of the tensors of a Hugging Face folder; empty if it has no safetensors."""
    from safetensors import safe_open

    shapes: dict[str, Shape] = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="pt") as opened:
            shapes |= {name: tuple(opened.get_slice(name).get_shape()) for name in opened.keys()}  # noqa: SIM118
    return shapes


def check_shapes(shapes: Mapping[str, Shape], expected: Mapping[str, Shape], ignored: Sequence[str] = ()) -> None:
    """Check that new weights have exactly the tensors of the engine's model.

    vLLM leaves a layer that receives no tensor as it was, and a wrong shape breaks the model half-way.

    Args:
        shapes: names and shapes of the new weights.
        expected: those of the folder that the engine started from; nothing is checked if it is empty.
        ignored: patterns of names that either may have, from `ignored_names`.

    Raises:
        SamplerError: a tensor is missing, unknown, or has another shape.
    """
    if not shapes:
        raise SamplerError("the new weights have no tensors; they must be in *.safetensors files")
    if not expected:
        return
    shapes, expected = (_without(ignored, table) for table in (shapes, expected))
    for problem, names in (("lack", expected.keys() - shapes.keys()), ("add", shapes.keys() - expected.keys())):
        if names:
            raise SamplerError(
                f"the new weights do not fit the engine's model: they {problem} {len(names)} tensors, such as "
                f"{min(names)}"
            )
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise SamplerError(
                f"the new weights do not fit the engine's model: {name} has the shape {list(shapes[name])} instead of "
                f"{list(shape)}"
            )


def _without(patterns: Sequence[str], shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    return {name: shape for name, shape in shapes.items() if not any(re.search(pattern, name) for pattern in patterns)}


def write_tensors(
    weights: WeightSource, folder: Path, dtype: torch.dtype | None = None, names: Collection[str] = ()
) -> None:
    """Write a whole model as safetensors.

    Args:
        weights: a module or named tensors, see `named_tensors`.
        folder: an existing folder.
        dtype: torch type in which floating-point tensors are written; None: their own.
        names: names of the engine's tensors, if they are known. A second name of a tensor (tied weights) is written
            only if it is among them.

    Raises:
        SamplerError: they cannot be written, because the disk is full for example.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        for number, shard in enumerate(_shards(weights, dtype, names)):
            save_file(shard, folder / f"model-{number:05d}.safetensors")
    except (SafetensorError, OSError) as error:
        raise SamplerError(f"new weights cannot be written into {folder}: {error}") from error


def _shards(
    weights: WeightSource, dtype: torch.dtype | None, names: Collection[str]
) -> Iterator[dict[str, torch.Tensor]]:
    """Yield the tensors on the CPU, about `SHARD` bytes at a time."""
    shard: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in one_name_each(weights, names):
        value = on_host(tensor, dtype)
        held = any(value.data_ptr() == other.data_ptr() for other in shard.values())
        shard[name] = value.clone() if held else value  # safetensors refuses two names for one memory
        size += value.nbytes
        if size >= SHARD:
            yield shard
            shard, size = {}, 0
    if shard:
        yield shard


def on_host(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """Return a tensor in main memory; one with a floating point in another type, which it gets where it is.

    In one call of `to`, torch copies float32 from a GPU and converts it on the CPU: twice the bytes of bfloat16.

    Args:
        tensor: on any device.
        dtype: torch type; None: its own.
    """
    value = tensor.detach()
    if dtype is not None and value.is_floating_point():
        value = value.to(dtype)
    return value.to("cpu").contiguous()


def write_adapter(module: WeightSource, folder: Path) -> None:
    """Write the adapter of a peft model for an engine, which has its layers under the names of the checkpoint.

    Raises:
        SamplerError: it lies on layers for which engines take no adapter, or is more than LoRA.
        OSError: the folder cannot be written.
    """
    save_adapter(module, folder, adapted_layers(module))


def packed_adapter(module: WeightSource, dtype: torch.dtype) -> tuple[dict[str, object], dict[str, Shape], bytes]:
    """Return the adapter of a peft model for an engine: its configuration, its shapes, and its tensors in safetensors.

    Args:
        module: peft model.
        dtype: torch type in which the tensors are sent.

    Raises:
        SamplerError: it lies on layers for which engines take no adapter, or is more than LoRA.
    """
    from safetensors.torch import save

    tensors = plain_adapter(module, adapted_layers(module))
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    return adapter_config(module), shapes, save({name: on_host(tensor, dtype) for name, tensor in tensors.items()})


def unpacked(data: bytes) -> dict[str, torch.Tensor]:
    """Return the tensors in bytes of safetensors, in main memory."""
    from safetensors.torch import load

    return dict(load(data))


def check_adapter(folder: Path, limit: int, expected: Mapping[str, Shape]) -> None:
    """Check that a peft adapter in a folder fits an engine and its model; see `check_adapter_shapes`."""
    try:
        config = read_json(folder / "adapter_config.json")
    except (OSError, ValueError) as error:
        raise SamplerError(f"{folder} has no readable adapter_config.json: {error}") from error
    if config.get("peft_type") != "LORA":
        raise SamplerError(f"{folder} must hold a LoRA adapter, but its peft_type is {config.get('peft_type')!r}")
    check_adapter_shapes(config, shapes_of(folder) if expected else {}, limit, expected)


def check_adapter_shapes(
    config: JsonObject, shapes: Mapping[str, Shape], limit: int, expected: Mapping[str, Shape]
) -> None:
    """Check that a peft adapter fits an engine and its model; vLLM accepts one that is too small without a word.

    Args:
        config: as in adapter_config.json.
        shapes: of its tensors, by name.
        limit: maximum rank; 0 if the engine takes no adapters.
        expected: names and shapes of the model's tensors; they are not checked if it is empty.

    Raises:
        SamplerError: its rank is too high, or it belongs to another model.
    """
    rank = max(map(int, [config["r"], *config.get("rank_pattern", {}).values()]))
    if rank > limit:
        accepts = f"adapters up to rank {limit}" if limit else "no adapters"
        raise SamplerError(
            f"the adapter has rank {rank}, but the engine accepts {accepts}; set the options enable_lora = true and "
            f"max_lora_rank = {max(8, 1 << (rank - 1).bit_length())}"
        )
    for name, shape in shapes.items() if expected else ():
        layer, _, part = name.removeprefix("base_model.model.").partition(".lora_")
        full = expected.get(f"{layer}.weight", (0, 0))
        inputs, size = part.startswith("A"), full[1] if part.startswith("A") else full[0]
        if size != (shape[1] if inputs else shape[0]):
            has = f"which has {size} {'inputs' if inputs else 'outputs'}" if size else "which it lacks"
            raise SamplerError(
                f"the adapter belongs to another model than the engine's: its {name} has the shape {list(shape)} and "
                f"is for {layer}, {has}"
            )
