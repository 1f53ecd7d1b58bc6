"""Ratios of whole sequences: GSPO in its two forms, GMPO, VESPO.

In a run a sequence is a trajectory or a turn (`objective.sequence`); called with [B, L] tensors it is a row.

LUSPO is gspo with the aggregation "seq-mean-token-sum".
"""

import math

import torch

from turnwise.training.objectives.clipping import Losses, clipped, unclipped
from turnwise.training.objectives.function import objective
from turnwise.training.objectives.tokens import LARGEST, Tokens, straight_through


@objective(scope="sequence", aggregation="seq-mean-token-mean")
def gspo(tokens: Tokens, *, clip_low: float = 3e-4, clip_high: float = 4e-4) -> Losses:
    """Return the clipped policy gradient with one ratio per sequence, the geometric mean over its tokens.

    s = exp(mean over the sequence of (n - o)), l = max(-a s, -a clip(s, 1 - clip_low, 1 + clip_high)) at each token of
    it, a the mean of A over the sequence; the gradient goes through s.

    Args:
        tokens: the tokens; where advantages differ within a sequence, gspo_token keeps them apart.
        clip_low: the ratio's lower bound is 1 - clip_low; sequence ratios are near 1.
        clip_high: its upper bound is 1 + clip_high.

    Source: Zheng et al. 2025, arXiv 2507.18071, equation 5.
    """
    ratio = torch.exp(tokens.sequence_mean(tokens.new - tokens.old).clamp(-LARGEST, LARGEST))
    loss, cut = clipped(tokens.sequence_mean(tokens.advantages), ratio, 1.0 - clip_low, 1.0 + clip_high)
    return loss[tokens.sequence], cut[tokens.sequence]


@objective(scope="sequence", aggregation="seq-mean-token-mean")
def gspo_token(tokens: Tokens, *, clip_low: float = 3e-4, clip_high: float = 4e-4) -> Losses:
    """Return GSPO for advantages that differ between tokens.

    s[t] = sg[s] exp(n - sg n), which is s in value and has each token's own gradient; else as gspo.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.

    Source: Zheng et al. 2025, arXiv 2507.18071; the logarithm of s is kept below 10, as in verl.
    """
    mean = tokens.sequence_mean(tokens.new - tokens.old).detach().clamp(max=10.0)
    ratio = straight_through(torch.exp(mean)[tokens.sequence], tokens.new)
    return clipped(tokens.advantages, ratio, 1.0 - clip_low, 1.0 + clip_high)


@objective(scope="sequence", aggregation="seq-mean-token-mean-counted")
def gmpo(tokens: Tokens, *, clip_low: float = 0.4, clip_high: float = 0.4) -> Losses:
    """Return the geometric mean of clipped ratios times the sequence's mean advantage.

    d = n - o, d' = sgn(A) min(sgn(A) d, sgn(A) clip(d, -clip_low, clip_high)), l = -mean(A) exp(mean of d') at each
    token of the sequence. The bounds apply to logarithms.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        clip_low: nats; the lower bound of d is -clip_low.
        clip_high: nats, the upper bound of d.

    Source: Zhao et al. 2025, arXiv 2507.20673, with the sign taken token by token as in verl; a token of zero
    advantage in a sequence that has others counts d' = 0.
    """
    log_ratio, sign = tokens.new - tokens.old, torch.sign(tokens.advantages)
    bounded = log_ratio.clamp(-clip_low, clip_high)
    clipped = sign * torch.minimum(sign * log_ratio, sign * bounded)
    ratio = torch.exp(tokens.sequence_mean(clipped).clamp(-LARGEST, LARGEST))
    loss = (-tokens.sequence_mean(tokens.advantages) * ratio)[tokens.sequence]
    return loss, sign * bounded < sign * log_ratio


@objective(scope="sequence")
def vespo(
    tokens: Tokens, *, k_pos: float = 2.0, lambda_pos: float = 3.0, k_neg: float = 3.0, lambda_neg: float = 2.0
) -> Losses:
    """Return a policy gradient whose weight varies smoothly with the product ratio of the sequence.

    W = exp(sum over the sequence of (n - o)), phi = exp(lambda + k log W - lambda W), l = -sg[phi] A n; k and lambda
    by the sign of A (zero counts as positive). phi is 1 at W = 1 and largest at W = k / lambda.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        k_pos: power of W for A >= 0.
        lambda_pos: decay in W for A >= 0.
        k_neg: power of W for A < 0.
        lambda_neg: decay in W for A < 0.

    Source: Shen et al. 2026, arXiv 2602.10693, as in TRL (loss type vespo), without its correction of the rollout; the
    logarithm of W is kept in [log 1e-8, 20].
    """
    log = tokens.sequence_sum((tokens.new - tokens.old).detach()).clamp(math.log(1e-8), LARGEST)[tokens.sequence]
    good = tokens.advantages >= 0
    power = torch.where(good, torch.full_like(log, k_pos), torch.full_like(log, k_neg))
    decay = torch.where(good, torch.full_like(log, lambda_pos), torch.full_like(log, lambda_neg))
    phi = torch.exp(decay + power * log - decay * torch.exp(log))
    return unclipped(-phi * tokens.advantages * tokens.new)
