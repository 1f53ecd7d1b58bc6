"""DCPO (distribution-centric): a REINFORCE term under a warmer or colder distribution, which holds the entropy."""

import math

import numpy as np
import numpy.typing as npt

from turncredit.credit.option_checks import check_number
from turncredit.credit.tokens.packed import TransformedAdvantages, inside, packed

LIMIT = 20.0  # nats; a ratio of more would dominate every sum


def dcpo_distribution(
    advantages: npt.ArrayLike,
    mask: npt.ArrayLike,
    *,
    entropy: npt.ArrayLike,
    logprobs: npt.ArrayLike,
    hot: npt.ArrayLike,
    cold: npt.ArrayLike,
    target: float = 0.5,
    most: float = 0.1,
    least: float = 0.05,
) -> TransformedAdvantages:
    """Return the advantages mixed with rewards of good tokens, as if these were drawn at another temperature.

        A' = (1 - a) A + a [A > least] p_T / p        a = b / (1 + b)        b = min(|H - target|, most) / share
        T: 1.2 times the sampling temperature if H <= target, else 0.8 times

    with the mean entropy H over the batch's tokens, and the share of its sequences that have a token with A > least. If
    there is none, nothing changes. With the clipped ratio of an objective, which multiplies A', it is the method's
    double importance sampling.

        >>> arrays = {"entropy": [[0.2]] * 4, "logprobs": [[-1.0]] * 4, "hot": [[-1.0]] * 4, "cold": [[-9.0]] * 4}
        >>> dcpo_distribution([[2.0], [-1.0], [0.0], [0.0]], [[1]] * 4, **arrays).values.round(4).ravel().tolist()
        [1.7143, -0.7143, 0.0, 0.0]

    Args:
        advantages: float [B, L].
        mask: bool [B, L].
        entropy: float [B, L], of the policy's distribution at the token, nats.
        logprobs: float [B, L], log-probability of the token under the policy, nats.
        hot: float [B, L], the same at 1.2 times the temperature.
        cold: float [B, L], the same at 0.8 times the temperature.
        target: mean entropy to hold, nats.
        most: largest distance from it that counts, nats.
        least: advantages above it count as good.

    Returns:
        Token advantages; all tokens are kept.

    Raises:
        BadOption: an option is negative.
        BadTable: shapes differ, or a number is not finite.

    Source: "Distribution-Centric Policy Optimization Dominates the Exploration-Exploitation Trade-off", its code and
    description; the paper was not at hand. p_T / p is kept below e^20 here.
    """
    for name, value in (("target", target), ("most", most), ("least", least)):
        check_number(name, value, 0.0)
    values, chosen = packed("dcpo_distribution", advantages, mask)
    arrays = {"entropy": entropy, "logprobs": logprobs, "hot": hot, "cold": cold}
    spread, log, warm, cool = (inside("dcpo_distribution", name, array, chosen) for name, array in arrays.items())
    good = chosen & (values > least)
    if not good.any():
        return TransformedAdvantages(values, chosen)
    mean = math.fsum(spread[chosen]) / int(chosen.sum())  # exact, so that the order of sequences means nothing
    share = float(good.any(axis=1).sum() / chosen.any(axis=1).sum())
    strength = min(abs(mean - target), most) / share
    part = strength / (1.0 + strength)
    ratio = np.exp(np.minimum((warm if mean <= target else cool) - log, LIMIT))
    return TransformedAdvantages((1.0 - part) * values + part * np.where(good, ratio, 0.0), chosen)
