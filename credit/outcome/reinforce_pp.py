"""REINFORCE++: discounted returns or centred outcomes, whitened over all tokens of the batch."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Singleton, discounted_returns, standardise, whiten
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps, need


def reinforce_pp(
    steps: Steps, *, gamma: float = 1.0, ddof: int = 1, eps: float = 1e-8, invalid_penalty: float = INVALID_PENALTY
) -> Advantages:
    """Return each turn's discounted return, whitened over all trained tokens of the batch.

        R[i, t] = sum over k of gamma^k * r[i, t + k]
        A[i, t] = (R[i, t] - m) / sqrt(v + eps)        m, v: mean and variance over the tokens of all turns

    There are no groups: an advantage depends on the whole batch. A batch of equal returns gives zero. The paper
    discounts over tokens, we over turns; both agree for gamma=1 with rewards at the end of turns.

        >>> steps = Steps.from_columns(task=["t", "u"], trajectory=[0, 1], turn=[0, 0], reward=[4.0, 1], tokens=[1, 2])
        >>> reinforce_pp(steps, ddof=0).values.round(6).tolist()
        [1.414214, -0.707107]

    Args:
        steps: the table; needs `tokens`.
        gamma: discount per turn, in [0, 1].
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "return", the whitened return. A turn without trained tokens gets zero.

    Source: Hu et al. 2025, arXiv 2501.03262.
    """
    options = GroupOptions(ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("gamma", gamma, 0.0, 1.0)
    need(steps, "reinforce_pp", "tokens")

    def estimate(table: Steps) -> Advantages:
        paid = options.penalised_reward(table)
        returns = discounted_returns(table, gamma, reward=paid)
        terms = discounted_returns(table, gamma, reward=np.abs(paid))
        value = whiten(returns, table.column("tokens"), ddof=options.ddof, eps=options.eps, size_of_terms=terms)
        return Advantages.of(table, value, {"return": value})

    return without_copies(steps, estimate)


def reinforce_pp_baseline(
    steps: Steps,
    *,
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-8,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return each episode's score minus the mean of its task, whitened over all trained tokens of the batch.

        D[i] = E[i] - mean of E over the task's trajectories        E[i] = sum over t of r[i, t]
        A[i, t] = (D[i] - m) / sqrt(v + eps)        m, v: mean and variance over the tokens of all turns

    m and v are those of the batch, so groups depend on each other, and a group with equal scores gets -m / sqrt(v +
    eps) as in the published method; m is zero if the episodes of each task have equally many tokens. A group of one
    gets zero and does not enter m and v.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[4.0, 1.0], tokens=[1, 2])
        >>> reinforce_pp_baseline(steps, ddof=0).values.round(6).tolist()
        [1.414214, -0.707107]

    Args:
        steps: the table; needs `tokens`.
        singleton: "zero", or "raw": D of a group of one is its score.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode". A turn without trained tokens gets zero.

    Source: Hu et al. 2025, arXiv 2501.03262, the form with a group baseline. We differ in the group of one.
    """
    options = GroupOptions(scale="none", singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    need(steps, "reinforce_pp_baseline", "tokens")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        centred = standardise(episodes.groups, scale="none", singleton=options.singleton)
        left_out = episodes.alone & (options.singleton == "zero")
        tokens = np.where(left_out[episodes.member], 0, table.column("tokens"))
        terms = episodes.size_of_terms[episodes.member]
        value = whiten(centred[episodes.member], tokens, ddof=options.ddof, eps=options.eps, size_of_terms=terms)
        return Advantages.of(table, value, {"episode": value}, episodes.counts)

    return without_copies(steps, estimate)
