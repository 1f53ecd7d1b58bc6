"""Objectives with token-dependent bounds: DCPO by probability, ETR by advantage, HAPO by entropy.

Not included: HAPO's temperatures, which belong to the sampler.
"""

import torch
from torch import Tensor

from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, clipped, dual_clipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.tokens import Tokens


@objective(aggregation="seq-sum-token-mean")
def dcpo(tokens: Tokens, *, clip_low: float = 0.16, clip_high: float = 0.2, dual_clip: float | None = 10.0) -> Losses:
    """Return the clipped policy gradient with wider bounds for rarer tokens.

    q = exp(o), low = 1/2 + sqrt(max(1 - 4 clip_low / q, 0)) / 2, high = min(1/2 + sqrt(1 + 4 clip_high / q) / 2, c)
    with c = max(dual_clip, 10); then as ppo_clip with the dual clip.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        clip_low: controls the lower bound.
        clip_high: controls the upper bound.
        dual_clip: c > 1; None or 0 for none (high is then at most 10).

    Source: Yang et al. 2025, arXiv 2509.02333, and its code. The smoothed advantages of that paper are the credit rule
    dcpo_sas.
    """
    probability = torch.exp(tokens.old).clamp(min=torch.finfo(tokens.old.dtype).tiny)
    low = 0.5 + 0.5 * torch.sqrt((1.0 - 4.0 * clip_low / probability).clamp(min=0.0))
    high = 0.5 + 0.5 * torch.sqrt(1.0 + 4.0 * clip_high / probability)
    losses = clipped(tokens.advantages, torch.exp(tokens.log_ratio), low, high.clamp(max=max(dual_clip or 0.0, 10.0)))
    return dual_clipped(tokens.advantages, losses, dual_clip)


@objective()
def etr(
    tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.28, alpha: float = 0.5, limits: bool = True
) -> Losses:
    """Return the clipped policy gradient with bounds that grow with the advantage.

    e = clip * (1 + alpha tanh |A|), within [clip / 2, 3 clip] under `limits`;
    l = max(-A r, -A clip(r, 1 - e_low, 1 + e_high)).

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        clip_low: controls the lower bound, before it grows.
        clip_high: controls the upper bound, before it grows.
        alpha: strength of the growth.
        limits: whether the growth is limited.

    Source: Our reading of the abstract of arXiv 2601.03723. Its second scale, by the variance of the group, is omitted,
    since a token does not know its group.
    """
    grown = 1.0 + alpha * torch.tanh(tokens.advantages.abs())
    grown = grown.clamp(0.5, 3.0) if limits else grown
    return clipped(tokens.advantages, torch.exp(tokens.log_ratio), 1.0 - clip_low * grown, 1.0 + clip_high * grown)


@objective(scope="batch")
def hapo(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    pivot: float = 0.8,
    alpha: float = 1.0,
    beta: float = 0.0,
    dual_clip: float | None = 10.0,
    released: bool = False,
) -> Losses:
    """Return the clipped policy gradient with bounds and advantages that depend on the entropy at each token.

    x = log max(H, 1e-8); h = (x - q) / std about q, q the `pivot` quantile of x over the batch; h~ = h over its
    largest value for h > 0, over the size of its smallest for h <= 0, so within [-1, 1].
    e_low = clip_low (1 + alpha |h~|) for h~ <= 0, e_high = clip_high (1 + alpha h~) for h~ > 0, unchanged otherwise;
    clip to [1 - e_low, 1 + e_high]. With beta, A (1 + beta h~) replaces A where h~ > 0 and r is outside of (1 - e_low /
    2, 1 + e_high / 2), and where h~ <= 0 and r is inside.

    Args:
        tokens: the tokens, with `entropy`; the statistics are over the tokens of one optimizer step.
        clip_low: controls the lower bound, before it grows.
        clip_high: controls the upper bound, before it grows.
        pivot: quantile in [0, 1].
        alpha: strength of the growth of the bounds.
        beta: strength of the change of the advantages; 0 for none.
        dual_clip: c > 1; None or 0 for none.
        released: compute as the published code does, in which a wrong sign makes h~ positive for certain tokens, so
            that only upper bounds grow.

    Raises:
        ConfigError: the pivot is not in [0, 1].

    Source: Liu et al. 2025, arXiv 2509.16591, and its code; the default follows the paper.
    """
    if pivot > 1:
        raise ConfigError(f"hapo: option 'pivot' must be in [0, 1], got {pivot}")
    level, unsure = _uncertainty(tokens.need("entropy").detach(), pivot, released)
    low = clip_low * (1.0 - alpha * level.clamp(max=0.0))
    high = clip_high * (1.0 + alpha * level.clamp(min=0.0))
    ratio = torch.exp(tokens.log_ratio)
    inside = (ratio > 1.0 - low / 2) & (ratio < 1.0 + high / 2)
    advantages = tokens.advantages
    if beta:
        advantages = torch.where(inside != unsure, advantages * (1.0 + beta * level), advantages)
    losses = clipped(advantages, ratio, 1.0 - low, 1.0 + high)
    return dual_clipped(advantages, losses, dual_clip)


def _uncertainty(entropy: Tensor, pivot: float, released: bool) -> tuple[Tensor, Tensor]:
    """Return h~, float [M], and where it is positive, bool [M]."""
    if not len(entropy):
        return entropy, entropy > 0
    x = torch.log(entropy.clamp(min=1e-8))
    middle = torch.quantile(x, pivot, interpolation="nearest")
    away = x - middle
    spread = away.square().mean().sqrt()
    h = torch.where(spread > 0, away / spread.clamp(min=torch.finfo(x.dtype).tiny), torch.zeros_like(x))
    top, bottom = h.max().clamp(min=0.0), h.min().clamp(max=0.0)
    up = torch.where(top > 0, h / top.clamp(min=1e-30), torch.zeros_like(h))
    down = torch.where(bottom < 0, h / bottom.abs().clamp(min=1e-30), torch.zeros_like(h))
    level = torch.where(h > 0, up, -down if released else down)
    return level, level > 0
