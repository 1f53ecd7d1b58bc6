"""How much memory training needs, by part, before anything is computed.

Weights, gradients and optimizer states are counted from the parameters; activations are those that one forward pass
would keep, found by running the model on tensors without data. Temporary arrays of the backward pass, the allocator's
fragmentation and the libraries themselves are not counted.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import InitVar, asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from turncredit.agents.content import ImagePart
from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.models.four_bits import BYTES
from turncredit.agents.models.weights import base_model
from turncredit.agents.token_experts import experts_dtype
from turncredit.agents.vision.image_reader import reader_of
from turncredit.agents.vision.vision_folder import class_of
from turncredit.engines.transformers.expert_routing import COUNTS
from turncredit.training.errors import NotEnoughMemory
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.recomputation import known_layers
from turncredit.training.learner.untyped import CausalLM, ModelConfig, PolicyTokenizer
from turncredit.training.learner.vocabulary import CHUNK

GIB = 2**30
NEAR = 0.9
"""Share of the free memory above which an estimate is worth a remark."""
OPTIMIZER_BYTES = {"adamw": 8, "adamw_fused": 8, "adamw_8bit": 2}
"""Bytes of optimizer states per trained parameter."""


@dataclass(frozen=True, slots=True)
class MemoryNeeds:
    """What decides how much memory training needs; the defaults are those of a run.

    Attributes:
        tokens: per micro-batch.
        length: of the longest sequence, in tokens.
        dtype: of the computation.
        lora: the table policy.lora; empty: all weights are trained.
        optimizer: train.optimizer.
        recompute_activations: policy.recompute_activations.
        packing: train.micro_batch.packing.
        sharing: train.micro_batch.share_prefixes: `tokens` are distinct ones.
        attention: policy.attention.
        reference: whether a second copy of all weights is kept.
        engine: dtype of the copy of all weights that the engine in this process samples from; empty: it samples from
            the policy itself, or elsewhere.
        cached: tokens in the sampler's cache.
        routing_replay: whether experts are recorded with the tokens of the sampler's cache, and prescribed in updates.
        image_token_bytes: that an image encoder keeps for the backward pass, for each token of an image.
        ranks: over which weights, gradients and the optimizer's states are divided.
        checkpointing: deprecated name of `recompute_activations`.
    """

    tokens: int = 4096
    length: int = 1024
    dtype: str = "float32"
    lora: Mapping[str, object] = field(default_factory=dict)
    optimizer: str = "adamw"
    recompute_activations: bool = False
    packing: bool = False
    sharing: bool = False
    attention: str = ""
    reference: bool = False
    engine: str = ""
    cached: int = 0
    routing_replay: bool = False
    image_token_bytes: float = 0.0
    ranks: int = 1
    checkpointing: InitVar[bool | None] = None

    def __post_init__(self, checkpointing: bool | None) -> None:
        """Read the old name."""
        if checkpointing is not None:
            new = "MemoryNeeds(checkpointing=) is deprecated: write recompute_activations"
            warnings.warn(new, DeprecationWarning, stacklevel=3)
            object.__setattr__(self, "recompute_activations", checkpointing)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and tokens per row of the largest micro-batch."""
        if self.packing or self.sharing:
            return 1, max(self.tokens, self.length)
        return max(1, self.tokens // self.length), self.length


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of memory during an update, by part.

    Attributes:
        weights: of the policy.
        gradients: of the trained weights.
        optimizer: states of the optimizer.
        reference: weights of the reference policy.
        engine: weights of the engine's own copy.
        activations: kept from the forward pass for the backward pass.
        logits: of the tokens in a micro-batch, or of one chunk.
        gathered: weights and gradients that a rank holds whole while it computes, where they are divided over ranks.
        cache: keys and values of the sampler.
        images: kept from the passes of an image encoder, if all tokens of a micro-batch were of images.
        experts: recorded for the tokens of the sampler's cache, and prescribed to those of a micro-batch.
    """

    weights: int
    gradients: int
    optimizer: int
    reference: int
    engine: int
    activations: int
    logits: int
    gathered: int
    cache: int
    parameters: int = 0
    """Numbers of the model, its adapter's included; no part of the memory."""
    images: int = 0
    experts: int = 0

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return sum(self.parts.values())

    @property
    def parts(self) -> dict[str, int]:
        """Bytes by name, in the order of the attributes."""
        return {name: size for name, size in asdict(self).items() if name != "parameters"}

    def table(self) -> str:
        """Return one line per part that is not empty, and the total, in GiB."""
        rows = [(name, size) for name, size in self.parts.items() if size]
        return "\n".join(f"{name:<12} {size / GIB:8.2f} GiB" for name, size in [*rows, ("total", self.total)])


def estimate(config: ModelConfig, needs: MemoryNeeds) -> MemoryEstimate:
    """Return the memory that an update of a model needs.

    Args:
        config: of the model, from transformers.
        needs: how it is trained.

    Raises:
        ConfigError: policy.lora is wrong for this model.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    model = _model_without_data(config, needs)
    with FakeTensorMode():
        _move_to_cpu(model)
        trained = [p for p in model.parameters() if p.requires_grad]
        activations, width = _kept_activations(model, needs)
    layers = int(getattr(config.get_text_config(), "num_hidden_layers", 1))
    rows, length = needs.shape
    weights = _weights(model, needs) // needs.ranks
    return MemoryEstimate(
        weights=weights,
        gradients=sum(p.numel() * p.element_size() for p in trained) // needs.ranks,
        optimizer=sum(p.numel() for p in trained) * OPTIMIZER_BYTES[needs.optimizer] // needs.ranks,
        reference=weights if needs.reference and not needs.lora else 0,
        engine=sum(p.numel() for p in model.parameters()) * _bytes(needs.engine) if needs.engine else 0,
        activations=activations // layers + layers * rows * length * width
        if needs.recompute_activations
        else activations,
        logits=_logits(model, config, needs),
        gathered=_gathered(model, needs) if needs.ranks > 1 else 0,
        cache=needs.cached * cache_bytes(config, dtype=needs.dtype),
        parameters=sum(p.numel() for p in model.parameters()),
        images=round(rows * length * needs.image_token_bytes),
        experts=(rows * length + needs.cached) * expert_bytes(config) if needs.routing_replay else 0,
    )


def _weights(model: CausalLM, needs: MemoryNeeds) -> int:
    """Return the bytes of the weights; those in 4 bits are counted with their scales."""
    size: int = sum(p.numel() * p.element_size() for p in model.parameters())
    if not needs.lora or LoraOptions.of(needs.lora).bits == 16:
        return size
    head = model.get_output_embeddings()
    matrices = [
        module.weight
        for name, module in model.named_modules()
        if type(module) is torch.nn.Linear and module is not head and "lora_" not in name
    ]
    saved: float = sum(weight.numel() * (weight.element_size() - BYTES) for weight in matrices)
    return size - round(saved)


def gathered_bytes(config: ModelConfig, needs: MemoryNeeds) -> int:
    """Return the bytes of weights and gradients that a rank holds whole while it computes.

    The group outside of the layers (embedding, last norm, head) stays gathered for a whole pass; one layer computes,
    and the next one is gathered meanwhile. Gradients are whole until they are summed, in a copy in float32:

    gathered = b (R + 2 L) + (b + 4) (trained R + trained L),

    with R the numbers outside of the layers, L those of the largest layer, and b the bytes of a number that computes.

    Args:
        config: of the model, from transformers.
        needs: how it is trained.

    Raises:
        ConfigError: policy.lora is wrong for this model.
    """
    return _gathered(_model_without_data(config, needs), needs)


def cache_bytes(config: ModelConfig, *, dtype: str = "float32") -> int:
    """Return the bytes of keys and values that a sampler keeps per token.

    Args:
        config: of the model, from transformers.
        dtype: of the cache.
    """
    text = config.get_text_config()
    heads = getattr(text, "num_key_value_heads", None) or text.num_attention_heads
    size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    return 2 * int(text.num_hidden_layers) * int(heads) * int(size) * _bytes(dtype)


def expert_bytes(config: ModelConfig) -> int:
    """Return the bytes of the recorded experts of a token: layers x experts of a token, in 8 or 16 bits; 0 without any.

    Args:
        config: of the model, from transformers; layers without experts are counted as well.
    """
    text = config.get_text_config()
    count = next((number for name in COUNTS if (number := getattr(text, name, None))), 0)
    top = getattr(text, "num_experts_per_tok", None) or 0
    return int(text.num_hidden_layers) * int(top) * experts_dtype(int(count)).itemsize if count else 0


def _bytes(dtype: str) -> int:
    return 4 if dtype == "float32" else 2


def bytes_per_image_token(model: CausalLM, tokenizer: PolicyTokenizer, size: tuple[int, int]) -> float:
    """Return the bytes that the image encoder keeps for each token of an image, measured on one.

    Args:
        model: of transformers, with its adapter where it has one, on any device.
        tokenizer: of the model; 0 is returned if it knows of no images.
        size: width and height of the images.
    """
    reader = reader_of(tokenizer)
    if reader is None:
        return 0.0
    sizes: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    width, height = size
    image = ImagePart(np.zeros((height, width, 3), np.uint8))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), torch.enable_grad():
        vectors = reader.features(image, base_model(model))
        total = sum(sizes.values())
    return total / max(1, len(vectors))


def require_memory(config: ModelConfig, needs: MemoryNeeds, device: str) -> str | None:
    """Return a remark if an update nearly fills the free memory of a device, or more than fills it.

    Args:
        config: of the model, whose weights are in the memory of the CPU already.
        needs: how it is trained.
        device: as torch names it.

    Raises:
        NotEnoughMemory: not even micro-batches of one sequence fit.
    """
    free = free_memory(device)
    if free is None:
        return None
    loaded = device == "cpu"
    whole = estimate(config, needs)
    if whole.total - loaded * whole.weights <= NEAR * free:
        return None
    least = estimate(config, replace(needs, tokens=needs.length))
    if least.total - loaded * least.weights > free:
        raise NotEnoughMemory(
            f"{_sentence(least, device, free)}, even with one sequence per micro-batch; {_remedies(needs)}"
        )
    return f"{_sentence(whole, device, free)}; micro-batches are halved where memory runs out; {_remedies(needs)}"


def free_memory(device: str) -> int | None:
    """Return the bytes that are free on a device; None if the system does not say."""
    numbers = DeviceMemory(device).free_and_total()
    if numbers is not None:
        return numbers[0]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    table = dict(line.split(":", 1) for line in lines)
    free = int(table["MemAvailable"].split()[0]) * 1024
    limits = [_number("/sys/fs/cgroup/memory.max"), _number("/sys/fs/cgroup/memory.current")]
    if limits[0] is not None and limits[1] is not None:
        free = min(free, limits[0] - limits[1])
    return free


def _model_without_data(config: ModelConfig, needs: MemoryNeeds) -> CausalLM:
    import transformers

    attention = "eager" if needs.attention == "eager" else "sdpa"
    dtype = torch.bfloat16 if needs.lora and needs.dtype == "bfloat16" else torch.float32
    with torch.random.fork_rng(devices=[]), torch.device("meta"):
        model = (
            class_of(transformers, config)
            .from_config(config, trust_remote_code=False, attn_implementation=attention, dtype=dtype)
            .eval()
        )
        return add_adapter(model, LoraOptions.of(needs.lora)).get_base_model() if needs.lora else model


def _move_to_cpu(model: CausalLM) -> None:
    """Replace tensors of the device "meta" by tensors of the CPU, which have no data either; other kernels are used."""
    made: dict[int, Tensor] = {}
    for module in model.modules():
        for named in (module._parameters, module._buffers):
            for name, old in named.items():
                if old is None:
                    continue
                if id(old) not in made:
                    new = torch.empty(old.shape, dtype=old.dtype)
                    is_weight = isinstance(old, torch.nn.Parameter)
                    made[id(old)] = torch.nn.Parameter(new, requires_grad=old.requires_grad) if is_weight else new
                named[name] = made[id(old)]


def _gathered(model: CausalLM, needs: MemoryNeeds) -> int:
    """Return what `gathered_bytes` says of a model without data."""
    layers = [list(layer.parameters()) for layer in known_layers(model)]
    inside = {id(parameter) for layer in layers for parameter in layer}
    root = [parameter for parameter in model.parameters() if id(parameter) not in inside]
    largest = max(layers, key=_numbers, default=[])
    trained: int = sum(p.numel() for p in [*root, *largest] if p.requires_grad)
    each = _bytes(needs.dtype)
    return each * (_numbers(root) + 2 * _numbers(largest)) + (each + 4) * trained


def _numbers(parameters: Sequence[Tensor]) -> int:
    return sum(int(parameter.numel()) for parameter in parameters)


@contextmanager
def _experts_of_any_type() -> Iterator[None]:
    """Let transformers multiply by experts in its own way, which knows tensors without data of every type.

    torch's grouped product of such tensors is for bfloat16 alone.
    """
    try:
        from transformers.integrations import moe
    except ImportError:  # older versions of transformers
        yield
        return
    usable = getattr(moe, "_can_use_grouped_mm", None)
    if usable is None:
        yield
        return
    moe._can_use_grouped_mm = lambda *_: False
    try:
        yield
    finally:
        moe._can_use_grouped_mm = usable


def _kept_activations(model: CausalLM, needs: MemoryNeeds) -> tuple[int, int]:
    """Return the bytes that a forward pass keeps, and the bytes of one hidden state."""
    weights = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            sizes[storage._cdata] = storage.nbytes()
        return tensor

    half = torch.autocast("cpu", dtype=torch.bfloat16, enabled=needs.dtype == "bfloat16")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), half, _experts_of_any_type():
        tokens = torch.ones(needs.shape, dtype=torch.int64)
        hidden = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
    return sum(sizes.values()) + _mask_bytes(needs), hidden.shape[-1] * hidden.element_size()


def _mask_bytes(needs: MemoryNeeds) -> int:
    """Return the bytes of the mask: of all tokens where rows are packed, of the depths of the longest row in a tree."""
    if needs.sharing:
        return needs.length**2
    packed = needs.packing and needs.attention != "flash_attention_2"
    return int(needs.shape[1] ** 2) if packed else 0


def _logits(model: CausalLM, config: ModelConfig, needs: MemoryNeeds) -> int:
    """Return the bytes of logits with what is computed from them (5 arrays), and of the head's gradient on its way."""
    rows, length = needs.shape
    words = int(config.get_text_config().vocab_size)
    tokens = min(rows * length, max(1, CHUNK // words))
    head = model.get_output_embeddings().weight
    gradient = head.numel() * head.element_size() if head.requires_grad else 0
    return 5 * tokens * words * 4 + int(gradient)


def _sentence(needed: MemoryEstimate, device: str, free: int) -> str:
    parts = ", ".join(f"{name} {size / GIB:.1f}" for name, size in needed.parts.items() if size >= GIB / 20)
    return (
        f"training needs about {needed.total / GIB:.1f} GiB on the device {device} ({parts}), and {free / GIB:.1f} GiB "
        "are free"
    )


def _remedies(needs: MemoryNeeds) -> str:
    """Return what would save memory."""
    choices = {
        "policy.recompute_activations = true": not needs.recompute_activations,
        "policy.lora": not needs.lora,
        "policy.lora.bits = 4": bool(needs.lora) and LoraOptions.of(needs.lora).bits == 16,
        'policy.dtype = "bfloat16"': needs.dtype != "bfloat16",
        "a smaller policy.context": True,
    }
    return "consider " + ", ".join(name for name, open_ in choices.items() if open_)


def _number(path: str) -> int | None:
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
