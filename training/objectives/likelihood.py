"""LLDS: a penalty on good actions that an update made less likely.

Left out on purpose: the variant that treats answer tokens apart; which tokens are an answer is the task's business.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from turnwise.registry import suggest
from turnwise.training.errors import ConfigError
from turnwise.training.objectives.tokens import Tokens

Gate = Literal["action", "response"]


def lowered(tokens: Tokens, gate: str = "action") -> Tensor:
    """Return by how much each token of an action with A >= 0 became less likely, where its gate is open.

        d = o - n,   l = g * max(0, d) where A >= 0, else 0
        g = 1 if the sum of d over the gate's tokens with A >= 0 is positive

    The gate is an unbroken stretch of such tokens within a turn ("action") or the sequence ("response"); it carries no
    gradient. At n = o all is zero: the penalty acts from the second optimizer step on a batch, or where o is what the
    sampling engine gave.

    Args:
        tokens: the tokens; sequences must be whole.
        gate: "action" or "response".

    Returns:
        float [M], nats.

    Raises:
        ConfigError: the gate is unknown.

    Source: arXiv 2512.04220 and its code.
    """
    if gate not in get_args(Gate):
        raise ConfigError(f"unknown gate {gate!r}{suggest(gate, get_args(Gate))}")
    good = tokens.advantages >= 0
    fallen = tokens.old - tokens.new
    code = tokens.sequence if gate == "response" else _stretches(tokens.turn, good)
    sums = fallen.new_zeros(int(code.max()) + 1 if len(code) else 0)
    sums = sums.index_add(0, code, torch.where(good, fallen.detach(), torch.zeros_like(fallen)))
    on = good & ~(sums[code] <= 0)  # open for NaN as well, so that it shows
    return torch.where(on, fallen.clamp(min=0.0), torch.zeros_like(fallen))


def _stretches(turn: Tensor, good: Tensor) -> Tensor:
    """Number the stretches in which neither the turn nor the sign changes."""
    new = torch.zeros_like(good)
    new[1:] = (turn[1:] != turn[:-1]) | (good[1:] != good[:-1])
    return torch.cumsum(new, 0)
