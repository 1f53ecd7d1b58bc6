"""NGRPO: GRPO with an imaginary perfect episode in every group, so that all-failed groups get a signal."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, standardise
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Steps


def ngrpo(
    steps: Steps,
    *,
    max_reward: float = 1.0,
    extra: int = 1,
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's score normalised over the episodes of its task and an imaginary perfect one.

        A[i, t] = (E[i] - mean) / (std + eps)        over the task's E and `extra` times max_reward
        E[i] = sum over t of r[i, t]

    A group in which all failed gets equal negative advantages, where GRPO gives zero; a perfect group gets zero. The
    advantages of a group sum to at most zero.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[0.0, 0.0])
        >>> ngrpo(steps, eps=0.0).values.round(6).tolist()
        [-0.57735, -0.57735]

    Args:
        steps: the table.
        max_reward: the score of a perfect episode. A group with a higher score uses that instead; the report counts
            them as "above_max".
        extra: number of imaginary episodes, >= 1.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode". A group of one gives zero.

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
        normalised = standardise(groups, ddof=options.ddof, eps=options.eps)[: len(episodes)]
        report = {**episodes.counts, "above_max": float((episodes.score > max_reward).sum())}
        return episodes.advantages(np.where(episodes.alone, 0.0, normalised), report=report)

    return without_copies(steps, estimate)
