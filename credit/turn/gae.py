"""Generalised advantage estimation over turns, with values from a critic."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.lambda_advantages import lambda_advantages
from turncredit.credit.numerics import penalties, whiten
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, without_copies
from turncredit.credit.steps import Bools, Steps, need

Whitening = Literal["none", "turn", "token"]
Bootstrap = Literal["none", "last"]


def gae(
    steps: Steps,
    *,
    gamma: float = 0.99,
    lam: float = 0.9,
    whitening: Whitening = "none",
    bootstrap: Bootstrap = "none",
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return generalised advantages over the turns of each trajectory.

        d[i, t] = r[i, t] + gamma * V[i, t + 1] - V[i, t]          V after the last turn is 0
        A[i, t] = d[i, t] + gamma * lam * A[i, t + 1]

    To bootstrap a truncated episode, add gamma times the value of its final state to its last reward, or let
    bootstrap="last" take the value of its last turn for it. With lam=1 and
    values of 0 the advantage is the discounted return.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0, 1.0], value=[0.5, 0.75])
        >>> gae(steps, gamma=1.0, lam=1.0).values.tolist()
        [0.5, 0.25]

    Args:
        steps: the table; needs `value`, V of the state before the turn.
        gamma: discount per turn, in [0, 1].
        lam: decay of temporal differences, in [0, 1].
        whitening: "turn" whitens the advantages over the batch, counting each turn once; "token" weights each turn by
            its number of trained tokens (needs `tokens`); "none" does not whiten.
        bootstrap: "last": V after the last turn of an unfinished episode is that of its last turn, so that a window of
            it can be trained on (needs `unfinished`); its return is no target for the critic. "none": V is 0.
        invalid_penalty: subtracted from the reward of a turn with an invalid action, in units of reward.

    Returns:
        Advantages with the parts "return" (the target of the critic, A + V before whitening) and "value".

    Source: Schulman et al. 2015, arXiv 1506.02438, on turns as in Turn-PPO (arXiv 2512.17008). We differ in that
    whitening, which couples groups, is an option. The bootstrap is T-PPO's, Fan et al. 2025, arXiv 2506.15050.
    """
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    check_number("invalid_penalty", invalid_penalty, 0.0)
    check_choice("whitening", whitening, Whitening)
    check_choice("bootstrap", bootstrap, Bootstrap)
    need(steps, "gae", "value", *(["tokens"] if whitening == "token" else []))
    need(steps, "gae", *(["unfinished"] if bootstrap == "last" else []))

    def estimate(table: Steps) -> Advantages:
        order = table.time_order
        paid, value = table.reward - penalties(table, invalid_penalty), table.column("value")
        if bootstrap == "last":
            paid = paid + gamma * np.where(_cut(table), value, 0.0)
        values = np.zeros(len(table))
        values[order] = lambda_advantages(paid[order], value[order], table.trajectory[order], gamma, lam)
        parts = {"return": values + value, "value": value}
        if whitening != "none":
            values = whiten(values, table.column("tokens") if whitening == "token" else None)
        return Advantages.of(table, values, parts)

    return without_copies(steps, estimate)


def _cut(steps: Steps) -> Bools:
    """bool [N], True for the last turn of an unfinished episode."""
    order = steps.time_order
    owner = steps.trajectory[order]
    last = np.zeros(len(steps), dtype=np.bool_)
    last[order] = np.append(owner[1:] != owner[:-1], True)[: len(owner)]
    return np.asarray(last & steps.column("unfinished"), dtype=np.bool_)
