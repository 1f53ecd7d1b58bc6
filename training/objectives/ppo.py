"""The clipped policy-gradient objective, with what may be added to it.

Left out on purpose: the other trust regions (sequence ratios, soft clips); they fit the same signature.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from turnwise.training.objectives.kl import kl

Stats = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Objective:
    """What one token's loss is made of: PPO's clip, and optionally divergence and entropy.

    Attributes:
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: the ratio's upper bound is 1 + clip_high.
        dual_clip: cap of the ratio for negative advantages, above 1; None for none.
        aggregation: a key of AGGREGATIONS.
        norm: tokens, the constant of seq-mean-token-sum-norm.
        kl: coefficient of the divergence from the reference; 0 for none.
        kl_estimator: a key of KL_ESTIMATORS.
        entropy: coefficient of the entropy bonus; 0 for none.
    """

    clip_low: float = 0.2
    clip_high: float = 0.28
    dual_clip: float | None = None
    aggregation: str = "token-mean"
    norm: float = 1024.0
    kl: float = 0.0
    kl_estimator: str = "k3"
    entropy: float = 0.0

    @property
    def needs_all(self) -> bool:
        """Whether tokens of zero advantage have a gradient too."""
        return self.kl != 0.0 or self.entropy != 0.0


def ppo_clip(
    logprobs: Tensor,
    old: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.28,
    dual_clip: float | None = None,
) -> tuple[Tensor, Stats]:
    """Give the clipped policy-gradient loss, to be minimised.

    r = exp(n - o), l = max(-A r, -A clip(r, 1 - clip_low, 1 + clip_high)); with a dual clip c and A < 0,
    l = min(l, -A c). The loss is sum(weights * l). At n = o the value is -A and the gradient -A dn.

    Args:
        logprobs: float [...], n, nats, under the policy (carries gradient).
        old: float [...], o, nats, under the policy that sampled.
        advantages: float [...], A.
        weights: float [...], from token_weights; 0 where a token carries no loss.
        clip_low: below 1.
        clip_high: at least 0.
        dual_clip: c > 1, or None.

    Returns:
        The loss (0-dimensional) and, as sums over tokens with weight: tokens, clipped (tokens without gradient),
        ratio, and old_kl (k3 of the policy that sampled, nats).

    Source: Schulman et al. 2017, arXiv 1707.06347; separate bounds Yu et al. 2025, arXiv 2503.14476;
    dual clip Ye et al. 2019, arXiv 1912.09729. n - o is kept within +-20 here.
    """
    difference = (logprobs - old).clamp(-20.0, 20.0)
    ratio = torch.exp(difference)
    plain = -advantages * ratio
    bounded = -advantages * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    loss = torch.maximum(plain, bounded)
    cut = bounded > plain
    if dual_clip is not None:
        cap = -advantages * dual_clip
        over = (advantages < 0) & (loss > cap)
        loss, cut = torch.where(over, cap, loss), cut | over
    with torch.no_grad():
        on = weights > 0
        stats = {
            "tokens": on.sum(),
            "clipped": (cut & on).sum(),
            "ratio": ratio[on].sum(),
            "old_kl": (ratio - difference - 1.0)[on].sum(),
        }
    return (weights * loss).sum(), stats


def token_objective(
    objective: Objective,
    logprobs: Tensor,
    old: Tensor,
    advantages: Tensor,
    weights: Tensor,
    *,
    reference: Tensor | None = None,
    entropy: Tensor | None = None,
) -> tuple[Tensor, Stats]:
    """Give the whole loss: PPO's clip + kl * divergence - entropy bonus, each under the same weights.

    Args:
        objective: coefficients and bounds.
        logprobs: float [M], nats, under the policy.
        old: float [M], nats, under the policy that sampled.
        advantages: float [M].
        weights: float [M], from token_weights.
        reference: float [M], nats; needed when objective.kl is not 0.
        entropy: float [M], nats, of the distribution at each token; needed for the bonus.

    Returns:
        The loss (0-dimensional) and sums over tokens, as of ppo_clip, with kl and entropy where they were given.

    Raises:
        ValueError: a coefficient is set and what it weighs is missing.
    """
    loss, stats = ppo_clip(
        logprobs,
        old,
        advantages,
        weights,
        clip_low=objective.clip_low,
        clip_high=objective.clip_high,
        dual_clip=objective.dual_clip,
    )
    on = weights > 0
    if reference is not None:
        divergence = kl(logprobs, reference, objective.kl_estimator)
        loss = loss + objective.kl * (weights * divergence).sum()
        stats["kl"] = divergence.detach()[on].sum()
    elif objective.kl:
        raise ValueError("objective.kl is set, and no reference log-probabilities came")
    if entropy is not None:
        stats["entropy"] = entropy.detach()[on].sum()
        if objective.entropy:
            loss = loss - objective.entropy * (weights * entropy).sum()
    elif objective.entropy:
        raise ValueError("objective.entropy is set, and no entropies came")
    return loss, stats
