"""MT-GRPO: the normalised outcome of the episode plus the normalised reward of the turn."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, positions
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Steps

Form = Literal["turns", "segments"]


def mt_grpo(
    steps: Steps,
    *,
    coef: float = 1.0,
    form: Form = "turns",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's normalised score plus the turn's reward, normalised over the same turns of the task.

        turns:     A[i, t] = norm(sum over t of r[i, t]) + coef * norm(r[i, t] over the trajectories that reached t)
        segments:  A[i, 0] = norm(o[i]) + coef * norm(r[i, 0])        o[i] = sum over t > 0 of r[i, t]
                   A[i, t] = norm(o[i])                               for t > 0
                   A[i, 0] = norm(sum over t of r[i, t])              for a trajectory of one turn
        norm(x) = (x - mean) / (std + eps)

    "segments" is the published form: the turn up to the first tool result gets its own reward and the outcome, later
    turns the outcome alone. "turns" generalises it to rewards on every turn; the outcome is then the whole score.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0.5, 1.0, 0.0, 0.0])
        >>> mt_grpo(steps, form="segments", scale="none").values.tolist()
        [0.75, 0.5, -0.75, -0.5]
        >>> mt_grpo(steps, scale="none").values.tolist()
        [1.0, 1.25, -1.0, -1.25]

    Args:
        steps: the table.
        coef: factor of the turn's own term.
        form: see above.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`; the published code has eps=1e-4.

    Returns:
        Advantages with the parts "outcome" and "turn", the latter before `coef`.

    Source: Zeng et al. 2025, arXiv 2505.11821, and its public code. Our reading: in
    "segments" an episode of one turn has an outcome and no tool reward in the statistics of the others.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_choice("form", form, Form)
    check_number("coef", coef, 0.0)

    def estimate(table: Steps) -> Advantages:
        paid = options.penalised_reward(table)
        episodes = Episodes.of(table, reward=paid)
        outcome, turn = (_turns if form == "turns" else _segments)(episodes, paid, options)
        return Advantages.of(table, outcome + coef * turn, {"outcome": outcome, "turn": turn}, episodes.counts)

    return without_copies(steps, estimate)


def _turns(episodes: Episodes, paid: Floats, options: GroupOptions) -> tuple[Floats, Floats]:
    """Outcome and turn term of every row under "turns"."""
    steps = episodes.steps
    turn = options.normalise(Groups(paid, compact(steps.task, positions(steps))))
    return options.normalise(episodes.groups)[episodes.member], turn


def _segments(episodes: Episodes, paid: Floats, options: GroupOptions) -> tuple[Floats, Floats]:
    """Outcome and turn term of every row under "segments": the first turn is the tool call, the rest the answer."""
    steps, member = episodes.steps, episodes.member
    answered_at_once = (episodes.turns == 1)[member]
    calls = (positions(steps) == 0) & ~answered_at_once
    tool = Episodes.of(steps, reward=np.where(calls, paid, 0.0))
    answer = Episodes.of(steps, reward=np.where(calls, 0.0, paid))
    together = options.normalise(episodes.groups)[member]
    outcome = np.where(answered_at_once, together, options.normalise(answer.groups)[member])
    return outcome, np.where(calls, options.normalise(tool.groups)[member], 0.0)
