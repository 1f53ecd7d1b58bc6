"""VinePPO on turns: the change in the values that forks of each turn estimate."""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.lambda_advantages import lambda_advantages
from turnwise.credit.numerics import penalties
from turnwise.credit.option_checks import check_number
from turnwise.credit.options import INVALID_PENALTY, without_copies
from turnwise.credit.steps import Steps, need


def vine(steps: Steps, *, gamma: float = 0.95, invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return the reward of each turn plus the change in value, with values from independent forks.

        V[i, t] = mean return of K forks that begin before turn t          V after the last turn is 0
        A[i, t] = r[i, t] + gamma * V[i, t + 1] - V[i, t]

    The episode's own outcome is in no V, so a turn is neither praised nor blamed for what happened later. In an
    environment with chance, V of the next turn says what came of the chance as well; with the column `action_value`, Q,
    the mean return of forks that repeat the turn's action, A[i, t] = Q[i, t] - V[i, t].

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0, 1.0], value=[0.5, 0.75])
        >>> vine(steps, gamma=1.0).values.tolist()
        [0.25, 0.25]

    Args:
        steps: the table; needs `value`. With the column `forks` (number of forks), turns without any are left out.
        gamma: discount per turn, in [0, 1], with which the values were computed.
        invalid_penalty: subtracted from the reward of a turn with an invalid action, in units of reward, as in the
            values. Values of `action_value` have it already.

    Returns:
        Advantages with the part "value".

    Source: Kazemnejad et al. 2024 (VinePPO), arXiv 2410.01679. Our reading, after a description of it: turns in place
    of steps of reasoning, and forks that repeat an action where the environment draws random numbers.
    """
    check_number("gamma", gamma, 0.0, 1.0)
    check_number("invalid_penalty", invalid_penalty, 0.0)
    need(steps, "vine", "value")

    def estimate(table: Steps) -> Advantages:
        value, order = table.column("value"), table.time_order
        values = np.zeros(len(table))
        if "action_value" in table:
            values = np.asarray(table.column("action_value") - value, dtype=np.float64)
        else:
            paid = table.reward - penalties(table, invalid_penalty)
            values[order] = lambda_advantages(paid[order], value[order], table.trajectory[order], gamma, 0.0)
        has_forks = table.column("forks") > 0 if "forks" in table else np.ones(len(table), dtype=np.bool_)
        return Advantages.of(table, np.where(has_forks, values, 0.0), {"value": value}, keep=has_forks)

    return without_copies(steps, estimate)
