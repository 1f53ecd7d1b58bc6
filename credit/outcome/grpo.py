"""GRPO: the outcome of an episode relative to the other episodes of its task."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.numerics import (
    Compat,
    Groups,
    PenaltyIn,
    Scale,
    Singleton,
    Unit,
    compact,
    penalties,
    trajectory_scores,
    unit_weights,
)
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.steps import Floats, Steps, need


def episode_term(steps: Steps, options: GroupOptions) -> tuple[Floats, dict[str, float]]:
    """Return the normalised score of each row's episode, float64 [N], and counts for the report.

    Args:
        steps: the table; its copies count as rows.
        options: the options.
    """
    paid = options.penalised_reward(steps)
    scores, tasks, member = trajectory_scores(steps, reward=paid)
    terms = trajectory_scores(steps, reward=np.abs(paid))[0]
    if options.normalize_by_length:
        turns = np.bincount(member[steps.time_order], minlength=len(scores))
        scores, terms = scores / turns, terms / turns
    by_row = options.unit == "turn" or options.penalty_in == "return"  # rows of one episode count, or differ
    if by_row:
        key = compact(steps.task)
        late = options.return_penalty(steps)
        weight = unit_weights(key, member, options.unit)
        groups = Groups(scores[member] - late, key, weight, size_of_terms=terms[member] + late)
    else:
        groups = Groups(scores, compact(tasks), size_of_terms=terms)
    term = options.normalise(groups)
    report = {
        "groups": float(len(groups.size)),
        "groups_of_one": float((groups.size == 1.0).sum()),
        "groups_without_spread": float((groups.flat & (groups.size > 1.0)).sum()),
        "invalid_turns": float(steps.invalid.sum()),
        "penalty": float(penalties(steps, options.invalid_penalty).sum()),
    }
    return (term if by_row else term[member]), report


def grpo(
    steps: Steps,
    *,
    scale: Scale = "std",
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
    penalty_in: PenaltyIn = "reward",
    compat: Compat | None = None,
    normalize_by_length: bool = False,
) -> Advantages:
    """Return the episode's score normalised over the episodes of its task, for all of its turns.

        E[i] = sum over t of r[i, t]
        A[i, t] = (E[i] - mean) / (std + eps)        over the trajectories i of one task

    A group with equal scores gets exactly zero.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "b"], turn=[0, 0, 1], reward=[1.0, 0, 0])
        >>> grpo(steps, scale="none").values.tolist()
        [0.5, -0.5, -0.5]

    Args:
        steps: the table.
        compat: "verl-agent" sets unit="turn", singleton="raw", penalty_in="return", and counts copies as rows; other
            values of these options are refused.
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in, normalize_by_length: see `GroupOptions`.

    Returns:
        Advantages with the part "episode" (and "penalty" under penalty_in="advantage").

    Source: Shao et al. 2024, arXiv 2402.03300, outcome supervision. We differ in the group of one and in groups
    without spread.
    """
    options = GroupOptions(
        scale, unit, singleton, ddof, eps, invalid_penalty, penalty_in, normalize_by_length
    ).with_preset(compat)
    need(steps, "grpo")

    def estimate(table: Steps) -> Advantages:
        term, report = episode_term(table, options)
        return combined(table, options, {"episode": term}, report)

    return without_copies(steps, estimate, with_copies=compat is not None)
