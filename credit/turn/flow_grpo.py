"""Flow-GRPO of AgentFlow: the planner of a multi-module system is trained on the outcome of the whole system."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, Unit, compact, unit_weights
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.roles import need_role, rows_of_role
from turncredit.credit.steps import Steps, need


def flow_grpo(
    steps: Steps,
    *,
    planner: object = None,
    unit: Unit = "trajectory",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's normalised score for every turn of the planner, and drop the other turns.

        E[i] = sum over t of r[i, t]                          over the turns of all roles
        A[i, t] = (E[i] - mean) / (std + eps)                 for turns t of the planner, over the task

    With planner=None every turn counts as the planner's, and this is `grpo`.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "a", "b"], turn=[0, 1, 0], reward=[0, 1.0, 0],
        ...                            role=["plan", "run", "plan"])
        >>> result = flow_grpo(steps, planner="plan", scale="none")
        >>> result.values.tolist(), result.keep.tolist()
        ([0.5, 0.0, -0.5], [True, False, True])

    Args:
        steps: the table; needs `role` if `planner` is given.
        planner: the role that is trained; None trains all turns.
        unit: "trajectory" counts each episode once in mean and spread, as the paper's equation does; "turn" counts it
            once per turn of the planner, as the published code does.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode"; `keep` is False and the value zero for turns of other roles.

    Raises:
        BadTable: no row has the role `planner`.

    Source: Li et al. 2025 (AgentFlow), arXiv 2510.05592, after its public code.
    """
    options = GroupOptions(scale, unit, singleton, ddof, eps, invalid_penalty)
    if planner is not None:
        need(steps, "flow_grpo", "role")
        need_role(steps, "flow_grpo", planner)

    def estimate(table: Steps) -> Advantages:
        trained = np.ones(len(table), dtype=np.bool_) if planner is None else rows_of_role(table, planner)
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        score, terms = (x[episodes.member[trained]] for x in (episodes.score, episodes.size_of_terms))
        key = compact(table.task[trained])
        weight = unit_weights(key, table.trajectory[trained], unit)
        values = np.zeros(len(table))
        values[trained] = options.normalise(Groups(score, key, weight, size_of_terms=terms))
        report = {**episodes.counts, "trained_turns": float(trained.sum())}
        return Advantages.of(table, values, {"episode": values}, report, keep=trained)

    return without_copies(steps, estimate)
