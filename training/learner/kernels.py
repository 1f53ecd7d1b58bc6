"""Faster kernels for the layers of a model, while the learner computes with it: compiled by torch, or those of liger.

    plain      the operations of torch, one after the other
    compile    torch.compile makes fused kernels of each layer, and of the projection to the vocabulary
    liger      RMSNorm, gated MLPs and rotary positions by liger-kernel (CUDA)

Layers that a model has in many copies are compiled once, for sequences of any length. A kernel of liger takes the place
of a module that it agrees with on random numbers; other modules stay as they are.

Engines that sample with the same model keep its own operations: the kernels are there during a pass of the learner,
and when the backward pass computes a layer again.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Final, TypeVar

import torch
from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError
from turncredit.training.learner.recomputation import known_layers
from turncredit.training.learner.untyped import CausalLM

KERNELS: Final = ("plain", "compile", "liger")
ROTARY: Final = "apply_rotary_pos_emb"
"""Name that the modules of transformers give to their function for rotary positions."""

VECTORS: Final = {"AVX2": 256, "AVX512": 512}
"""Bits of the vectors that torch uses, by its name for what the processor can do."""

T = TypeVar("T")
Forward = Callable[..., Tensor]
Rotation = Callable[..., tuple[Tensor, Tensor]]


@dataclass(frozen=True, slots=True)
class LigerKernels:
    """The kernels of liger.

    Attributes:
        norm: of hidden states, weight, eps, offset, casting mode, and whether it may overwrite a gradient.
        silu: silu(gate) * up.
        gelu: gelu(gate) * up, by the approximation with tanh.
        rotary: rotates queries and keys by cosines and sines.
    """

    norm: Forward
    silu: Forward
    gelu: Forward
    rotary: Rotation


class LayerKernels:
    """Puts other kernels in the place of a model's own, as a context that may be entered again inside itself.

    Args:
        model: of transformers.
        name: one of KERNELS.

    Attributes:
        compiled: whether what is computed outside of layers should be compiled as well.
        replaced: modules that compute with another kernel.

    Raises:
        ConfigError: the model has no layers that can be compiled, or nothing that liger has a kernel for.
    """

    def __init__(self, model: CausalLM, name: str) -> None:
        if name not in KERNELS:
            raise ConfigError(f"unknown policy.kernels {name!r}{suggest(name, KERNELS)}")
        self.compiled = name == "compile"
        self._forwards: list[tuple[CausalLM, Forward]] = []
        self._functions: list[tuple[ModuleType, Rotation, Rotation]] = []
        self._depth = 0
        if name == "compile":
            self._forwards = [(layer, _compiled(layer)) for layer in known_layers(model)]
        elif name == "liger":
            self._forwards, self._functions = _of_liger(model)
        if name != "plain" and not self._forwards:
            raise ConfigError(
                f'policy.kernels = "{name}" has nothing to compute in {type(model).__name__}; use "plain"'
            )

    @property
    def replaced(self) -> list[CausalLM]:
        """Modules that compute with another kernel."""
        return [module for module, _ in self._forwards]

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Compute with these kernels."""
        if not self._depth:
            self._enter()
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                self._leave()

    def _enter(self) -> None:
        for module, forward in self._forwards:
            module.__dict__["forward"] = forward
        for source, _, function in self._functions:
            setattr(source, ROTARY, function)

    def _leave(self) -> None:
        for module, _ in self._forwards:
            del module.__dict__["forward"]
        for source, own, _ in self._functions:
            setattr(source, ROTARY, own)


def require_kernels(name: str, device: str, *, ranks: int = 1) -> None:
    """Refuse kernels that this machine cannot make.

    Args:
        name: one of KERNELS.
        device: of the learner, as torch names it.
        ranks: that train together.

    Raises:
        ConfigError: torch finds no compiler; liger-kernel is missing, or there is no CUDA device, or several ranks.
    """
    if name != "plain" and ranks > 1:
        raise ConfigError(f'policy.kernels = "{name}" works with one rank, got {ranks}; use "plain"')
    if name == "compile":
        try:
            fused(_probe)(torch.ones(8, device=device))
        except Exception as error:  # each backend raises its own
            line = str(error).strip().splitlines()[0]
            raise ConfigError(f'policy.kernels = "compile" is not possible on the device {device}: {line}') from error
    if name == "liger":
        if not device.startswith("cuda"):
            raise ConfigError(f'policy.kernels = "liger" needs policy.device = "cuda", got {device}; use "compile"')
        _liger()


def _probe(numbers: Tensor) -> Tensor:
    return numbers.sin() + 1


def fused(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function with kernels that torch compiles for arrays of any length."""
    # What torch keeps on the disk was compiled for some vectors, and it takes it for others without asking: a process
    # that uses AVX2 (`turncredit.training.learner.threads`) then computes NaN with kernels for AVX-512.
    bits = VECTORS.get(torch.backends.cpu.get_cpu_capability())
    options: dict[str, str | int | bool | Callable[..., object]] = {} if bits is None else {"cpp.simdlen": bits}
    return torch.compile(function, dynamic=True, options=options)


def _compiled(layer: CausalLM) -> Forward:
    """Return the compiled forward of a layer; one that will be computed again gets there by its own (`recomputing`)."""
    own, compiled = layer.forward, fused(layer.forward)

    def forward(*args: object, **options: object) -> Tensor:
        again = layer.training and layer.gradient_checkpointing and torch.is_grad_enabled()
        result: Tensor = (own if again else compiled)(*args, **options)
        return result

    return forward


def _of_liger(
    model: CausalLM,
) -> tuple[list[tuple[CausalLM, Forward]], list[tuple[ModuleType, Rotation, Rotation]]]:
    """Return modules with the forward that takes the place of theirs, and files of transformers with functions."""
    kernels, verdicts, forwards = _liger(), dict[object, int | None](), []
    for module in model.modules():
        candidates = list(_candidates(module, kernels))
        if not candidates:
            continue
        sizes = tuple((name, tuple(weight.shape), weight.dtype) for name, weight in module.named_parameters())
        key = type(module), sizes
        if key not in verdicts:
            verdicts[key] = next((k for k, other in enumerate(candidates) if _agree(module, other)), None)
        choice = verdicts[key]
        if choice is not None:
            forwards.append((module, candidates[choice]))
    sources = {sys.modules[type(layer).__module__] for layer in known_layers(model)}
    functions = [
        (source, getattr(source, ROTARY), kernels.rotary)
        for source in sources
        if hasattr(source, ROTARY) and _same_rotation(getattr(source, ROTARY), kernels.rotary, model)
    ]
    return forwards, functions


def _candidates(module: CausalLM, kernels: LigerKernels) -> Iterator[Forward]:
    """Yield what might compute the same as a module, by its attributes; whether it does is for `_agree` to say."""
    epsilon = getattr(module, "variance_epsilon", getattr(module, "eps", None))
    if type(module).__name__.endswith("RMSNorm") and isinstance(epsilon, float) and hasattr(module, "weight"):
        for offset, casting in ((0.0, "llama"), (1.0, "gemma")):
            yield _norm(module, kernels.norm, epsilon, offset, casting)
    if all(hasattr(module, name) for name in ("gate_proj", "up_proj", "down_proj", "act_fn")):
        for product in (kernels.silu, kernels.gelu):
            yield _gated(module, product)


def _norm(module: CausalLM, kernel: Forward, epsilon: float, offset: float, casting: str) -> Forward:
    def forward(hidden_states: Tensor) -> Tensor:
        # not in place: the gradient that it would overwrite may belong to somebody else
        return kernel(hidden_states, module.weight, epsilon, offset, casting, False)

    return forward


def _gated(module: CausalLM, product: Forward) -> Forward:
    def forward(hidden_states: Tensor) -> Tensor:
        gate, up = module.gate_proj(hidden_states), module.up_proj(hidden_states)
        result: Tensor = module.down_proj(product(gate, up))
        return result

    return forward


@torch.no_grad()
def _agree(module: CausalLM, other: Forward) -> bool:
    """Whether another forward gives the numbers of a module, up to rounding in the type of its weights."""
    weight = next(module.parameters())
    width = module.gate_proj.in_features if hasattr(module, "gate_proj") else weight.shape[-1]
    generator = torch.Generator(weight.device).manual_seed(0)
    numbers = torch.randn(1, 8, width, generator=generator, device=weight.device).to(_computing(weight))
    try:
        return _near(module(numbers), other(numbers))
    except Exception:  # triton raises anything for sizes that a kernel does not take
        return False


@torch.no_grad()
def _same_rotation(own: Rotation, other: Rotation, model: CausalLM) -> bool:
    """Whether two functions rotate queries and keys alike."""
    config, device = model.config.get_text_config(), next(model.parameters()).device
    heads = int(config.num_attention_heads)
    size = int(getattr(config, "head_dim", None) or config.hidden_size // heads)
    generator = torch.Generator(device).manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=device)

    query, key = random(1, heads, 8, size), random(1, int(getattr(config, "num_key_value_heads", heads)), 8, size)
    angles = random(1, 8, size // 2).repeat(1, 1, 2)
    try:
        pairs = [rotate(query.clone(), key.clone(), angles.cos(), angles.sin()) for rotate in (own, other)]
        return all(_near(mine, theirs) for mine, theirs in zip(*pairs, strict=True))
    except Exception:  # a function of another signature
        return False


def _computing(weight: Tensor) -> torch.dtype:
    """Return a floating type in which a module computes; weights in 4 bits are integers."""
    return weight.dtype if weight.dtype.is_floating_point else torch.bfloat16


def _near(mine: Tensor, theirs: Tensor) -> bool:
    bound = 0.03 if mine.dtype in (torch.bfloat16, torch.float16) else 1e-4
    mine, theirs = mine.double(), theirs.double()
    return bool((mine - theirs).abs().max() <= bound * mine.abs().max().clamp(min=1e-6))


def _liger() -> LigerKernels:
    """Return the kernels of liger.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        from liger_kernel.ops.geglu import LigerGELUMulFunction
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        from liger_kernel.ops.swiglu import LigerSiLUMulFunction
        from liger_kernel.transformers.rope import liger_rotary_pos_emb
    except ImportError as error:
        raise ConfigError(
            f'policy.kernels = "liger" needs liger-kernel ({error}): pip install liger-kernel; or use "compile"'
        ) from error
    return LigerKernels(
        norm=LigerRMSNormFunction.apply,
        silu=LigerSiLUMulFunction.apply,
        gelu=LigerGELUMulFunction.apply,
        rotary=liger_rotary_pos_emb,
    )
