"""Dr. GRPO: the outcome of an episode minus the mean of its task, without scaling."""

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import PenaltyIn, Singleton, Unit
from turncredit.credit.options import INVALID_PENALTY
from turncredit.credit.outcome.grpo import grpo
from turncredit.credit.steps import Steps


def dr_grpo(
    steps: Steps,
    *,
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
) -> Advantages:
    """Return the episode's score minus the mean of its task, for all of its turns.

        E[i] = sum over t of r[i, t]
        A[i, t] = E[i] - mean        over the trajectories i of one task

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "b"], turn=[0, 0, 1], reward=[1.0, 0, 0])
        >>> dr_grpo(steps).values.tolist()
        [0.5, -0.5, -0.5]

    Args:
        steps: the table.
        unit, singleton, invalid_penalty, penalty_in: see `GroupOptions`.

    Returns:
        Advantages with the part "episode" (and "penalty" under penalty_in="advantage"), in units of reward.

    Source: Liu et al. 2025, arXiv 2503.20783. We differ in the group of one, which gets its raw score in other
    trainers.
    """
    return grpo(
        steps, scale="none", unit=unit, singleton=singleton, invalid_penalty=invalid_penalty, penalty_in=penalty_in
    )
