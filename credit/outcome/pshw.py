"""PSHW: won or lost relative to the task's success rate, with more weight on hard tasks."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import without_copies
from turncredit.credit.outcome.answers import THRESHOLD
from turncredit.credit.steps import Steps


def pshw(steps: Steps, *, slope: float = 0.256, threshold: float = THRESHOLD) -> Advantages:
    """Return 1 or -1 for a right or wrong episode, minus the task's mean, times a weight that grows with difficulty.

        A[i, t] = (x[i] - m) (1 + slope (1 - m))        x[i] = 1 if right, else -1        m = mean of x over the task

    There is no division by the spread. A task that was always or never solved gets zero, as does a group of one.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 0])
        >>> pshw(steps).values.round(3).tolist()
        [2.076, -0.692, -0.692, -0.692]

    Args:
        steps: the table.
        slope: by how much a task of success rate 1/2 weighs more than one that is always solved; twice as much for one
            that never is.
        threshold: episodes with a higher score are right.

    Returns:
        Advantages with the part "episode"; the report has the share of right episodes.

    Source: Wu et al. 2025 (Confucius3-Math), arXiv 2506.18330, policy-specific hardness weighting.
    """
    check_number("slope", slope, 0.0)
    check_number("threshold", threshold)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        right = episodes.score > threshold
        answers = Groups(np.where(right, 1.0, -1.0), episodes.task)
        weight = 1.0 + slope * (1.0 - answers.centre())
        value = answers.centred() * weight[episodes.task]
        return episodes.advantages(value, report={**episodes.counts, "correct": float(right.mean())})

    return without_copies(steps, estimate)
