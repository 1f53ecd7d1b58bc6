"""RLOO: the outcome of an episode against the mean of the other episodes of its task.

Left out on purpose: the KL term that the paper puts into the reward; it belongs to training.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Singleton, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps


def rloo(steps: Steps, *, singleton: Singleton = "zero", invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return how much better an episode did than the others of its task did on average, the same for all of its turns.

        A[i, t] = E[i] - mean of E over the others = n / (n - 1) * (E[i] - mean of E over all n)
        E[i] = sum over t of r[i, t]

    An episode is left out of its own baseline, which makes the gradient unbiased.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=["a", "b", "c"], turn=[0, 0, 0], reward=[3.0, 0, 0])
        >>> rloo(steps).values.tolist()
        [3.0, -1.5, -1.5]

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty.
        singleton: a group of one, which has no others, gives "zero" or its "raw" score.
        invalid_penalty: what an invalid action costs, in units of reward, taken from its turn's reward.

    Returns:
        Advantages with the part "episode", in units of reward.

    Raises:
        BadOption: an option has an impossible value.

    Source: Kool et al. 2019; for language models Ahmadian et al. 2024, arXiv 2402.14740. Public trainers disagree on
    the group of one; singleton="raw" is the older of their ways.
    """
    options = GroupOptions(scale="none", singleton=singleton, invalid_penalty=invalid_penalty)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        others = np.maximum(episodes.groups.size - 1.0, 1.0)
        ratio = np.where(episodes.groups.size > 1.0, episodes.groups.size / others, 1.0)
        value = ratio[episodes.task] * standardise(episodes.groups, scale="none", singleton=options.singleton)
        return episodes.advantages(value, report=episodes.counts)

    return without_copies(steps, estimate)
