"""MT-GRPO: the outcome of the episode plus the standing of the turn's own reward.

Left out on purpose: the rewards themselves (a tool call that ran, a search that found the answer); the environment
pays them turn by turn.
"""

from typing import Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, Scale, Singleton, check_choice, check_number, compact, positions
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Floats, Steps

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
    """Return the standing of the episode within its task, plus that of the turn's reward among the same turns.

        turns:     A[i, t] = norm(sum over t of r[i, t]) + coef * norm(r[i, t] over the trajectories that reached t)
        segments:  A[i, 0] = norm(o[i]) + coef * norm(r[i, 0])        o[i] = sum over t > 0 of r[i, t]
                   A[i, t] = norm(o[i])                               for t > 0
                   A[i, 0] = norm(sum over t of r[i, t])              for a trajectory of one turn
        norm(x) = (x - mean) / (std + eps)

    "segments" is the published form: what comes up to the first tool result is credited with its own reward and the
    outcome, what comes after with the outcome alone, and an episode without a tool result with everything together.
    "turns" is its general form, in which every turn may be paid; the outcome is then the whole score.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=["a", "a", "b", "b"], turn=[0, 1, 0, 1],
        ...                            reward=[0.5, 1.0, 0.0, 0.0])
        >>> mt_grpo(steps, form="segments", scale="none").values.tolist()
        [0.75, 0.5, -0.75, -0.5]
        >>> mt_grpo(steps, scale="none").values.tolist()
        [1.0, 1.25, -1.0, -1.25]

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty.
        coef: factor of the turn's own term.
        form: see above.
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation).
        singleton: a group of one gives "zero" or its "raw" value.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread (the published code has 1e-4).
        invalid_penalty: what an invalid action costs, in units of reward, taken from that turn's reward.

    Returns:
        Advantages with the parts "outcome" and "turn", the latter before `coef`.

    Raises:
        BadOption: an option has an impossible value.

    Source: Zeng et al. 2025, arXiv 2505.11821, and its public code. Our reading: a table has one reward a turn, so that
    in "segments" an episode of one turn counts as all outcome and no tool reward in the statistics of the others.
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
    """Outcome and turn term of every row where all turns may be paid."""
    steps = episodes.steps
    turn = options.normalise(Groups(paid, compact(steps.task, positions(steps))))
    return options.normalise(episodes.groups)[episodes.member], turn


def _segments(episodes: Episodes, paid: Floats, options: GroupOptions) -> tuple[Floats, Floats]:
    """Outcome and turn term of every row where the first turn is the tool call and the rest the answer."""
    steps, member = episodes.steps, episodes.member
    answered_at_once = (episodes.turns == 1)[member]
    calls = (positions(steps) == 0) & ~answered_at_once
    tool = Episodes.of(steps, reward=np.where(calls, paid, 0.0))
    answer = Episodes.of(steps, reward=np.where(calls, 0.0, paid))
    together = options.normalise(episodes.groups)[member]
    outcome = np.where(answered_at_once, together, options.normalise(answer.groups)[member])
    return outcome, np.where(calls, options.normalise(tool.groups)[member], 0.0)
