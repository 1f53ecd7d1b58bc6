"""Optimizers by name, and the schedule of their learning rate."""

import math
from typing import Any

import torch

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError
from turncredit.training.learner.untyped import CausalLM

OPTIMIZERS = ("adamw", "adamw_fused", "adamw_8bit")
"""AdamW of torch, on a GPU with its fused kernel; that kernel on a CPU too; AdamW of bitsandbytes with 8-bit moments
(CUDA only). Without the fused kernel a step holds another array as large as all trained weights."""


def make_optimizer(
    model: CausalLM,
    *,
    lr: float,
    weight_decay: float = 0.0,
    betas: tuple[float, float] = (0.9, 0.999),
    name: str = "adamw",
) -> torch.optim.Optimizer:
    """Return AdamW over the model's trainable parameters; weight decay spares vectors (norms, biases).

    Args:
        model: a torch module.
        lr: learning rate.
        weight_decay: of matrices.
        betas: decay rates of the moments.
        name: one of OPTIMIZERS.

    Raises:
        ConfigError: the name is unknown, or bitsandbytes or a CUDA device is missing.
    """
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    pairs = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    groups = [group for group in pairs if group["params"]]
    if name in ("adamw", "adamw_fused"):
        fused = name == "adamw_fused" or all(parameter.is_cuda for parameter in matrices + vectors)
        return torch.optim.AdamW(groups, lr=lr, betas=betas, fused=fused or None)
    if name == "adamw_8bit":
        made: torch.optim.Optimizer = _eight_bit(matrices + vectors)(groups, lr=lr, betas=betas)
        return made
    raise ConfigError(f"unknown train.optimizer {name!r}{suggest(name, OPTIMIZERS)}")


def _eight_bit(parameters: list[torch.nn.Parameter]) -> Any:
    """Return the class of the optimizer with 8-bit moments."""
    if not all(parameter.is_cuda for parameter in parameters):
        raise ConfigError('train.optimizer = "adamw_8bit" needs policy.device = "cuda"; on the CPU use adamw')
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise ConfigError('train.optimizer = "adamw_8bit" needs bitsandbytes: pip install bitsandbytes') from error
    return AdamW8bit


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def learning_rate(step: int, *, total: int, peak: float, schedule: str = "constant", warmup: int = 0) -> float:
    """Return the learning rate of one optimizer step, a pure function of its number.

    It rises linearly from peak / warmup to peak over `warmup` steps. Then it stays at peak, or follows
    peak (1 + cos(pi x)) / 2, where x goes from 0 to 1 over the remaining steps.

    Args:
        step: from 0.
        total: optimizer steps of the whole run.
        peak: maximum learning rate.
        schedule: "constant" or "cosine".
        warmup: optimizer steps.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    fraction = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak * 0.5 * (1.0 + math.cos(math.pi * fraction))
