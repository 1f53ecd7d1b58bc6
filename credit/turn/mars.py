"""MARS: self-play in games, where every player has a scale of rewards of its own.

Left out on purpose: the games and the pairing of players. A row, with its reward, belongs to the player who acted.
"""

from dataclasses import replace

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import (
    ROUNDING,
    Groups,
    Scale,
    Unit,
    check_number,
    compact,
    discounted_returns,
    group_sums,
    groups_of,
    unit_weights,
    whiten,
)
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Floats, Ints, Steps, need


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
    """Return each turn's return, of rewards and then of returns relative to the same role, whitened over the batch.

        r'[i, t] = norm(r over all turns of the role)                    norm(x) = x - mean, or with scale over spread
        R[i, t]  = sum over k >= 0 of gamma^k * r'[i, t + k]             over the role's own turns of the trajectory
        A[i, t]  = whiten(R[i, t] - mean of the role's distinct R)

    Roles are compared over the whole batch, and the last step whitens over all of its tokens: an advantage depends on
    the whole table.

        >>> steps = Steps.from_columns(task=[0] * 4, trajectory=[0, 0, 1, 1], turn=[0, 1, 0, 1], role=["x", "o"] * 2,
        ...                            reward=[1.0, -1.0, 0.0, 0.0])
        >>> mars(steps).parts["role"].tolist()
        [0.5, -0.5, -0.5, 0.5]

    Args:
        steps: the table; needs `role`, the player. Where a batch mixes games, the game belongs into it, as in
            ("hex", 0). `tokens`, if there, says how often a row counts when whitening. `valid` brings the penalty.
        gamma: discount per turn of the role, in [0, 1].
        scale: how rewards are made relative: "none" (less their mean), "std" or "mad".
        unit: whether a "trajectory" or a "turn" counts once in a role's mean and spread of rewards.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread of rewards.
        invalid_penalty: what an invalid action costs, in units of reward, taken from that turn's reward.

    Returns:
        Advantages with the parts "reward" (r') and "role" (before whitening).

    Raises:
        MissingColumn: there is no `role`.
        BadOption: an option has an impossible value.

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
    """Mean of each group's values with equal ones counted once, float64 [groups]; equal but for rounding is equal."""
    count = groups_of(key)
    largest = np.zeros(count)
    np.maximum.at(largest, key, terms)
    order = np.lexsort((value, key))
    group, ascending = key[order], value[order]
    again = (group[1:] == group[:-1]) & (np.diff(ascending) <= ROUNDING * largest[group[1:]])
    first = np.append(True, ~again)[: len(order)]
    return group_sums(group[first], ascending[first], count) / np.bincount(group[first], minlength=count)
