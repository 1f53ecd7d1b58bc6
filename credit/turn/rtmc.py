"""RTMC: the mean return of the action in the state minus the mean return of the state."""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.numerics import Groups, PenaltyIn, Unit, compact, discounted_returns, groups_of, unit_weights
from turnwise.credit.option_checks import check_number
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turnwise.credit.steps import Steps, need


def rtmc(
    steps: Steps,
    *,
    gamma: float = 0.95,
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    unit: Unit = "trajectory",
) -> Advantages:
    """Return the mean return of the turn's action in its state minus the mean return of the state.

        R[i, t] = sum over k of gamma^k * r[i, t + k]
        Q(s, a) = mean of R over the turns of the task in state s with action a
        V(s)    = mean of R over the turns of the task in state s
        A[i, t] = Q(s[i, t], a[i, t]) - V(s[i, t])

    Turns with the same action in the same state get the same advantage, even if their episodes end differently.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "c"], turn=[0, 0, 0],
        ...                            reward=[1.0, 0, 0], state=["hall"] * 3, action=["go", "go", "stay"])
        >>> rtmc(steps).values.round(6).tolist()
        [0.166667, 0.166667, -0.333333]

    Args:
        steps: the table; needs `state` and `action`.
        gamma: discount per turn, in [0, 1].
        unit, invalid_penalty, penalty_in: see `GroupOptions`.

    Returns:
        Advantages with the parts "action" (Q) and "state" (V), whose difference they are (and "penalty" under
        penalty_in="advantage"); the report has the share of turns in whose state other actions were tried.

    Source: the Monte Carlo estimate over merged rollouts, after a secondary description; no code was available.
    Our reading: the unit of trajectories.
    """
    options = GroupOptions(scale="none", unit=unit, invalid_penalty=invalid_penalty, penalty_in=penalty_in)
    check_number("gamma", gamma, 0.0, 1.0)
    need(steps, "rtmc", "state", "action")

    def estimate(table: Steps) -> Advantages:
        state = compact(table.task, table.column("state"))
        action = compact(state, table.column("action"))
        paid, late = options.penalised_reward(table), options.return_penalty(table)
        returns = discounted_returns(table, gamma, reward=paid) - late
        terms = discounted_returns(table, gamma, reward=np.abs(paid)) + late
        weight = unit_weights(state, table.trajectory, unit)  # of the state for both, so that V is the mean of Q
        q, v = (Groups(returns, key, weight, size_of_terms=terms).row_centres() for key in (action, state))
        choice = np.bincount(state)[state] > np.bincount(action)[action]  # another action was tried in the state
        report = {"states": float(groups_of(state)), "choices": float(choice.mean())}
        return combined(table, options, {"action": q, "state": v}, report, values=q - v)

    return without_copies(steps, estimate)
