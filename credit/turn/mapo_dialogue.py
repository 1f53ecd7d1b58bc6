"""MAPO for dialogues: the return of a turn among the same turns of its task, mixed with its place in the batch.

Left out on purpose: the judge whose scores are the rewards, and the shaping that makes potentials of them.
"""

from typing import Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import (
    Groups,
    Unit,
    check_choice,
    check_number,
    compact,
    discounted_returns,
    positions,
    unit_weights,
)
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps

Mode = Literal["mapo", "mica"]


def mapo_dialogue(
    steps: Steps,
    *,
    alpha: float = 0.5,
    mode: Mode = "mapo",
    gamma: float = 1.0,
    unit: Unit = "trajectory",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return a mix of two standings of each turn: among the same turns of its task, and in the batch (or by reward).

        R[i, t] = sum over k >= 0 of gamma^k * r[i, t + k]
        mapo:  A[i, t] = alpha * z_turn(R) + (1 - alpha) * z_batch(R)
        mica:  A[i, t] = alpha * z_turn(R) + (1 - alpha) * z_turn(r)
        z(x) = (x - mean) / (std + eps)

    z_turn compares the trajectories of a task at the same turn, z_batch all turns of the table: with "mapo" and alpha
    below one, an advantage depends on the whole batch and not on its own task alone.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "b"], turn=[0, 0, 1], reward=[1.0, 0, 0])
        >>> mapo_dialogue(steps, mode="mica", eps=0.0).values.round(6).tolist()
        [0.707107, -0.707107, 0.0]

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty.
        alpha: weight of the return's standing among the same turns, from 0 to 1.
        mode: see above; "mica" is the name of the paper's second version.
        gamma: discount per turn, in [0, 1].
        unit: whether a "trajectory" or a "turn" counts once in the mean and spread of the batch.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward, taken from that turn's reward.

    Returns:
        Advantages with the parts "turn" and "batch" (or "reward" under mode="mica"), before their weights. A turn that
        one trajectory alone has reached gets zero from z_turn.

    Raises:
        BadOption: an option has an impossible value.

    Source: Zhang et al. 2026, arXiv 2603.06194 (MAPO; MICA in its second version). Our reading: the mix follows the
    abstract, and "mica" the form that others gave it; neither was checked against the authors' code.
    """
    options = GroupOptions(unit=unit, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_choice("mode", mode, Mode)
    check_number("alpha", alpha, 0.0, 1.0)
    check_number("gamma", gamma, 0.0, 1.0)

    def estimate(table: Steps) -> Advantages:
        paid = options.penalised_reward(table)
        returns = discounted_returns(table, gamma, reward=paid)
        terms = discounted_returns(table, gamma, reward=np.abs(paid))
        key = compact(table.task, positions(table))
        turn = options.normalise(Groups(returns, key, size_of_terms=terms))
        if mode == "mica":
            name, other = "reward", options.normalise(Groups(paid, key))
        else:
            every = np.zeros(len(table), dtype=np.int64)
            weight = unit_weights(every, table.trajectory, unit)
            name, other = "batch", options.normalise(Groups(returns, every, weight, size_of_terms=terms))
        return Advantages.of(table, alpha * turn + (1.0 - alpha) * other, {"turn": turn, name: other})

    return without_copies(steps, estimate)
