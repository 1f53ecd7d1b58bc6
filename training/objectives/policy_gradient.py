"""Policy gradients without a trust region: REINFORCE and variants, DRO, A-LoL.

Baselines are part of the credit rule. OPMD and AsymRE expect advantages that are not divided by the spread
(`scale = "none"`).
"""

import torch
from torch import Tensor

from turnwise.training.objectives.clipping import Losses, unclipped
from turnwise.training.objectives.function import objective
from turnwise.training.objectives.kl import kl
from turnwise.training.objectives.likelihood import likelihood_drop
from turnwise.training.objectives.tokens import LARGEST, Tokens


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
        corrected: multiply by the ratio exp(n - o), gradient included.

    Raises:
        ConfigError: the estimator is unknown.

    Source: Schulman 2020, "Approximating KL divergence"; corrected as in TRL.
    """
    divergence = kl(tokens.new, tokens.need("ref"), estimator)
    return unclipped(divergence * torch.exp(tokens.log_ratio) if corrected else divergence)


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
