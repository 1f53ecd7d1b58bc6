"""Objectives against the collapse of entropy: KL-Cov and Clip-Cov, TER, and AEPO.

KL-Cov and Clip-Cov restrain tokens with a high covariance of log-probability and advantage. Covariances and mean
entropies are over all tokens of an optimizer step, while published trainers compute them per micro-batch.
"""

import torch
from torch import Tensor

from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, clipped, unclipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.tokens import Tokens


def _covariance(tokens: Tokens) -> Tensor:
    """float [M], (A - mean A)(n - mean n)."""
    if not len(tokens):
        return tokens.advantages
    new = tokens.new.detach()
    return (tokens.advantages - tokens.advantages.mean()) * (new - new.mean())


@objective(scope="batch", everywhere=True)
def kl_cov(tokens: Tokens, *, share: float = 2e-4, beta: float = 1.0) -> Losses:
    """Return the unclipped policy gradient, with a penalty on the tokens of highest covariance.

    l = -A r, and -A r + beta |n - o| at the max(1, floor(share N)) tokens with the highest (A - mean A)(n - mean n).

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        share: share of all tokens.
        beta: strength of the penalty.

    Source: Cui et al. 2025, arXiv 2505.22617, as in verl.
    """
    losses = -tokens.advantages * torch.exp(tokens.log_ratio)
    chosen = torch.zeros_like(losses, dtype=torch.bool)
    count = min(len(tokens), max(1, int(share * len(tokens))))
    chosen[torch.topk(_covariance(tokens), count).indices] = True
    return unclipped(torch.where(chosen, losses + beta * (tokens.new - tokens.old).abs(), losses))


@objective(scope="batch", signed=("low", "high"))
def clip_cov(
    tokens: Tokens,
    *,
    share: float = 2e-4,
    low: float = 1.0,
    high: float = 5.0,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Losses:
    """Return the clipped policy gradient without some randomly drawn tokens of high covariance.

    Of the tokens that PPO does not clip and whose (A - mean A)(n - mean n) is between low and high,
    max(1, floor(share N)) are drawn and their loss is 0.

    Args:
        tokens: the tokens; their seed decides the draw.
        share: share of all tokens.
        low: covariance above which tokens may be drawn.
        high: covariance below which they may be drawn.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.

    Raises:
        ConfigError: low is above high.

    Source: Cui et al. 2025, arXiv 2505.22617, as in verl.
    """
    if low > high:
        raise ConfigError(f"clip_cov: option 'low' must be <= 'high', got {low} > {high}")
    loss, cut = clipped(tokens.advantages, torch.exp(tokens.log_ratio), 1.0 - clip_low, 1.0 + clip_high)
    covariance = _covariance(tokens)
    able = torch.nonzero(~cut & (covariance > low) & (covariance < high))[:, 0]
    able = able[
        torch.argsort(tokens.turn[able], stable=True)
    ]  # so that the draw does not depend on how turns are merged into rows
    order = torch.randperm(len(able), generator=torch.Generator().manual_seed(tokens.seed)).to(able.device)
    drawn = torch.zeros_like(cut)
    drawn[able[order[: max(1, int(share * len(tokens)))]]] = True
    return torch.where(drawn, torch.zeros_like(loss), loss), cut | drawn


@objective(scope="batch", everywhere=True, spreads=True)
def ter(
    tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.2, weight: float = 1e-3, target: float = 0.55
) -> Losses:
    """Return the clipped policy gradient, and the distance of the mean entropy from a target.

    l = ppo_clip + weight |mean H - target|, the mean over all tokens of the optimizer step, with its gradient.

    Args:
        tokens: with `entropy`.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        weight: of the distance.
        target: nats per token.

    Source: Wu et al. 2025 (Confucius3-Math), arXiv 2506.18330.
    """
    loss, cut = clipped(tokens.advantages, torch.exp(tokens.log_ratio), 1.0 - clip_low, 1.0 + clip_high)
    if not len(tokens):
        return loss, cut
    return loss + weight * (tokens.need("entropy").mean() - target).abs(), cut


@objective(scope="batch")
def aepo(tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.28, alpha: float = 0.3) -> Losses:
    """Return the clipped policy gradient in which good tokens keep a bounded gradient, uncertain ones a larger one.

    a = A max(0, 1 + alpha h), with h = (H - mean H) / std H (ddof 1) over all tokens of the optimizer step, without
    gradient; l = max(-a r, -a clip(r, 1 - clip_low, 1 + clip_high)), but where A > 0 and r > 1 + clip_high
    l = -a (1 + clip_high) r / sg[r].

    Args:
        tokens: with `entropy`.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        alpha: weight of the entropy; 0 for none.

    Source: Our reading of Dong et al. 2025, arXiv 2510.14545 (agentic entropy-balanced policy optimization), from
    memory; alpha is ours. Its branching of rollouts is not part of the loss.
    """
    advantages = tokens.advantages * (1.0 + alpha * _standardised(tokens.need("entropy").detach())).clamp(min=0.0)
    ratio = torch.exp(tokens.log_ratio)
    loss, cut = clipped(advantages, ratio, 1.0 - clip_low, 1.0 + clip_high)
    above = cut & (advantages > 0)
    return torch.where(above, -advantages * (1.0 + clip_high) * ratio / ratio.detach(), loss), cut & ~above


def _standardised(values: Tensor) -> Tensor:
    """(x - mean) / std with ddof 1; 0 where all are equal."""
    if len(values) < 2 or values.max() <= values.min():
        return torch.zeros_like(values)
    return (values - values.mean()) / values.std()
