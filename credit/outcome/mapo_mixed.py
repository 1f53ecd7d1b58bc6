"""MAPO (mixed advantage): a z-score for uncertain outcomes, the relative deviation for nearly certain ones."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, standardise
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import GroupOptions, without_copies
from turncredit.credit.outcome.answers import THRESHOLD, share
from turncredit.credit.steps import Steps


def mapo_mixed(steps: Steps, *, threshold: float = THRESHOLD, ddof: int = 1, eps: float = 1e-6) -> Advantages:
    """Return a mix of the z-score of an episode's success and its deviation relative to the success rate.

        y = 1 if right, else 0        p = mean of y over the task        lam = 1 - 4 p (1 - p)
        A = (1 - lam) * (y - p) / (std of y + eps) + lam * (y - p) / p

    lam is 0 at a success rate of one half and approaches 1 toward 0 and 1. A task with equal outcomes and a group of
    one get zero.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 0])
        >>> mapo_mixed(steps, eps=0.0).values.round(4).tolist()
        [1.875, -0.625, -0.625, -0.625]

    Args:
        steps: the table.
        threshold: episodes with a higher score are right.
        ddof, eps: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" (the result), "deviation" and "percent", before mixing.

    Source: Huang et al. 2025, arXiv 2509.18849. Our reading: rewards are binary, and the standard deviation is that of
    a sample, as in GRPO.
    """
    options = GroupOptions(ddof=ddof, eps=eps)
    check_number("threshold", threshold)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        right = episodes.score > threshold
        groups = Groups(right.astype(np.float64), episodes.task)
        p = share(right, episodes.task)
        deviation = standardise(groups, ddof=options.ddof, eps=options.eps)
        percent = np.divide(groups.centred(), p, out=np.zeros(len(p)), where=p > 0.0)
        certainty = 1.0 - 4.0 * p * (1.0 - p)
        value = (1.0 - certainty) * deviation + certainty * percent
        return episodes.advantages(
            value, {"episode": value, "deviation": deviation, "percent": percent}, episodes.counts
        )

    return without_copies(steps, estimate)
