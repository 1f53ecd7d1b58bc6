"""Step-GRPO of R1-Router: outputs sampled in the same state, compared by their own reward."""

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import Groups, Scale, Unit, unit_weights
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps, need
from turncredit.credit.turn.gigpo import anchors, step_term


def step_grpo(
    steps: Steps,
    *,
    scale: Scale = "std",
    unit: Unit = "trajectory",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return each turn's own reward, normalised over the turns of the task that started from the same state.

        A[i, t] = (r[i, t] - mean) / (std + eps)        over turns of the task that share the state before them

    This is GiGPO's step term alone, with gamma=0. A turn whose state no other trajectory visited gets zero.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=[0, 1, 2], turn=[0, 0, 0], reward=[1.0, 0.0, 5.0],
        ...                            state=["q", "q", "other"])
        >>> step_grpo(steps, scale="none").values.tolist()
        [0.5, -0.5, 0.0]

    Args:
        steps: the table; needs `state`, from which the group of outputs was sampled.
        scale, unit, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "step", and the counts of `gigpo`'s step term in its report.

    Source: Peng et al. 2025 (R1-Router), arXiv 2505.22095. Our reading of the abstract; Hi-Agent (arXiv
    2510.14388) does the same with sub-goals.
    """
    options = GroupOptions(scale, unit, "zero", ddof, eps, invalid_penalty)
    need(steps, "step_grpo", "state")

    def estimate(table: Steps) -> Advantages:
        anchor = anchors(table)
        weight = unit_weights(anchor, table.trajectory, unit)
        step, counts = step_term(Groups(options.penalised_reward(table), anchor, weight), options)
        return Advantages.of(table, step, {"step": step}, counts)

    return without_copies(steps, estimate)
