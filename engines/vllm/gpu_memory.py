"""The memory of a GPU that vLLM's engine takes, and whether it starts with what is free.

vLLM 0.32 starts only if ceil(total * gpu_memory_utilization) bytes are free, however large the KV cache is; the
default utilization is 0.92. It looks once its process has loaded CUDA, so what that takes is no longer free. Beside
a learner on the same GPU the utilization has to be what the engine needs, which `EngineMemory` adds up.

Weights and KV cache are exact, and the room for adapters is that of a model whose embedding and output layer may have
one, as Llama's. Activations are counted for the largest batch that vLLM profiles at its start; the memory of CUDA
graphs and libraries is assumed (`GRAPHS`, `LIBRARIES`).

Not included: quantized weights, which are counted like others; models whose layers differ; images.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace

from turncredit.agents.errors import EngineFailed, SamplerError
from turncredit.agents.json_types import JsonObject
from turncredit.agents.model_facts import BYTES
from turncredit.engines.weight_pieces import BUCKET

__all__ = ["EngineMemory", "EngineSize", "engine_memory", "requested_bytes", "require_start", "shared_buffer_bytes"]

GIB = 2**30
GRAPHS = GIB
"""Assumed bytes of CUDA graphs on each GPU."""
LIBRARIES = GIB
"""Assumed bytes of CUDA itself, of kernels and of their workspaces, in a process of the engine."""
BATCHED_TOKENS = 2048
"""Tokens of the largest batch (`max_num_batched_tokens`) of vLLM's asynchronous engine, where no option has another."""
SAMPLED = 32
"""Bytes for each logit of a batch: in the model's type and in float32, sorted, as probabilities and summed up."""
BLOCK = 16
"""Tokens of a block of the KV cache."""
HIDDEN = ("hidden_size", "n_embd", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
HEADS = ("num_attention_heads", "n_head", "num_heads")
"""Names of sizes in config.json."""
UTILIZATION = "gpu_memory_utilization"


@dataclass(frozen=True, slots=True)
class EngineSize:
    """What decides how much memory an engine needs.

    Attributes:
        parameters: of the model.
        dtype: of weights and KV cache: float32, bfloat16 or float16.
        context: tokens of the longest sequence.
        sequences: sequences in a batch, at most.
        gpus: over which each tensor is divided.
    """

    parameters: int
    dtype: str
    context: int
    sequences: int
    gpus: int = 1


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes that an engine takes on each of its GPUs.

    Attributes:
        weights: of the model.
        adapters: room for LoRA adapters.
        cache: the KV cache.
        activations: of the largest batch.
        graphs: CUDA graphs.
        libraries: what a process takes that uses CUDA.
        sequence: bytes of the KV cache that the longest sequence needs; less vLLM refuses.
    """

    weights: int
    adapters: int
    cache: int
    activations: int
    graphs: int
    libraries: int
    sequence: int

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by name, in the order of the attributes."""
        return {name: size for name, size in asdict(self).items() if name != "sequence"}

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self.parts.values())

    @property
    def asleep(self) -> int:
        """What an engine that sleeps still holds."""
        return self.graphs + self.libraries

    @property
    def loading(self) -> int:
        """What it holds while new weights are loaded, before the KV cache is there again."""
        return self.asleep + self.weights + self.adapters

    @property
    def requested(self) -> int:
        """What has to be free when vLLM looks: all but the libraries, which it has loaded by then."""
        return self.total - self.libraries

    def with_cache(self, cache: int) -> EngineMemory:
        """Return the same engine with another KV cache."""
        return replace(self, cache=cache)

    def utilization(self, total: int) -> float:
        """Return the share of a GPU's `total` bytes that lets vLLM start in as little as it needs.

        It is rounded down to four digits: vLLM compares it with what is free, and reserves nothing with it where the
        size of the KV cache is given.
        """
        return min(1.0, max(1e-4, math.floor(self.requested / total * 1e4) / 1e4))


def engine_memory(config: JsonObject, size: EngineSize, options: JsonObject, *, cache: int) -> EngineMemory:
    """Return the memory of an engine on each of its GPUs.

    With b the bytes of a number, T the tokens and S the sequences of the largest batch, h the hidden size, f the width
    of the feed-forward layers, V the vocabulary, and g GPUs: activations = b T (6 h + 3 f) / g + 32 S V.

    Args:
        config: of the model, as in its config.json.
        size: of the engine.
        options: options of the sampler: enable_lora, max_lora_rank, max_loras, max_num_batched_tokens and enforce_eager
            are read.
        cache: bytes of the KV cache on each GPU.

    Raises:
        SamplerError: the configuration lacks a size of the model.
    """
    text = {**config, **(config.get("text_config") or {})}
    number, hidden, words = BYTES[size.dtype], _size(text, HIDDEN), _size(text, ("vocab_size",))
    wide = int(text.get("intermediate_size") or 4 * hidden)
    tokens = int(options.get("max_num_batched_tokens") or BATCHED_TOKENS)
    layer_wise = number * tokens * (6 * hidden + 3 * wide) // size.gpus
    blocks = math.ceil(size.context / BLOCK) * BLOCK
    return EngineMemory(
        weights=number * size.parameters // size.gpus,
        adapters=_adapter_bytes(text, number, options) if options.get("enable_lora") else 0,
        cache=cache,
        activations=layer_wise + SAMPLED * min(size.sequences, tokens) * words,
        graphs=0 if options.get("enforce_eager") else GRAPHS,
        libraries=LIBRARIES,
        sequence=blocks * _token_bytes(text, number) // size.gpus,
    )


def shared_buffer_bytes(config: JsonObject, parameters: int, dtype: str) -> int:
    """Return the bytes of the buffer through which a whole model is sent by CUDA IPC: a bucket, or the largest tensor.

    Args:
        config: of the model, as in its config.json.
        parameters: of the model.
        dtype: of the engine's weights.
    """
    text = {**config, **(config.get("text_config") or {})}
    hidden, words = _size(text, HIDDEN), _size(text, ("vocab_size",))
    wide = int(text.get("intermediate_size") or 4 * hidden)
    return min(BYTES[dtype] * parameters, max(BUCKET, BYTES[dtype] * hidden * max(words, wide)))


def requested_bytes(total: int, utilization: float) -> int:
    """Return the bytes that vLLM wants to find free at its start: ceil(total * utilization).

    Args:
        total: bytes of the GPU.
        utilization: gpu_memory_utilization.
    """
    return math.ceil(total * utilization)


def require_start(memory: EngineMemory, *, free: int, total: int, utilization: float | None = None) -> None:
    """Check what vLLM checks at its start.

    Args:
        memory: of the engine.
        free: bytes of the GPU that are free before the engine's process begins.
        total: bytes of the GPU.
        utilization: gpu_memory_utilization; None: what follows from the memory.

    Raises:
        EngineFailed: vLLM would not start; it says what is missing.
    """
    share = memory.utilization(total) if utilization is None else utilization
    requested, left = requested_bytes(total, share), max(0, free - memory.libraries)
    if left < requested:
        raise EngineFailed(
            f"vLLM wants {requested / GIB:.1f} GiB of free memory ({UTILIZATION} = {share:g} of {total / GIB:.1f} "
            f"GiB), and {left / GIB:.1f} GiB are free"
        )
    if memory.cache < memory.sequence:
        raise EngineFailed(
            f"the longest sequence needs a KV cache of {memory.sequence / GIB:.2f} GiB, and it has "
            f"{memory.cache / GIB:.2f} GiB"
        )


def _token_bytes(text: JsonObject, number: int) -> int:
    """Return the bytes of keys and values of one token."""
    heads, each = _cache_heads(text)
    return 2 * _size(text, LAYERS) * heads * each * number


def _cache_heads(text: JsonObject) -> tuple[int, int]:
    """Return the number of heads of the KV cache, and the size of one."""
    heads = _size(text, HEADS)
    each = int(text.get("head_dim") or _size(text, HIDDEN) // heads)
    return int(text.get("num_key_value_heads") or heads), each


def _size(text: JsonObject, names: tuple[str, ...]) -> int:
    """Return a size of a model, which some architectures call by another name.

    Raises:
        SamplerError: the configuration has none of the names.
    """
    values = [text[name] for name in names if isinstance(text.get(name), int)]
    if not values:
        raise SamplerError(f"the model's configuration has no {names[0]}, from which the engine's memory follows")
    return int(values[0])


def _adapter_bytes(text: JsonObject, number: int, options: JsonObject) -> int:
    """Return the bytes of the arrays that vLLM keeps for adapters: inputs and outputs of all matrices, times the rank.

    They are not divided: with several GPUs one of the two arrays of a matrix is whole on each.
    """
    hidden, (cached, each) = _size(text, HIDDEN), _cache_heads(text)
    queries, wide = _size(text, HEADS) * each, int(text.get("intermediate_size") or 4 * hidden)
    attention = (hidden + queries) + 2 * (hidden + cached * each) + (queries + hidden)
    layers = _size(text, LAYERS) * (attention + 3 * (hidden + wide))
    ends = 2 * (hidden + _size(text, ("vocab_size",)))  # embedding and output layer
    rank = int(options.get("max_lora_rank") or 16)
    return number * rank * int(options.get("max_loras") or 1) * (layers + ends)
