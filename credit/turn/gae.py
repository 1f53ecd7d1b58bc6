"""GAE over turns: a critic's surprise at what each turn led to.

Left out on purpose: the critic and its loss; the part "return" is what it should learn. Tokens: `tokens.gae`.
"""

from typing import Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import check_choice, check_number, penalties, whiten
from turnwise.credit.critic import lambda_advantages
from turnwise.credit.options import INVALID_PENALTY, without_copies
from turnwise.credit.steps import Steps, need

Whitening = Literal["none", "turn", "token"]


def gae(
    steps: Steps,
    *,
    gamma: float = 0.99,
    lam: float = 0.9,
    whitening: Whitening = "none",
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return how much better each turn turned out than the critic's value of its state, discounted over the turns.

        d[i, t] = r[i, t] + gamma * V[i, t + 1] - V[i, t]          V after the last turn is 0
        A[i, t] = d[i, t] + gamma * lam * A[i, t + 1]

    An episode that was cut off has more to come: whoever wants its value in, adds gamma times the value of the state
    that followed to its last reward, which is the same. With lam 1 and all values 0 the advantage is the discounted
    return.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0, 1.0], value=[0.5, 0.75])
        >>> gae(steps, gamma=1.0, lam=1.0).values.tolist()
        [0.5, 0.25]

    Args:
        steps: the table; needs `value`, V of the state before the turn. `valid`, if there, brings the penalty.
        gamma: discount per turn, in [0, 1].
        lam: how far a surprise is carried back, in [0, 1].
        whitening: "turn" brings the advantages of the whole batch to mean zero and spread one, counting each turn once;
            "token" counts each as often as it has trained tokens (needs `tokens`); "none" leaves them.
        invalid_penalty: what an invalid action costs, in units of reward; taken from that turn's reward.

    Returns:
        Advantages with the parts "return" (what the critic should have said: A + V before whitening) and "value".

    Raises:
        MissingColumn: there is no `value`, or no `tokens` for "token".
        BadOption: an option has an impossible value.

    Source: Schulman et al. 2015, arXiv 1506.02438, on turns as Turn-PPO (arXiv 2512.17008) has them. We differ in that
    whitening is an option: it makes a group see the others.
    """
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("lam", lam, 0.0, 1.0)
    check_number("invalid_penalty", invalid_penalty, 0.0)
    check_choice("whitening", whitening, Whitening)
    need(steps, "gae", "value", *(["tokens"] if whitening == "token" else []))

    def estimate(table: Steps) -> Advantages:
        order = table.time_order
        paid, value = table.reward - penalties(table, invalid_penalty), table.column("value")
        values = np.zeros(len(table))
        values[order] = lambda_advantages(paid[order], value[order], table.trajectory[order], gamma, lam)
        parts = {"return": values + value, "value": value}
        if whitening != "none":
            values = whiten(values, table.column("tokens") if whitening == "token" else None)
        return Advantages.of(table, values, parts)

    return without_copies(steps, estimate)
