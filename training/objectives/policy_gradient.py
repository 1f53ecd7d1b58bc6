"""Policy gradients without a trust region: REINFORCE and variants, DRO, A-LoL, ROVER, and imitation.

Baselines are part of the credit rule. OPMD and AsymRE expect advantages that are not divided by the spread
(`scale = "none"`).
"""

import torch
from torch import Tensor

from turncredit.training.errors import ConfigError
from turncredit.training.objectives.clipping import Losses, unclipped
from turncredit.training.objectives.function import objective
from turncredit.training.objectives.kl import corrected_kl, kl
from turncredit.training.objectives.likelihood import likelihood_drop
from turncredit.training.objectives.tokens import LARGEST, Tokens


@objective()
def reinforce(tokens: Tokens) -> Losses:
    """Return the policy gradient: l = -A n; the old policy is not used.

    Source: Williams 1992.
    """
    return unclipped(-tokens.advantages * tokens.new)


@objective(everywhere=True, signed=("delta",))
def asymre(tokens: Tokens, *, delta: float = -0.1) -> Losses:
    """Return the policy gradient with a shifted baseline, so that good actions weigh more than bad ones.

    l = -(A - delta) n, where A is the score minus the group's mean.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        delta: in units of reward; negative lowers the baseline.

    Source: Arnal et al. 2025, arXiv 2506.20520, as in Trinity-RFT. There, a group of one has the baseline 0; here, it
    has the advantage from the credit rule.
    """
    return unclipped(-(tokens.advantages - delta) * tokens.new)


@objective()
def opmd(tokens: Tokens, *, tau: float = 1.0) -> Losses:
    """Return the policy gradient of policy mirror descent: l = -A n / (1 + tau).

    Args:
        tokens: the tokens; advantages are scores less the group's baseline, not divided by the spread.
        tau: temperature of the divergence from the old policy.

    Source: Pan et al. 2025 (Trinity-RFT), arXiv 2505.17826, and its code.
    """
    return unclipped(-tokens.advantages * tokens.new / (1.0 + tau))


@objective(everywhere=True)
def dro(tokens: Tokens, *, beta: float = 0.1) -> Losses:
    """Return the policy gradient with a quadratic pull towards the old policy: l = -(A n - beta (n - o)^2 / 2).

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        beta: strength of the pull.

    Source: Richemond et al. 2024, arXiv 2405.19107, in the form of verl.
    """
    return unclipped(-(tokens.advantages * tokens.new - 0.5 * beta * (tokens.new - tokens.old).square()))


@objective()
def rec(tokens: Tokens, *, clip_low: float = 0.6, clip_high: float = 2.0, tau: float | None = None) -> Losses:
    """Return the policy gradient without importance ratio, of tokens that the update has not moved too far already.

    l = -M w A n, with M = 0 where A > 0 and r = exp(n - o) > 1 + clip_high, or A < 0 and r < 1 - clip_low, else 1, and
    w = exp(A / tau), or 1 without tau. Without M it collapses on older samples.

    Args:
        tokens: the tokens; advantages are scores less the group's mean, not divided by the spread.
        clip_low: bad tokens whose ratio is below 1 - clip_low have no gradient.
        clip_high: nor have good tokens whose ratio is above 1 + clip_high.
        tau: in units of reward, for weights that grow with the score (RED-Weight); None: all weigh the same.

    Raises:
        ConfigError: tau is 0.

    Source: Our reading of a note of Yao et al. 2025, arXiv 2509.24203. The exponential weight is ours.
    """
    if tau is not None and tau <= 0:
        raise ConfigError(f"rec: option 'tau' must be > 0, got {tau}")
    ratio = torch.exp(tokens.log_ratio.detach())
    good, bad = tokens.advantages > 0, tokens.advantages < 0
    cut = (good & (ratio > 1.0 + clip_high)) | (bad & (ratio < 1.0 - clip_low))
    weight = 1.0 if tau is None else torch.exp((tokens.advantages / tau).clamp(max=LARGEST))
    losses = -weight * tokens.advantages * tokens.new
    return torch.where(cut, torch.zeros_like(losses), losses), cut


@objective(signed=("beta",))
def otr(tokens: Tokens, *, beta: float = -0.1) -> Losses:
    """Return the policy gradient of one token drawn at each demonstrated one: 1 for the same token, beta for others.

    The expected loss over the draw is -sum over a of sg[p(a)] R(a) ln p(a), with R(x) = 1 at the demonstrated token x
    and beta elsewhere. Since sum of p d ln p is 0, its gradient is that of l = -(1 - beta) sg[p(x)] n, which is what is
    computed: nothing is drawn. Unlikely tokens weigh less than in maximum likelihood.

    Args:
        tokens: of demonstrations, all of advantage A = 1 (or their weight), by which l is multiplied.
        beta: reward of the other tokens.

    Source: Our reading of the abstract of Ming et al. 2025, arXiv 2509.26313. The expectation, in place of 256 draws,
    is ours.
    """
    chance = torch.exp(tokens.new.detach().clamp(max=LARGEST))
    return unclipped(-(1.0 - beta) * chance * tokens.advantages * tokens.new)


def _gain(tokens: Tokens) -> Tensor:
    return tokens.advantages.clamp(min=0.0)


@objective(scope="sequence", aggregation="seq-mean-token-sum-counted")
def a_lol(tokens: Tokens, *, clip: float = 0.9) -> Losses:
    """Return the log-likelihood of actions with positive advantage, weighted by advantage and sequence ratio.

    w = sg[clip(exp(sum over the sequence of (n - f)), 1 - clip, 1 + clip)], l = -w max(A, 0) n.

    Args:
        tokens: the tokens, with `ref`.
        clip: how far w may be from 1.

    Source: Baheti et al. 2023, arXiv 2305.14718, and its code.
    """
    ratio = torch.exp(tokens.sequence_sum((tokens.new - tokens.need("ref")).detach()).clamp(-LARGEST, LARGEST))
    return unclipped(-ratio.clamp(1.0 - clip, 1.0 + clip)[tokens.sequence] * _gain(tokens) * tokens.new)


@objective(aggregation="seq-mean-token-sum-counted")
def a_lol_seq(tokens: Tokens, *, clip: float = 0.9) -> Losses:
    """Return A-LoL with a ratio for each token: w = sg[clip(exp(n - f), 1 - clip, 1 + clip)], l = -w max(A, 0) n.

    Args:
        tokens: the tokens, with `ref`.
        clip: how far w may be from 1.

    Source: Baheti et al. 2023, arXiv 2305.14718, and its code.
    """
    ratio = torch.exp((tokens.new - tokens.need("ref")).detach().clamp(-LARGEST, LARGEST))
    return unclipped(-ratio.clamp(1.0 - clip, 1.0 + clip) * _gain(tokens) * tokens.new)


@objective(aggregation="seq-mean-token-sum-counted")
def a_lol_ref_free(tokens: Tokens) -> Losses:
    """Return A-LoL without a ratio: l = -max(A, 0) n.

    Source: Baheti et al. 2023, arXiv 2305.14718, and its code.
    """
    return unclipped(-_gain(tokens) * tokens.new)


@objective(everywhere=True)
def kl_penalty(tokens: Tokens, *, estimator: str = "k3", corrected: bool = False) -> Losses:
    """Return the KL divergence from the reference as the only loss; see `kl`.

    Args:
        tokens: the tokens, with `ref`.
        estimator: a key of KL_ESTIMATORS.
        corrected: whether the tokens are those of an older policy; see `corrected_kl`.

    Raises:
        ConfigError: the estimator is unknown.

    Source: Schulman 2020, "Approximating KL divergence". A run refuses k1 without a correction, whose expected gradient
    is zero.
    """
    if corrected:
        return unclipped(corrected_kl(tokens.new, tokens.need("ref"), tokens.log_ratio, estimator))
    return unclipped(kl(tokens.new, tokens.need("ref"), estimator))


@objective(scope="sequence", everywhere=True)
def llds(tokens: Tokens, *, weight: float = 0.2, gate: str = "action") -> Losses:
    """Return the penalty on good actions that became less likely as the only loss; see `likelihood_drop`.

    Any objective can add it to its own loss with the option `llds`.

    Args:
        tokens: n = logprobs, o = old, A = advantages, ...; callers pass them as tensors, see `ObjectiveFunction`.
        weight: factor.
        gate: "action" or "response".

    Raises:
        ConfigError: the gate is unknown.

    Source: arXiv 2512.04220 and its code.
    """
    return unclipped(weight * likelihood_drop(tokens, gate))


@objective(scope="sequence", everywhere=True)
def rover(tokens: Tokens, *, discount: float = 1.0) -> Losses:
    """Return the squared error of a Bellman equation under the uniform policy, whose values are log-ratios.

    Q = n - o of a token, V = the mean of log p - log p_old over the whole vocabulary in its place, and
    l = (Q[t] - A[t] - discount V[t + 1])^2, with A and V without gradient, and V = 0 after the sequence's last token.
    At the old policy, the gradient is twice that of -A n.

    Args:
        tokens: with `mean_logprob` and `old_mean_logprob`; advantages are outcomes minus their group's mean, as of the
            credit rule dr_grpo.
        discount: weight of what follows, 0 for none.

    Source: He et al. 2025 (ROVER), random policy valuation, and its code, which adds up log-probabilities over the
    vocabulary where the paper has a mean; the mean is used here. There, an answer is the whole episode; here the token
    that follows the last one of a turn is the first of the next.
    """
    value = tokens.need("mean_logprob") - tokens.need("old_mean_logprob")
    target = tokens.advantages + discount * _of_next(tokens, value.detach())
    return unclipped((tokens.log_ratio - target).square())


def _of_next(tokens: Tokens, values: Tensor) -> Tensor:
    """Return the value of the token that follows in the same sequence, float [M]; 0 where none does."""
    order = torch.argsort(tokens.turn, stable=True)
    order = order[torch.argsort(tokens.sequence[order], stable=True)]
    first, second = order[:-1], order[1:]
    same = tokens.sequence[first] == tokens.sequence[second]
    return torch.zeros_like(values).index_copy(0, first[same], values[second[same]])
