"""Pass@k training: credit for the best episode of a group only, by its lead over the second best."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import ROUNDING
from turncredit.credit.option_checks import check_choice
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Steps

Spread = Literal["std", "none"]


def passk(
    steps: Steps, *, scale: Spread = "std", ddof: int = 1, eps: float = 1e-6, invalid_penalty: float = INVALID_PENALTY
) -> Advantages:
    """Return the lead of each task's best episode over the second best, and zero for every other episode.

        A[best] = (E[best] - E[second best]) / (std + eps)        A[others] = 0

    where std is over the task's episodes. Two best episodes with equal scores and a group of one get zero.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=[0, 1, 2], turn=[0] * 3, reward=[0.0, 3.0, 1.0])
        >>> passk(steps, scale="none").values.tolist()
        [0.0, 2.0, 0.0]

    Args:
        steps: the table.
        scale: "std" divides by the standard deviation of the task's scores, "none" does not scale.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode".

    Source: Tang et al. 2025, arXiv 2503.19595. We differ in the group of one, which the published code does not accept.
    """
    check_choice("scale", scale, Spread)
    options = GroupOptions(scale=scale, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        spread = episodes.groups.deviation(ddof) if scale == "std" else np.ones(len(episodes.groups.size))
        return episodes.advantages(_leads(episodes, spread + (eps if scale == "std" else 0.0)), report=episodes.counts)

    return without_copies(steps, estimate)


def _leads(episodes: Episodes, denominator: Floats) -> Floats:
    """Lead of the best over the second best, float64 [J]; zero where it is rounding noise."""
    order = np.lexsort((episodes.score, episodes.task))
    best = np.cumsum(np.bincount(episodes.task)) - 1  # the last place of each group, in this order
    winner, second = order[best], order[np.maximum(best - 1, 0)]
    lead = episodes.score[winner] - episodes.score[second]
    noise = ROUNDING * np.maximum(episodes.size_of_terms[winner], episodes.size_of_terms[second])
    real = (lead > noise) & (episodes.groups.size > 1.0)
    value = np.zeros(len(episodes))
    value[winner[real]] = lead[real] / np.maximum(denominator[real], np.finfo(np.float64).tiny)
    return value
