"""The outcome of an episode relative to the policy's own episodes, where other models played some: AMPO and RL-PLUS."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, groups_of
from turncredit.credit.option_checks import check_choice
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Bools, Steps, need


def taught(
    steps: Steps,
    *,
    scale: Scale = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's score less the mean of the policy's episodes of its task, over their spread.

        A[i, t] = (E[i] - mean) / (std + eps)        mean and std over the episodes of the task with source = 0
        A[i, t] = E[i] - mean                        where these have no spread, or with scale = "none"

    A task without an episode of the policy gets 0.

        >>> steps = Steps.from_columns(task=[0] * 3, trajectory=range(3), turn=[0] * 3, reward=[0.0, 0.0, 1.0],
        ...                            source=[0, 0, 2])
        >>> taught(steps).values.tolist()
        [0.0, 0.0, 1.0]

    Args:
        steps: the table; needs `source`, constant within a trajectory: 0 for an episode of the policy.
        scale, ddof, eps, invalid_penalty: see `GroupOptions`; "mad" divides by the median absolute deviation.

    Returns:
        Advantages with the part "episode".

    Source: Yuan et al. 2025 (AMPO), arXiv 2510.02227, and its code; with scale = "none" Dong et al. 2025 (RL-PLUS),
    arXiv 2508.00222, and its code.
    """
    options = GroupOptions(scale, "trajectory", "zero", ddof, eps, invalid_penalty)
    check_choice("scale", scale, Scale)
    need(steps, "taught", "source")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        own: Bools = np.asarray(episodes.of_trajectory("taught", "source") == 0, dtype=np.bool_)
        count = groups_of(episodes.task)
        centre, unit, present = np.zeros(count), np.ones(count), np.zeros(count, dtype=np.bool_)
        if own.any():
            tasks, code = np.unique(episodes.task[own], return_inverse=True)
            groups = Groups(episodes.score[own], code.astype(np.int64), size_of_terms=episodes.size_of_terms[own])
            spread = groups.median_deviation() if scale == "mad" else groups.deviation(ddof)
            centre[tasks], present[tasks] = groups.centre("median" if scale == "mad" else "mean"), True
            if scale != "none":
                unit[tasks] = np.where(spread > 0.0, spread + eps, 1.0)
        values = np.where(present[episodes.task], (episodes.score - centre[episodes.task]) / unit[episodes.task], 0.0)
        return episodes.advantages(values, report=episodes.counts)

    return without_copies(steps, estimate)
