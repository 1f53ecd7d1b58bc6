"""RTO: rewards of tokens from a policy that was trained by DPO, for PPO with a critic over tokens."""

import numpy as np

from turncredit.credit.errors import BadTable
from turncredit.credit.option_checks import check_number
from turncredit.credit.steps import Bools, Floats
from turncredit.credit.tokens.checks import flags, numbers


def rto_rewards(
    preferred: Floats,
    ref: Floats,
    scores: Floats,
    mask: Bools,
    *,
    beta: float = 0.05,
    limit: float = 0.05,
) -> Floats:
    """Return the rewards of tokens, float64 [B, L]: how much a DPO policy prefers each, and the score at the end.

        r = clip(beta (log p_dpo - log p_ref), -limit, limit)        plus the sequence's score at its last trained token

    The divergence from the reference, which PPO subtracts as well, is not part of it.

        >>> rto_rewards([[0.4, -2.0, 0.02]], [[0, 0, 0]], [0.0], [[1, 1, 1]]).round(6).tolist()
        [[0.02, -0.05, 0.001]]

    Args:
        preferred: float [B, L], log-probability of each token under the policy trained by DPO, nats.
        ref: float [B, L], the same under the reference, nats.
        scores: float [B], score of each sequence, in units of reward.
        mask: bool [B, L], True for trained tokens; the others get zero.
        beta: units of reward per nat.
        limit: largest size of a token's reward.

    Raises:
        BadOption: an option is negative.
        BadTable: shapes differ, a number is not finite, or a sequence with a score has no trained token.

    Source: Zhong et al. 2024, arXiv 2404.18922, and its code.
    """
    check_number("beta", beta, 0.0)
    check_number("limit", limit, 0.0)
    trained = flags("mask", mask)
    difference = numbers("preferred", preferred, trained.shape, inside=trained)
    difference = difference - numbers("ref", ref, trained.shape, inside=trained)
    final = numbers("scores", scores, trained.shape[:1], 1)
    rewards = np.where(trained, np.clip(beta * difference, -limit, limit), 0.0)
    some = trained.any(axis=1)
    if (final[~some] != 0.0).any():
        raise BadTable(f"sequence {np.flatnonzero(~some & (final != 0.0))[0]} has a score, but no trained token")
    if trained.shape[1]:
        last = trained.shape[1] - 1 - np.argmax(trained[:, ::-1], axis=1)
        rewards[np.flatnonzero(some), last[some]] += final[some]
    return rewards
