"""RLOO: the outcome of an episode minus the mean of the other episodes of its task."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Singleton, standardise
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps


def rloo(steps: Steps, *, singleton: Singleton = "zero", invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return the episode's score minus the mean of the others of its task, for all of its turns.

        A[i, t] = E[i] - mean of E over the others = n / (n - 1) * (E[i] - mean of E over all n)
        E[i] = sum over t of r[i, t]

    An episode is not in its own baseline, so the gradient is unbiased.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "c"], turn=[0, 0, 0], reward=[3.0, 0, 0])
        >>> rloo(steps).values.tolist()
        [3.0, -1.5, -1.5]

    Args:
        steps: the table.
        singleton, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode", in units of reward.

    Source: Kool et al. 2019; for language models Ahmadian et al. 2024, arXiv 2402.14740. Public trainers differ in
    the group of one.
    """
    options = GroupOptions(scale="none", singleton=singleton, invalid_penalty=invalid_penalty)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        others = np.maximum(episodes.groups.size - 1.0, 1.0)
        ratio = np.where(episodes.groups.size > 1.0, episodes.groups.size / others, 1.0)
        value = ratio[episodes.task] * standardise(episodes.groups, scale="none", singleton=options.singleton)
        return episodes.advantages(value, report=episodes.counts)

    return without_copies(steps, estimate)
