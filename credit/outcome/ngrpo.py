"""NGRPO: GRPO with one more, perfect episode imagined in every group, so that a group of failures is pushed away.

Left out on purpose: the asymmetric clipping that the paper has with it (0.16 below, 0.24 above); it belongs to
training.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, check_number, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Steps


def ngrpo(
    steps: Steps,
    *,
    max_reward: float = 1.0,
    extra: int = 1,
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's standing among the episodes of its task and a perfect one, the same for all of its turns.

        A[i, t] = (E[i] - mean) / (std + eps)        over the task's E and `extra` times max_reward
        E[i] = sum over t of r[i, t]

    A group in which all failed gets equal negative advantages, where GRPO learns nothing; one in which all were perfect
    gets zero. Winners of an easy task count less than under GRPO, and a group's advantages sum to less than zero.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[0.0, 0.0])
        >>> ngrpo(steps, eps=0.0).values.round(6).tolist()
        [-0.57735, -0.57735]

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty.
        max_reward: the score of a perfect episode. A group with a better score takes that one in its place; the report
            counts such scores as "above_max".
        extra: how many perfect episodes are imagined, at least 1.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward, taken from its turn's reward.

    Returns:
        Advantages with the part "episode". A group of one gives zero.

    Raises:
        BadOption: an option has an impossible value.

    Source: Nan et al. 2025, arXiv 2509.18851. We differ in the group of one, and where a score exceeds max_reward.
    """
    options = GroupOptions(ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("max_reward", max_reward, -1e100, 1e100)
    check_number("extra", extra, 1, whole=True)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        count = len(episodes.groups.size)
        perfect = np.full(count, float(max_reward))
        np.maximum.at(perfect, episodes.task, episodes.score)
        groups = Groups(
            np.append(episodes.score, perfect),
            np.append(episodes.task, np.arange(count)),
            np.append(np.ones(len(episodes)), np.full(count, float(extra))),
            size_of_terms=np.append(episodes.size_of_terms, np.abs(perfect)),
        )
        standing = standardise(groups, ddof=options.ddof, eps=options.eps)[: len(episodes)]
        report = {**episodes.counts, "above_max": float((episodes.score > max_reward).sum())}
        return episodes.advantages(np.where(episodes.alone, 0.0, standing), report=report)

    return without_copies(steps, estimate)
