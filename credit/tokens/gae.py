"""GAE over tokens: along the trained tokens alone, or on two levels, turns above and tokens below."""

from typing import Literal, NamedTuple

import numpy as np

from turnwise.credit.blocks import check_choice, check_flag, check_number, whiten
from turnwise.credit.critic import lambda_advantages
from turnwise.credit.errors import BadTable
from turnwise.credit.steps import Bools, Floats, Ints
from turnwise.credit.tokens.checks import flags, numbers

Outside = Literal["refuse", "ignore"]


class TokenAdvantages(NamedTuple):
    """What a critic method says of tokens; zero where nothing is trained.

    Args:
        advantages: float64 [B, L].
        returns: float64 [B, L], what the critic should have said: advantage before whitening, plus value.
    """

    advantages: Floats
    returns: Floats


def gae_tokens(
    rewards: Floats,
    values: Floats,
    mask: Bools,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    whitening: bool = False,
    outside: Outside = "refuse",
) -> TokenAdvantages:
    """Return generalised advantages along the trained tokens of each sequence, as if nothing lay between them.

        d_p = r_p + gamma * V_next - V_p          next: the sequence's next trained token; V = 0 after the last
        A_p = d_p + gamma * lam * A_next

        >>> found = gae_tokens(np.array([[0, 0, 1.0]]), np.array([[0.5, 9.0, 0.25]]), np.array([[1, 0, 1]]), lam=1.0)
        >>> found.advantages.tolist()
        [[0.5, 0.0, 0.75]]

    Args:
        rewards: float64 [B, L], reward of each token.
        values: float64 [B, L], the critic's V before each token; means nothing where the mask is false.
        mask: bool [B, L], true where the token is trained; false for padding and for the environment's answers.
        gamma: discount per trained token, in [0, 1].
        lam: how far a surprise is carried back, in [0, 1].
        whitening: bring the advantages of all trained tokens of the batch to mean zero and spread one.
        outside: a reward where the mask is false is lost along the trained tokens; "refuse" it, or "ignore" it as other
            implementations do.

    Raises:
        BadTable: arrays of different shapes, a number that is not finite, a reward outside the mask.
        BadOption: an option has an impossible value.

    Source: Schulman et al. 2015, arXiv 1506.02438. The skipping is what agent trainers do without naming it.
    """
    _check_rates(gamma=gamma, lam=lam)
    check_flag("whitening", whitening)
    check_choice("outside", outside, Outside)
    trained = flags("mask", mask)
    reward = numbers("rewards", rewards, trained.shape)
    value = numbers("values", values, trained.shape, inside=trained)
    _check_outside(reward, trained, outside)
    owner = np.nonzero(trained)[0]
    found = lambda_advantages(reward[trained], value[trained], owner, gamma, lam)
    return _spread(found, value, trained, whitening)


def bilevel_gae(
    rewards: Floats,
    values: Floats,
    mask: Bools,
    ends: Bools,
    *,
    gamma_turn: float = 0.95,
    gamma: float = 1.0,
    lam: float = 1.0,
    whitening: bool = False,
    outside: Outside = "refuse",
) -> TokenAdvantages:
    """Return advantages of tokens, estimated first from turn to turn and then from token to token inside each turn.

        between turns, e_1 < e_2 < ... the last tokens of the turns:
            D_j = r[e_j] + gamma_turn * V[e_(j+1)] - V[e_j]          A[e_j] = D_j + gamma_turn * lam * A[e_(j+1)]
        inside a turn, backwards from its last token:
            d_p = r_p + gamma * V_next - V_p                         A_p = d_p + gamma * lam * A_next

    A turn's last token passes its A on to the tokens before it. V and A after the last turn are 0.

        >>> found = bilevel_gae(np.array([[0, 0, 0, 1.0]]), np.array([[0.1, 0.2, 0.3, 0.6]]), np.ones((1, 4)),
        ...                     np.array([[0, 1, 0, 1]]), gamma_turn=1.0)
        >>> found.advantages.round(6).tolist()
        [[0.9, 0.8, 0.7, 0.4]]

    Args:
        rewards: float64 [B, L], reward of each token; a turn's is on its last one.
        values: float64 [B, L], the critic's V before each token; means nothing where the mask is false.
        mask: bool [B, L], true where the token is trained.
        ends: bool [B, L], true at the last trained token of every turn. Other implementations look for rewards that are
            not zero, and lose the turns without one.
        gamma_turn: discount from turn to turn, in [0, 1].
        gamma: discount from token to token, in [0, 1].
        lam: how far a surprise is carried back on both levels, in [0, 1].
        whitening: bring the advantages of all trained tokens of the batch to mean zero and spread one.
        outside: what to do with a reward where the mask is false: "refuse" or "ignore".

    Raises:
        BadTable: arrays of different shapes, a number that is not finite, a reward outside the mask, an end outside the
            mask, a trained token after the last end of its sequence.
        BadOption: an option has an impossible value.

    Source: Wang et al. 2025, arXiv 2504.20073 (RAGEN), and VAGEN, arXiv 2510.16907. We differ in the explicit ends.
    """
    _check_rates(gamma_turn=gamma_turn, gamma=gamma, lam=lam)
    check_flag("whitening", whitening)
    check_choice("outside", outside, Outside)
    trained = flags("mask", mask)
    reward = numbers("rewards", rewards, trained.shape)
    value = numbers("values", values, trained.shape, inside=trained)
    last = flags("ends", ends, trained.shape)
    _check_outside(reward, trained, outside)
    _check_ends(trained, last)
    above = lambda_advantages(reward[last], value[last], np.nonzero(last)[0], gamma_turn, lam)
    passed_on = reward.copy()
    passed_on[last] = above + value[last]
    ended = last[trained]
    turn: Ints = np.cumsum(ended) - ended
    found = lambda_advantages(passed_on[trained], value[trained], turn, gamma, lam)
    found[ended] = above
    return _spread(found, value, trained, whitening)


def _spread(found: Floats, value: Floats, trained: Bools, whitening: bool) -> TokenAdvantages:
    advantages, returns = np.zeros(trained.shape), np.zeros(trained.shape)
    returns[trained] = found + value[trained]
    advantages[trained] = whiten(found) if whitening else found
    return TokenAdvantages(advantages, returns)


def _check_rates(**rates: float) -> None:
    for name, rate in rates.items():
        check_number(name, rate, 0.0, 1.0)


def _check_outside(reward: Floats, trained: Bools, outside: Outside) -> None:
    lost = (reward != 0.0) & ~trained
    if outside == "refuse" and lost.any():
        row, place = np.argwhere(lost)[0].tolist()
        raise BadTable(
            f"{int(lost.sum())} rewards, the first is {reward[row, place]:g} at [{row}, {place}], lie outside the "
            "trained tokens; move them to the trained token before, or pass outside='ignore'"
        )


def _check_ends(trained: Bools, last: Bools) -> None:
    if (last & ~trained).any():
        row, place = np.argwhere(last & ~trained)[0].tolist()
        raise BadTable(f"ends is True at [{row}, {place}], which is not a trained token")
    owner = np.nonzero(trained)[0]
    final = np.append(owner[1:] != owner[:-1], True)[: len(owner)]  # the last trained token of each sequence
    open_turns = owner[final & ~last[trained]]
    if len(open_turns):
        raise BadTable(
            f"{len(open_turns)} rows, the first is {open_turns[0]}, have trained tokens after their last end; "
            "the last trained token of a row must be the end of a turn"
        )
