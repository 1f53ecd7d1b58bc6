"""MARS: self-play, with rewards and returns normalised per role."""

from dataclasses import replace

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import (
    ROUNDING,
    Groups,
    Scale,
    Unit,
    compact,
    discounted_returns,
    group_sums,
    groups_of,
    unit_weights,
    whiten,
)
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Ints, Steps, need


def mars(
    steps: Steps,
    *,
    gamma: float = 1.0,
    scale: Scale = "none",
    unit: Unit = "trajectory",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return each turn's return of role-normalised rewards, centred per role and whitened over the batch.

        r'[i, t] = norm(r over all turns of the role)
        R[i, t]  = sum over k >= 0 of gamma^k * r'[i, t + k]        over the role's own turns of the trajectory
        A[i, t]  = whiten(R[i, t] - mean of the role's distinct R)
        norm(x)  = x - mean, with scale="std" divided by the standard deviation

    Statistics of roles and whitening are over the whole batch, so an advantage depends on the whole table.

        >>> steps = Steps.from_columns(task=[0] * 4, trajectory=[0, 0, 1, 1], turn=[0, 1, 0, 1], role=["x", "o"] * 2,
        ...                            reward=[1.0, -1.0, 0.0, 0.0])
        >>> mars(steps).parts["role"].tolist()
        [0.5, -0.5, -0.5, 0.5]

    Args:
        steps: the table; needs `role`, the player; in a batch of several games include the game, as in ("hex", 0).
            If present, `tokens` weights rows for whitening.
        gamma: discount per turn of the role, in [0, 1].
        scale, unit, ddof, eps, invalid_penalty: see `GroupOptions`; for the rewards of a role.

    Returns:
        Advantages with the parts "reward" (r') and "role" (before whitening).

    Source: Yuan et al. 2025 (MARSHAL; MARS in its first version), arXiv 2510.15414, after its public code.
    """
    options = GroupOptions(scale, unit, "zero", ddof, eps, invalid_penalty)
    check_number("gamma", gamma, 0.0, 1.0)
    need(steps, "mars", "role")

    def estimate(table: Steps) -> Advantages:
        role = compact(table.column("role"))
        own = replace(table, trajectory=compact(table.trajectory, role))
        paid = options.penalised_reward(table)
        reward = options.normalise(Groups(paid, role, unit_weights(role, own.trajectory, unit)))
        returns = discounted_returns(own, gamma, reward=reward)
        terms = discounted_returns(own, gamma, reward=np.abs(reward))
        relative = returns - _mean_of_distinct(returns, role, terms)[role]
        tokens = np.maximum(table.column("tokens"), 0) if "tokens" in table else None
        values = whiten(relative, tokens, size_of_terms=terms)
        return Advantages.of(table, values, {"reward": reward, "role": relative}, {"roles": float(groups_of(role))})

    return without_copies(steps, estimate)


def _mean_of_distinct(value: Floats, key: Ints, terms: Floats) -> Floats:
    """Mean of the distinct values of each group, float64 [groups]; values that differ by rounding only are equal."""
    count = groups_of(key)
    largest = np.zeros(count)
    np.maximum.at(largest, key, terms)
    order = np.lexsort((value, key))
    group, ascending = key[order], value[order]
    again = (group[1:] == group[:-1]) & (np.diff(ascending) <= ROUNDING * largest[group[1:]])
    first = np.append(True, ~again)[: len(order)]
    return group_sums(group[first], ascending[first], count) / np.bincount(group[first], minlength=count)
