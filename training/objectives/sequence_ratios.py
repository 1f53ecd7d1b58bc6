"""Ratios of whole sequences: GSPO in its two forms, GMPO, VESPO; of sentences, SSPO; and of both and tokens, DHPO.

In a run a sequence is a trajectory or a turn (`objective.sequence`); called with [B, L] tensors it is a row. A sentence
is given by `spans`; in a run, it is a turn. SSPO and DHPO follow our reading of the abstracts.

LUSPO is gspo with the aggregation "seq-mean-token-sum".
"""

import math

import torch
from torch import Tensor

from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, clipped, unclipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.tokens import LARGEST, Tokens, straight_through


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


def _sequence_ratio(tokens: Tokens) -> Tensor:
    """float [M], the geometric mean ratio of a token's sequence, with each token's own gradient."""
    return straight_through(torch.exp(tokens.sequence_mean(tokens.log_ratio.detach()))[tokens.sequence], tokens.new)


@objective(scope="sequence")
def sspo(tokens: Tokens, *, clip_low: float = 0.2, clip_high: float = 0.2, by_entropy: bool = False) -> Losses:
    """Return the clipped policy gradient with one ratio per sentence (in a run: per turn).

    s = exp(mean over the sentence of (n - o)) with each token's own gradient, l = max(-A s, -A clip(s, 1 - clip_low,
    1 + clip_high)). by_entropy: both bounds times clip(H / mean H, 1/2, 3/2), H the sentence's mean entropy and the
    mean over the sentences of its sequence.

    Args:
        tokens: the tokens; `spans` say which sentence each is in.
        clip_low: the ratio's lower bound is 1 - clip_low.
        clip_high: its upper bound is 1 + clip_high.
        by_entropy: let uncertain sentences move further.

    Source: Our reading of the abstract of arXiv 2511.04256.
    """
    spans = tokens.by_span()
    wide: Tensor | float = 1.0
    if by_entropy:
        wide = _relative_entropy(tokens, spans)
    return clipped(tokens.advantages, _sequence_ratio(spans), 1.0 - clip_low * wide, 1.0 + clip_high * wide)


def _relative_entropy(tokens: Tokens, spans: Tokens) -> Tensor:
    """float [M], the mean entropy of a token's sentence over the mean of those of its sequence, in [1/2, 3/2]."""
    mean = spans.sequence_mean(tokens.need("entropy").detach())
    home = torch.zeros(spans.sequences, dtype=torch.int64, device=mean.device)
    home[spans.sequence] = tokens.sequence
    total = mean.new_zeros(tokens.sequences).index_add(0, home, mean)
    count = mean.new_zeros(tokens.sequences).index_add(0, home, torch.ones_like(mean))
    middle = (total / count.clamp(min=1.0))[home]
    relative = torch.where(middle > 0, mean / middle.clamp(min=torch.finfo(mean.dtype).tiny), torch.ones_like(mean))
    return relative.clamp(0.5, 1.5)[spans.sequence]


@objective(scope="batch")
def dhpo(
    tokens: Tokens,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    sequence_low: float = 3e-4,
    sequence_high: float = 4e-4,
    mix: float = 0.5,
    by_entropy: bool = False,
) -> Losses:
    """Return the clipped policy gradient with a mixture of token and sequence ratio, each with its own bounds.

    R = w r + (1 - w) s, Rc = w clip(r, 1 - clip_low, 1 + clip_high) + (1 - w) clip(s, 1 - sequence_low,
    1 + sequence_high), l = max(-A R, -A Rc); r the token's ratio, s that of gspo_token, w = mix, or with by_entropy the
    token's entropy between the least (0) and the largest (1) of the batch, without gradient.

    Args:
        tokens: the tokens; the range of entropies is over the tokens of one optimizer step.
        clip_low: the token's ratio may fall to 1 - clip_low.
        clip_high: it may rise to 1 + clip_high.
        sequence_low: the sequence's ratio may fall to 1 - sequence_low.
        sequence_high: it may rise to 1 + sequence_high.
        mix: w, in [0, 1].
        by_entropy: take w from the entropies.

    Raises:
        ConfigError: mix is above 1.

    Source: Our reading of the abstract of arXiv 2601.05607.
    """
    if mix > 1:
        raise ConfigError(f"dhpo: option 'mix' must be in [0, 1], not {mix}")
    weight: Tensor | float = _range(tokens.need("entropy").detach()) if by_entropy else mix
    ratio, whole = torch.exp(tokens.log_ratio), _sequence_ratio(tokens)
    plain = -tokens.advantages * (weight * ratio + (1.0 - weight) * whole)
    clipped = weight * ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    clipped = clipped + (1.0 - weight) * whole.clamp(1.0 - sequence_low, 1.0 + sequence_high)
    bounded = -tokens.advantages * clipped
    return torch.maximum(plain, bounded), bounded > plain


def _range(values: Tensor) -> Tensor:
    """Return each value scaled to [0, 1] between the smallest and the largest; 1/2 if all are equal."""
    if not len(values):
        return values
    least, largest = values.min(), values.max()
    if largest <= least:
        return torch.full_like(values, 0.5)
    return (values - least) / (largest - least)
