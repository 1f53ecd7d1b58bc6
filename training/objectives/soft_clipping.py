"""Objectives with weights instead of PPO's clip: CISPO, SAPO, DPPO.

For CISPO with the sampling engine's log-probabilities in the denominator, add a correction.
"""

import torch

from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, unclipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.tokens import Tokens


@objective()
def cispo(tokens: Tokens, *, clip_low: float = 1.0, clip_high: float = 0.28, masked: bool = False) -> Losses:
    """Return a policy gradient weighted by the clipped ratio, so that no token loses its gradient.

    r = exp(n - o), l = -sg[clip(r, 1 - clip_low, 1 + clip_high)] A n; masked: 0 where PPO would clip
    the gradient (r above for A > 0, below for A < 0).

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        clip_low: the ratio's lower bound is 1 - clip_low; 1 for none.
        clip_high: its upper bound is 1 + clip_high. TRL's epsilon_high is the bound itself: take it less 1.
        masked: drop tokens as PPO would.

    Source: MiniMax 2025, arXiv 2506.13585; masked as in Trinity-RFT.
    """
    ratio = torch.exp(tokens.log_ratio).detach()
    weight = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss, _ = unclipped(-weight * tokens.advantages * tokens.new)
    if not masked:
        return unclipped(loss)
    good = tokens.advantages
    cut = ((good > 0) & (ratio > 1.0 + clip_high)) | ((good < 0) & (ratio < 1.0 - clip_low))
    return torch.where(cut, torch.zeros_like(loss), loss), cut


@objective(aggregation="seq-mean-token-mean")
def sapo(tokens: Tokens, *, tau_pos: float = 1.0, tau_neg: float = 1.05) -> Losses:
    """Return a policy gradient that decays smoothly as the ratio departs from 1.

    r = exp(n - o), l = -(4 / tau) sigmoid(tau (r - 1)) A, tau by the sign of A (zero counts as negative). At r = 1 the
    gradient is -A dn, as in the other objectives.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        tau_pos: steepness for A > 0.
        tau_neg: steepness for A <= 0.

    Raises:
        ConfigError: a tau is zero.

    Source: arXiv 2511.20347 (Qwen), as in verl and TRL.
    """
    for name, value in (("tau_pos", tau_pos), ("tau_neg", tau_neg)):
        if value <= 0:
            raise ConfigError(f"sapo: option {name!r} must be positive, not {value}")
    ratio = torch.exp(tokens.log_ratio)
    tau = torch.where(tokens.advantages > 0, torch.full_like(ratio, tau_pos), torch.full_like(ratio, tau_neg))
    return unclipped(-(4.0 / tau) * torch.sigmoid(tau * (ratio - 1.0)) * tokens.advantages)


@objective()
def dppo_tv(tokens: Tokens, *, low: float = 0.2, high: float = 0.2, cap: float = 20.0) -> Losses:
    """Return a policy gradient that is cut off by the change of the probability instead of the ratio.

    p = exp(n), q = exp(o); l = -A sg[min(p / q, cap)] n where (A > 0 and p - q <= high) or (A <= 0 and
    p - q >= -low), else 0. The ratio of rare tokens may therefore change a lot.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        low: furthest that a probability may fall, for A <= 0.
        high: furthest that it may rise, for A > 0.
        cap: highest ratio.

    Source: arXiv 2602.04879, as in verl.
    """
    new = tokens.new.detach()
    moved = torch.exp(new) - torch.exp(tokens.old)
    cut = torch.where(tokens.advantages > 0, moved > high, moved < -low)
    loss = -tokens.advantages * torch.exp(tokens.log_ratio.detach()).clamp(max=cap) * tokens.new
    return torch.where(cut, torch.zeros_like(loss), loss), cut
