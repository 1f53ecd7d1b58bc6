"""REINFORCE++: discounted returns, or centred outcomes, brought to one scale over all tokens of the batch.

Left out on purpose: the KL term that the paper takes from each token's reward; it belongs to training, which may put it
into the rewards before they come here.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Singleton, check_number, discounted_returns, standardise, whiten
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps, need


def reinforce_pp(
    steps: Steps, *, gamma: float = 1.0, ddof: int = 1, eps: float = 1e-8, invalid_penalty: float = INVALID_PENALTY
) -> Advantages:
    """Return each turn's discounted return relative to the mean and spread of all trained tokens of the batch.

        R[i, t] = sum over k of gamma^k * r[i, t + k]
        A[i, t] = (R[i, t] - m) / sqrt(v + eps)        m, v: mean and variance over the tokens of all turns

    There are no groups: a task's other episodes count no more than those of other tasks, and a turn's advantage depends
    on the whole batch. A batch whose returns are all equal gives zero.

    The paper's time is the token, ours the turn. The two agree where gamma is 1 and rewards come at the end of turns,
    and in any case for a table with one row a token (each with its reward and `tokens` 1).

        >>> steps = Steps.from_columns(task=["t", "u"], trajectory=[0, 1], turn=[0, 0], reward=[4.0, 1], tokens=[1, 2])
        >>> reinforce_pp(steps, ddof=0).values.round(6).tolist()
        [1.414214, -0.707107]

    Args:
        steps: the table; needs `tokens`. `valid`, if there, brings the penalty.
        gamma: discount per turn, in [0, 1].
        ddof: 1 divides the squares by the number of tokens less one, 0 by the number.
        eps: added to the variance, inside the root.
        invalid_penalty: what an invalid action costs, in units of reward, taken from its turn's reward.

    Returns:
        Advantages with the part "return", the whitened return. A turn without trained tokens gets zero.

    Raises:
        MissingColumn: there is no `tokens`.
        BadOption: an option has an impossible value.

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
    """Return each episode's score less the mean of its task, on the scale of all trained tokens of the batch.

        D[i] = E[i] - mean of E over the task's trajectories        E[i] = sum over t of r[i, t]
        A[i, t] = (D[i] - m) / sqrt(v + eps)        m, v: mean and variance over the tokens of all turns

    Mean and spread are the batch's, so a group's advantages depend on the others. m is zero where the episodes of each
    task have equally many tokens; elsewhere even a group whose scores are all equal gets something, -m / sqrt(v + eps),
    as the published method has it. A group of one has no baseline; it gets zero and stays out of m and v.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[4.0, 1.0], tokens=[1, 2])
        >>> reinforce_pp_baseline(steps, ddof=0).values.round(6).tolist()
        [1.414214, -0.707107]

    Args:
        steps: the table; needs `tokens`. `valid`, if there, brings the penalty.
        singleton: "zero", or "raw": a group of one enters with its score.
        ddof: 1 divides the squares by the number of tokens less one, 0 by the number.
        eps: added to the variance, inside the root.
        invalid_penalty: what an invalid action costs, in units of reward, taken from its turn's reward.

    Returns:
        Advantages with the part "episode". A turn without trained tokens gets zero.

    Raises:
        MissingColumn: there is no `tokens`.
        BadOption: an option has an impossible value.

    Source: Hu et al. 2025, arXiv 2501.03262, the form with a group baseline. We differ in the group of one, which
    public code lets in with its score.
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
