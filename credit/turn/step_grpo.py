"""Step-GRPO of R1-Router: outputs sampled from the same state, compared by their own reward.

Left out on purpose: what the reward of a step is made of (relevance of the query, choice of the source, format). Other
methods have the name too; this one is the router's.
"""

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, Scale, Unit, unit_weights
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps, need
from turnwise.credit.turn.gigpo import anchors, step_term


def step_grpo(
    steps: Steps,
    *,
    scale: Scale = "std",
    unit: Unit = "trajectory",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the standing of each turn's own reward among the turns of the task that started from the same state.

        A[i, t] = (r[i, t] - mean) / (std + eps)        over turns of the task that share the state before them

    What came later counts for nothing: this is GiGPO's step term alone, at gamma zero. A turn whose state nobody else
    was in gets zero.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=[0, 1, 2], turn=[0, 0, 0], reward=[1.0, 0.0, 5.0],
        ...                            state=["q", "q", "other"])
        >>> step_grpo(steps, scale="none").values.tolist()
        [0.5, -0.5, 0.0]

    Args:
        steps: the table; needs `state`, the situation from which the group of outputs was sampled. `valid`, if there,
            brings the penalty.
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation).
        unit: "trajectory" counts each trajectory once in a state's mean and spread; "turn" counts every visit.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward, taken from that turn's reward.

    Returns:
        Advantages with the part "step", and the counts of `gigpo`'s step term in its report.

    Raises:
        MissingColumn: there is no `state`.
        BadOption: an option has an impossible value.

    Source: Peng et al. 2025 (R1-Router), arXiv 2505.22095. Our reading of the abstract; sub-goals sampled at one state
    and judged on the spot (Hi-Agent, arXiv 2510.14388) come to the same.
    """
    options = GroupOptions(scale, unit, "zero", ddof, eps, invalid_penalty)
    need(steps, "step_grpo", "state")

    def estimate(table: Steps) -> Advantages:
        anchor = anchors(table)
        weight = unit_weights(anchor, table.trajectory, unit)
        step, counts = step_term(Groups(options.penalised_reward(table), anchor, weight), options)
        return Advantages.of(table, step, {"step": step}, counts)

    return without_copies(steps, estimate)
