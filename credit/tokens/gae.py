"""GAE over tokens: along the trained tokens, or on two levels, over turns and then over the tokens of each turn."""

from typing import Literal, NamedTuple

import numpy as np

from turncredit.credit.errors import BadTable
from turncredit.credit.lambda_advantages import lambda_advantages
from turncredit.credit.numerics import whiten
from turncredit.credit.option_checks import check_choice, check_flag, check_number
from turncredit.credit.steps import Bools, Floats, Ints
from turncredit.credit.tokens.checks import flags, numbers

Outside = Literal["refuse", "ignore"]


class TokenAdvantages(NamedTuple):
    """Advantages and returns of tokens; zero outside the trained tokens.

    Args:
        advantages: float64 [B, L].
        returns: float64 [B, L], targets of the critic: advantage before whitening, plus value.
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
    """Return generalised advantages along the trained tokens of each sequence, skipping all others.

        d_p = r_p + gamma * V_next - V_p          next: the sequence's next trained token; V = 0 after the last
        A_p = d_p + gamma * lam * A_next

        >>> found = gae_tokens(np.array([[0, 0, 1.0]]), np.array([[0.5, 9.0, 0.25]]), np.array([[1, 0, 1]]), lam=1.0)
        >>> found.advantages.tolist()
        [[0.5, 0.0, 0.75]]

    Args:
        rewards: float64 [B, L], reward of each token.
        values: float64 [B, L], the critic's value before each token; ignored outside the mask.
        mask: bool [B, L], True for trained tokens; False for padding and observations.
        gamma: discount per trained token, in [0, 1].
        lam: decay of temporal differences, in [0, 1].
        whitening: whiten the advantages over all trained tokens of the batch.
        outside: "refuse" rewards outside the mask, which would be lost, or "ignore" them as other implementations do.

    Raises:
        BadTable: arrays differ in shape, a number is not finite, or a reward is outside the mask.
        BadOption: an option has an impossible value.

    Source: Schulman et al. 2015, arXiv 1506.02438. Skipping observations is common in agent trainers.
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
    """Return advantages of tokens, estimated first over turns and then over the tokens of each turn.

        between turns, e_1 < e_2 < ... the last tokens of the turns:
            D_j = r[e_j] + gamma_turn * V[e_(j+1)] - V[e_j]          A[e_j] = D_j + gamma_turn * lam * A[e_(j+1)]
        inside a turn, backwards from its last token:
            d_p = r_p + gamma * V_next - V_p                         A_p = d_p + gamma * lam * A_next

    The tokens of a turn continue from the A of its last token. V and A after the last turn are 0.

        >>> found = bilevel_gae(np.array([[0, 0, 0, 1.0]]), np.array([[0.1, 0.2, 0.3, 0.6]]), np.ones((1, 4)),
        ...                     np.array([[0, 1, 0, 1]]), gamma_turn=1.0)
        >>> found.advantages.round(6).tolist()
        [[0.9, 0.8, 0.7, 0.4]]

    Args:
        rewards: float64 [B, L], reward of each token; a turn's reward is on its last token.
        values: float64 [B, L], the critic's value before each token; ignored outside the mask.
        mask: bool [B, L], True for trained tokens.
        ends: bool [B, L], True at the last trained token of every turn. (Other implementations use the nonzero rewards,
            and lose turns without one.)
        gamma_turn: discount from turn to turn, in [0, 1].
        gamma: discount from token to token, in [0, 1].
        lam: decay of temporal differences on both levels, in [0, 1].
        whitening: whiten the advantages over all trained tokens of the batch.
        outside: "refuse" or "ignore" rewards outside the mask.

    Raises:
        BadTable: arrays differ in shape, a number is not finite, a reward or an end is outside the mask, or a trained
            token follows the last end of its sequence.
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
