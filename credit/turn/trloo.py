"""TRLOO: the return of a turn minus the mean return of the other trajectories at the same turn."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import (
    Groups,
    Singleton,
    Unit,
    compact,
    discounted_returns,
    group_sums,
    groups_of,
    positions,
    unit_weights,
)
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Ints, Steps

Peers = Literal["turn", "task"]


def trloo(
    steps: Steps,
    *,
    gamma: float = 1.0,
    peers: Peers = "turn",
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the return of each turn minus the mean return of the other trajectories from the same turn on.

        R[i, t] = sum over k >= 0 of gamma^k * r[i, t + k]
        A[i, t] = R[i, t] - mean of the others = n / (n - 1) * (R[i, t] - mean)

    The others are the n - 1 trajectories of the task that reached turn t. A turn's own return is not in its
    baseline, so the gradient is unbiased; nothing is scaled.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "c"], turn=[0, 1, 0, 0],
        ...                            reward=[1.0, 2.0, 0.0, 1.5])
        >>> trloo(steps).values.tolist()
        [2.25, 0.0, -2.25, 0.0]

    Args:
        steps: the table.
        gamma: discount per turn, in [0, 1].
        peers: "turn" compares with the same turn of the others (TRLOO), "task" with all their turns (ERLOO).
        unit: under peers="task", "trajectory" takes the mean of the other trajectories' mean returns; "turn" the mean
            of all other rows, those of the same trajectory included, as the published code does.
        singleton: a turn without peers gives "zero" or its "raw" return.
        invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "return".

    Source: Liu et al. 2026 (Dr. Kernel), arXiv 2602.05885, and its public code. We differ in turns without peers.
    """
    options = GroupOptions(unit=unit, singleton=singleton, invalid_penalty=invalid_penalty)
    check_choice("peers", peers, Peers)
    check_number("gamma", gamma, 0.0, 1.0)

    def estimate(table: Steps) -> Advantages:
        paid = options.penalised_reward(table)
        returns = discounted_returns(table, gamma, reward=paid)
        terms = discounted_returns(table, gamma, reward=np.abs(paid))
        key = compact(table.task, positions(table)) if peers == "turn" else compact(table.task)
        groups = Groups(returns, key, unit_weights(key, table.trajectory, unit), size_of_terms=terms)
        alone = (groups.size == 1.0)[key]
        against = np.where(alone, returns if singleton == "raw" else 0.0, _less_the_others(table, groups, unit))
        report = {"groups": float(len(groups.size)), "groups_of_one": float((groups.size == 1.0).sum())}
        return Advantages.of(table, against, {"return": returns}, report)

    return without_copies(steps, estimate)


def _less_the_others(steps: Steps, groups: Groups, unit: Unit) -> Floats:
    """Each value less the mean of what else counts in its group, float64 [N]; meaningless in a group of one."""
    centred = groups.centred()
    own = centred if unit == "turn" else _mean_of_own(steps, groups.key, centred)
    return centred + own / np.maximum(groups.size - 1.0, 1.0)[groups.key]


def _mean_of_own(steps: Steps, key: Ints, value: Floats) -> Floats:
    """The mean over the rows that a trajectory has in a group, float64 [N], added up in order of time."""
    cell, order = compact(key, steps.trajectory), steps.time_order
    count = groups_of(cell)
    return (group_sums(cell[order], value[order], count) / np.bincount(cell, minlength=count))[cell]
