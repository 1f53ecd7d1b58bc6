"""Dr. MAS: a team of agents, with advantages normalised per agent."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, Unit, compact, discounted_returns, unit_weights
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, combined, without_copies
from turncredit.credit.steps import Steps, need
from turncredit.credit.turn.gigpo import step_term


def dr_mas(
    steps: Steps,
    *,
    w: float = 0.0,
    gamma: float = 0.95,
    scale: Scale = "std",
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's score normalised over the episodes in which the role acted, plus w times GiGPO's step term.

        E[i] = sum over t of r[i, t]                      R[i, t] = sum over k of gamma^k * r[i, t + k]
        A[i, t] = norm(E over the trajectories in which role(t) acted)
                  + w * norm(R over turns of the task that share role and state)
        norm(x) = (x - mean) / (std + eps)

    The outcome is that of the team. With one role this is `grpo`, or `gigpo` for w > 0. A role that acts in a few
    episodes only is compared within these.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=[0, 0, 1, 2], turn=[0, 1, 0, 0],
        ...                            reward=[1.0, 0, 0, 0.5], role=["lead", "help", "lead", "lead"])
        >>> dr_mas(steps, scale="none").values.tolist()
        [0.5, 0.0, -0.5, 0.0]

    Args:
        steps: the table; needs `role`, and `state` if w > 0.
        w: factor of the step term; 0 omits it.
        gamma: discount per turn of the step term, in [0, 1].
        scale, unit, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode" and, if w > 0, "step".

    Source: Feng et al. 2026, arXiv 2602.08847, and its public code, which counts turns.
    """
    options = GroupOptions(scale, unit, singleton, ddof, eps, invalid_penalty)
    check_number("w", w, 0.0)
    check_number("gamma", gamma, 0.0, 1.0)
    need(steps, "dr_mas", *(("role", "state") if w else ("role",)))

    def estimate(table: Steps) -> Advantages:
        team = compact(table.task, table.column("role"))
        paid = options.penalised_reward(table)
        episodes = Episodes.of(table, reward=paid)
        score, terms = episodes.score[episodes.member], episodes.size_of_terms[episodes.member]
        groups = Groups(score, team, unit_weights(team, table.trajectory, unit), size_of_terms=terms)
        parts = {"episode": options.normalise(groups)}
        report = {"groups": float(len(groups.size)), "groups_of_one": float((groups.size == 1.0).sum())}
        if w:
            anchor = compact(team, table.column("state"))
            returns = discounted_returns(table, gamma, reward=paid)
            terms = discounted_returns(table, gamma, reward=np.abs(paid))
            weight = unit_weights(anchor, table.trajectory, unit)
            parts["step"], counts = step_term(Groups(returns, anchor, weight, size_of_terms=terms), options)
            report.update(counts)
        return combined(table, options, parts, report, w=w)

    return without_copies(steps, estimate)
