"""Lite PPO: the outcome minus the mean of its task, scaled by the spread over all episodes of the batch."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps


def lite_ppo(steps: Steps, *, ddof: int = 1, eps: float = 1e-6, invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return the episode's score minus the mean of its task, in units of the spread over the whole batch.

        A[i, t] = (E[i] - mean) / (std + eps)        E[i] = sum over t of r[i, t]

    with the mean over the task's trajectories, and std over those of the batch, so that groups depend on each other. A
    group of one gets zero, and counts in std.

        >>> rewards = [1.0, 0.0, 1.0, 1.0]
        >>> steps = Steps.from_columns(task=list("ttuu"), trajectory=range(4), turn=[0] * 4, reward=rewards)
        >>> lite_ppo(steps, eps=0.0).values.tolist()
        [1.0, -1.0, 0.0, 0.0]

    Args:
        steps: the table.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode"; the report has the "spread".

    Source: Liu et al. 2025, arXiv 2508.08221, as in ROLL. There, the loss is PPO's with the aggregation token-mean.
    """
    options = GroupOptions(ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        whole = np.zeros(len(episodes), dtype=np.int64)
        batch = Groups(episodes.score, whole, size_of_terms=episodes.size_of_terms)
        spread = float(batch.deviation(options.ddof)[0])
        centred, width = episodes.groups.centred(), spread + options.eps
        value = centred / width if width > 0.0 else np.zeros(len(episodes))
        return episodes.advantages(value, report={**episodes.counts, "spread": spread})

    return without_copies(steps, estimate)
