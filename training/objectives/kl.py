"""Per-token estimates of the KL divergence from a reference policy."""

import torch
from torch import Tensor

from turncredit.registry import suggest
from turncredit.training.errors import ConfigError

KL_ESTIMATORS: dict[str, str] = {
    "k1": "n - f: unbiased; for the reward, or corrected, since its own gradient is zero in expectation",
    "k2": "(n - f)^2 / 2: correct gradient on policy, biased value",
    "k3": "exp(f - n) - (f - n) - 1: unbiased, never negative; clipped at 10, as in verl; its gradient on policy is "
    "that of KL(reference || policy)",
    "k3+": "value of k3, gradient of k2",
    "k3-unbounded": "k3 without a bound, as in the GRPO paper and TRL",
}


def kl(logprobs: Tensor, reference: Tensor, estimator: str = "k3") -> Tensor:
    """Return an estimate of KL(policy || reference) at each sampled token, nats.

    With d = f - n: k1 = -d, k2 = d^2 / 2, k3 = exp(d) - d - 1 (d kept within +-20, the value below 10),
    k3+ = k3 in value and k2 in gradient, k3-unbounded = exp(min(d, 60)) - d - 1, which stays finite.

    Args:
        logprobs: float [...], n, log-probabilities under the policy (carries gradient).
        reference: float [...], f, log-probabilities under the reference.
        estimator: a key of KL_ESTIMATORS.

    Returns:
        float [...], nats.

    Raises:
        ConfigError: the estimator is unknown.

    Source: Schulman 2020, "Approximating KL divergence"; k3+ as in verl.
    """
    if estimator not in KL_ESTIMATORS:
        raise ConfigError(f"unknown KL estimator {estimator!r}{suggest(estimator, KL_ESTIMATORS)}")
    difference = reference - logprobs
    if estimator == "k1":
        return -difference
    square = 0.5 * difference.square()
    if estimator == "k2":
        return square
    if estimator == "k3-unbounded":
        return torch.exp(difference.clamp(max=60.0)) - difference - 1.0
    clamped = difference.clamp(-20.0, 20.0)
    third = (torch.exp(clamped) - clamped - 1.0).clamp(-10.0, 10.0)
    return third if estimator == "k3" else square + (third - square).detach()


def check_kl(estimator: str, corrected: bool) -> None:
    """Refuse an estimator that does nothing as a loss.

    Raises:
        ConfigError: it is k1 without a correction.
    """
    if estimator == "k1" and not corrected:
        raise ConfigError(
            "the KL estimator k1 has an expected gradient of zero as a loss: use another one, such as k2 or k3+, set "
            'objective.kl.corrected = true, or subtract it from the reward (objective.kl.where = "reward")'
        )


def corrected_kl(logprobs: Tensor, reference: Tensor, log_ratio: Tensor, estimator: str = "k3") -> Tensor:
    """Return the estimate of `kl` for tokens of an older policy, whose expected gradient is that of the divergence.

    It is the estimate times the ratio exp(n - b). The gradient of k1 and k3 is right with that of the ratio, since the
    expectation of their value is the divergence; that of k2 and k3+ is right by itself, so there the ratio is constant.

    Args:
        logprobs: float [...], n, log-probabilities under the policy (carries gradient).
        reference: float [...], f, log-probabilities under the reference.
        log_ratio: float [...], n - b, with b under the policy that sampled the tokens.
        estimator: a key of KL_ESTIMATORS.

    Returns:
        float [...], nats.

    Raises:
        ConfigError: the estimator is unknown.

    Source: the ratio as in TRL, where it always carries its gradient; with k2 that is not the divergence's.
    """
    ratio = torch.exp(log_ratio)
    return kl(logprobs, reference, estimator) * (ratio.detach() if estimator in ("k2", "k3+") else ratio)
