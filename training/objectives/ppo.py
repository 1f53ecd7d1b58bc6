"""PPO's clipped objective, and its forms for stale samples, replayed successes, and the episodes of teachers."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, clipped, dual_clipped, unclipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.sources import TEACHER
from turncredit.training.objectives.tokens import LARGEST, Tokens


@objective()
def ppo_clip(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = None,
    delta: float | None = None,
) -> Losses:
    """Return the clipped policy gradient.

    r = exp(n - o), l = max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)); with a dual clip c and A < 0,
    l = min(l, -A c); with delta, the r that is not clipped is min(r, delta). At n = o the value is -A and the
    gradient -A dn.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high; above clip_low it is "clip-higher".
        dual_clip: c > 1, cap of the ratio for negative advantages; None or 0 for none.
        delta: cap of the ratio for advantages of both signs, above 1 + clip_high; None or 0 for none.

    Raises:
        ConfigError: dual_clip is not above 1, or delta not above 1 + clip_high.

    Source: Schulman et al. 2017, arXiv 1707.06347; separate bounds Yu et al. 2025, arXiv 2503.14476; dual clip Ye et
    al. 2019, arXiv 1912.09729; delta as in TRL. n - o is kept within +-20 here.
    """
    ratio = torch.exp(tokens.log_ratio)
    plain = None
    if delta:
        if delta <= 1.0 + clip_high:
            raise ConfigError(f"delta must be above 1 + clip_high = {1 + clip_high}, got {delta}")
        plain = -tokens.advantages * ratio.clamp(max=delta)
    losses = clipped(tokens.advantages, ratio, 1.0 - clip_low, 1.0 + clip_high, plain=plain)
    return dual_clipped(tokens.advantages, losses, dual_clip)


Staleness = Literal["mask", "clamp"]


@objective(weighed=True)
def decoupled(
    tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.2, cap: float = 5.0, over: str = "mask"
) -> Losses:
    """Return PPO's clip around the policy at the start of the update, for samples of an older policy.

    r = exp(n - o), w = sg[exp(o - b)], l = w max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)); where w is above
    the cap it is 0 ("mask") or the cap ("clamp"). Masked tokens stay in the denominator.

    Args:
        tokens: the tokens; `rollout` is from the policy that sampled them, `old` from the start of the update.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        cap: maximum of w.
        over: "mask" or "clamp".

    Raises:
        ConfigError: `over` is invalid.

    Source: Fu et al. 2025 (AReaL), arXiv 2505.24298; a non-finite o - b counts as 0, as there.
    """
    if over not in get_args(Staleness):
        raise ConfigError(f"decoupled: unknown option over={over!r}{suggest(over, get_args(Staleness))}")
    stale = torch.nan_to_num(tokens.old - tokens.need("rollout"), nan=0.0, posinf=0.0, neginf=0.0)
    weight = torch.exp(stale.clamp(-LARGEST, LARGEST))
    above = weight > cap
    weight = weight.clamp(max=cap) if over == "clamp" else torch.where(above, torch.zeros_like(weight), weight)
    loss, cut = clipped(tokens.advantages, torch.exp(tokens.log_ratio), 1.0 - clip_low, 1.0 + clip_high)
    return weight * loss, cut | (weight == 0)


@objective(signed=("least",))
def self_imitation(
    tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.28, weight: float = 1.0, least: float = 0.0
) -> Losses:
    """Return the clipped policy gradient of actions that went better than expected.

    l = weight * max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)) where A > least, else 0.

    Args:
        tokens: the tokens of replayed (or fresh) trajectories; `old` is under the policy that collected them.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        weight: factor of the loss; `imitation_weight` increases it over a run.
        least: advantages up to this are ignored.

    Source: Oh et al. 2018, arXiv 1806.05635, in the clipped form of Qin et al. 2025 (SPEAR), arXiv 2509.22601.
    """
    advantages = torch.where(tokens.advantages > least, tokens.advantages, torch.zeros_like(tokens.advantages))
    loss, cut = clipped(advantages, torch.exp(tokens.log_ratio), 1.0 - clip_low, 1.0 + clip_high)
    return weight * loss, cut


@objective(aggregation="seq-mean-token-sum-norm")
def ampo(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    dual_clip: float | None = 10.0,
    bias: float = 0.1,
) -> Losses:
    """Return PPO's clip for the policy's episodes, and for those of a teacher a gradient that spares unlikely tokens.

    l = ppo_clip with clip_low, clip_high and dual_clip; of a teacher l = -A p / (p + bias) with p = exp(n), neither
    clipped nor relative to the old policy. At p = 0.2, the factor is 2/3.

    Args:
        tokens: with `source`.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        dual_clip: cap of the ratio for negative advantages; None or 0 for none.
        bias: p at which the factor is 1/2.

    Raises:
        ConfigError: dual_clip is not above 1, or bias is 0.

    Source: Yuan et al. 2025, arXiv 2510.02227, and its code.
    """
    if bias <= 0:
        raise ConfigError(f"ampo: option 'bias' must be > 0, got {bias}")
    losses = clipped(tokens.advantages, torch.exp(tokens.log_ratio), 1.0 - clip_low, 1.0 + clip_high)
    loss, cut = dual_clipped(tokens.advantages, losses, dual_clip)
    chance = _probability(tokens.new)
    teacher = _of_teacher(tokens)
    return torch.where(teacher, -tokens.advantages * chance / (chance + bias), loss), cut & ~teacher


@objective(aggregation="seq-mean-token-sum-norm")
def rl_plus(tokens: Tokens, *, exponent: float = 0.5) -> Losses:
    """Return the unclipped policy gradient, and for a teacher's episodes one with a ratio to a mixture of policies.

    l = -A exp(n - o); of a teacher l = -R sg[(1 - p)^exponent] A with p = exp(n), q = exp(o) and
    R = 2 p / (q + (q + 1) / 2), the ratio to the mean of the old policy and an unknown one. Unlikely tokens of a
    teacher weigh most. At p = q = 0.2, R is 0.5, and the factor 0.8944.

    Args:
        tokens: with `source`; `old` is under the policy at the start of the update, also for a teacher's tokens.
        exponent: how much likely tokens are spared.

    Source: Dong et al. 2025, arXiv 2508.00222, and its code.
    """
    new, old = _probability(tokens.new), _probability(tokens.old)
    ratio = 2.0 * new / (old + 0.5 * (old + 1.0))
    factor = (1.0 - new.detach()).clamp(min=0.0) ** exponent
    teacher = _of_teacher(tokens)
    taught, own = -ratio * factor * tokens.advantages, -tokens.advantages * torch.exp(tokens.log_ratio)
    return unclipped(torch.where(teacher, taught, own))


def _of_teacher(tokens: Tokens) -> Tensor:
    """bool [M], whether another model wrote the token."""
    return (tokens.need("source") == TEACHER)[tokens.sequence]


def _probability(log: Tensor) -> Tensor:
    """exp(log), finite also for numbers that are no log-probabilities."""
    return torch.exp(log.clamp(max=LARGEST))


def imitation_weight(step: int, *, warmup: int, peak: float = 1.0) -> float:
    """Return the weight of self-imitation: a half cosine from 0 to peak over `warmup` steps.

        peak (1 - cos(pi step / warmup)) / 2

    >>> imitation_weight(50, warmup=100)
    0.5

    Args:
        step: from 0.
        warmup: steps.
        peak: maximum weight.

    Source: Qin et al. 2025 (SPEAR), arXiv 2509.22601.
    """
    if step >= warmup:
        return peak
    return peak * (1.0 - math.cos(math.pi * step / warmup)) / 2.0
