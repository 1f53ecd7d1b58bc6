"""MAPO for dialogues: the return normalised over the same turns of the task, mixed with a second normalisation."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import Groups, Unit, compact, discounted_returns, positions, unit_weights
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps

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
    """Return a mix of two normalised values of each turn: over the same turns of its task, and over the batch.

        R[i, t] = sum over k >= 0 of gamma^k * r[i, t + k]
        mapo:  A[i, t] = alpha * z_turn(R) + (1 - alpha) * z_batch(R)
        mica:  A[i, t] = alpha * z_turn(R) + (1 - alpha) * z_turn(r)
        z(x) = (x - mean) / (std + eps)

    z_turn is over the trajectories of a task at the same turn, z_batch over all turns of the table: with mode="mapo"
    and alpha < 1 an advantage depends on the whole batch.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "b"], turn=[0, 0, 1], reward=[1.0, 0, 0])
        >>> mapo_dialogue(steps, mode="mica", eps=0.0).values.round(6).tolist()
        [0.707107, -0.707107, 0.0]

    Args:
        steps: the table.
        alpha: weight of z_turn(R), in [0, 1].
        mode: see above; "mica" is from the paper's second version.
        gamma: discount per turn, in [0, 1].
        unit: see `GroupOptions`; for the statistics of the batch.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "turn" and "batch" (or "reward" under mode="mica"), before their weights. z_turn is
        zero for a turn that only one trajectory reached.

    Source: Zhang et al. 2026, arXiv 2603.06194 (MAPO; MICA in its second version). Our reading: the mix follows the
    abstract, and "mica" a secondary description; neither was checked against the authors' code.
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
