"""LLDS: a penalty on good actions that an update made less likely.

Not included: the variant that treats answer tokens separately, since only the task knows which tokens are the answer.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.tokens import Tokens

Gate = Literal["action", "response"]


def likelihood_drop(tokens: Tokens, gate: str = "action") -> Tensor:
    """Return how much less likely each token of an action with A >= 0 became, where its gate is open.

        d = o - n,   l = g * max(0, d) where A >= 0, else 0
        g = 1 if the sum of d over the gate's tokens with A >= 0 is positive

    The gate covers a contiguous run of such tokens within a turn ("action") or the whole sequence ("response"); it
    carries no gradient. At n = o everything is zero: the penalty acts from the second optimizer step on a batch, or
    where o comes from the sampling engine.

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
    code = tokens.sequence if gate == "response" else _contiguous_runs(tokens.turn, good)
    sums = fallen.new_zeros(int(code.max()) + 1 if len(code) else 0)
    sums = sums.index_add(0, code, torch.where(good, fallen.detach(), torch.zeros_like(fallen)))
    on = good & ~(sums[code] <= 0)  # open for NaN as well, so that it propagates
    return torch.where(on, fallen.clamp(min=0.0), torch.zeros_like(fallen))


def _contiguous_runs(turn: Tensor, good: Tensor) -> Tensor:
    """Number the contiguous runs in which neither the turn nor the sign changes."""
    new = torch.zeros_like(good)
    new[1:] = (turn[1:] != turn[:-1]) | (good[1:] != good[:-1])
    return torch.cumsum(new, 0)
