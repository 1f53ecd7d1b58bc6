"""Dr. GRPO: the outcome of an episode less the mean of its task, without dividing by a spread.

Left out on purpose: the other half of the paper, a loss that divides by a constant instead of by lengths; it belongs to
training.
"""

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import PenaltyIn, Singleton, Unit
from turnwise.credit.options import INVALID_PENALTY
from turnwise.credit.outcome.grpo import grpo
from turnwise.credit.steps import Steps


def dr_grpo(
    steps: Steps,
    *,
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
) -> Advantages:
    """Return how much better an episode did than the mean of its task, the same for all of its turns.

        E[i] = sum over t of r[i, t]
        A[i, t] = E[i] - mean        over the trajectories i of one task

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "b"], turn=[0, 0, 1], reward=[1.0, 0, 0])
        >>> dr_grpo(steps).values.tolist()
        [0.5, -0.5, -0.5]

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty.
        unit: "trajectory" counts each episode once in the mean; "turn" counts it once per turn.
        singleton: a group of one gives "zero" or its "raw" score.
        invalid_penalty: what an invalid action costs, in units of reward.
        penalty_in: where it enters: the turn's "reward", the row's "return" or the row's "advantage" (see `grpo`).

    Returns:
        Advantages with the part "episode" (and "penalty" under penalty_in="advantage"), in units of reward.

    Raises:
        BadOption: an option has an impossible value.

    Source: Liu et al. 2025, arXiv 2503.20783. We differ in the group of one, which trainers give its raw score.
    """
    return grpo(
        steps, scale="none", unit=unit, singleton=singleton, invalid_penalty=invalid_penalty, penalty_in=penalty_in
    )
