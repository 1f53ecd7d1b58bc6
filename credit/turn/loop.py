"""LOOP: the outcome minus the mean of the other episodes, without episodes where that is almost zero."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Scale, Singleton
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps


def loop(
    steps: Steps,
    *,
    threshold: float = 0.01,
    scale: Scale = "none",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the outcome minus the mean outcome of the other episodes, and drop episodes where that is almost zero.

        E[i] = sum over t of r[i, t]
        A[i, t] = E[i] - mean of the others = n / (n - 1) * (E[i] - mean)        over (std + eps) with scale="std"
        keep[i, t] = |A[i, t]| >= threshold

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=[0, 1, 2], turn=[0] * 3, reward=[1.0, 0.0, 0.5])
        >>> result = loop(steps)
        >>> result.values.tolist(), result.keep.tolist()
        ([0.75, -0.75, 0.0], [True, True, False])

    Args:
        steps: the table.
        threshold: episodes with a smaller absolute advantage are dropped; 0 keeps all.
        scale: see `GroupOptions`; "mad" replaces the mean of the others by the median.
        singleton, ddof, eps, invalid_penalty: see `GroupOptions`; the published code refuses groups of one and has
            ddof=0.

    Returns:
        Advantages with the part "episode"; `keep` is False for dropped episodes, and the report has their share.

    Source: Chen et al. 2025, arXiv 2502.01600, after its public code.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    check_number("threshold", threshold, 0.0)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        size = episodes.groups.size[episodes.task]
        value = options.normalise(episodes.groups) * np.where(size > 1.0, size / np.maximum(size - 1.0, 1.0), 1.0)
        values = value[episodes.member]
        keep = np.abs(values) >= threshold
        dropped = float((np.abs(value) < threshold).mean())
        report = {**episodes.counts, "dropped": dropped}
        return Advantages.of(table, values, {"episode": values.copy()}, report, keep=keep)

    return without_copies(steps, estimate)
