"""OPO: the outcome of an episode minus the length-weighted mean of its task."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Singleton, group_sums
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps, need


def opo(steps: Steps, *, singleton: Singleton = "zero", invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return the episode's score minus the length-weighted mean of its task, for all of its turns.

        A[i, t] = E[i] - sum of L[j] E[j] / sum of L[j]        over the trajectories j of one task
        E[i] = sum over t of r[i, t]        L[j] = number of trained tokens of j

    The gradient of an episode grows with its length, so weighting by length minimises the variance. The advantages of a
    group sum to zero over tokens, not over episodes.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[1.0, 0], tokens=[3, 1])
        >>> opo(steps).values.tolist()
        [0.25, -0.75]

    Args:
        steps: the table; needs `tokens`.
        singleton, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode", in units of reward. In a task without trained tokens each episode
        counts once.

    Source: Hao et al. 2025, arXiv 2505.23585. We differ in the group of one.
    """
    options = GroupOptions(scale="none", singleton=singleton, invalid_penalty=invalid_penalty)
    need(steps, "opo", "tokens")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        length = np.maximum(episodes.tokens, 0.0)
        silent = group_sums(episodes.task, length, len(episodes.groups.size)) == 0.0
        weight = np.where(silent[episodes.task], 1.0, length)
        by_token = Groups(episodes.score, episodes.task, weight, size_of_terms=episodes.size_of_terms)
        alone = episodes.score if options.singleton == "raw" else np.zeros(len(episodes))
        return episodes.advantages(np.where(episodes.alone, alone, by_token.centred()), report=episodes.counts)

    return without_copies(steps, estimate)
