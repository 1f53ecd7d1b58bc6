"""HAPO's token-level group average: outcomes normalised within a task with tokens as weights."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, group_sums, standardise
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Bools, Floats, Steps, need


def hapo(
    steps: Steps,
    *,
    fallback_at: float = 5.0,
    ddof: int = 0,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's score normalised over the tokens of its task, or over its episodes where that is extreme.

        A = (E - mean) / (std + eps)        mean and std over the task's tokens, each with the score of its episode

    If any |A| of a task reaches `fallback_at`, the whole task gets GRPO's advantage (over episodes, with ddof=1).

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[1.0, 0], tokens=[3, 1])
        >>> hapo(steps).values.round(4).tolist()
        [0.5773, -1.732]

    Args:
        steps: the table; needs `tokens`.
        fallback_at: size of an advantage that makes the task fall back.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode"; the report counts the tasks that fell back. A group of one gives zero.

    Source: Liu et al. 2025, arXiv 2509.16591. The published code also tests padding for extreme advantages, so that its
    results depend on the longest answer of the batch; we test tokens only.
    """
    options = GroupOptions(ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("fallback_at", fallback_at, 0.0)
    need(steps, "hapo", "tokens")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        weight = token_weights(episodes)
        by_token = Groups(episodes.score, episodes.task, weight, size_of_terms=episodes.size_of_terms)
        average = standardise(by_token, ddof=ddof, eps=eps)
        extreme = _extreme(average, weight, episodes, fallback_at)
        value = np.where(extreme[episodes.task], standardise(episodes.groups, eps=eps), average)
        report = {**episodes.counts, "tasks_that_fell_back": float(extreme.sum())}
        return episodes.advantages(value, report=report)

    return without_copies(steps, estimate)


def token_weights(episodes: Episodes) -> Floats:
    """Return the number of tokens of each trajectory, float64 [J], or 1 in a task without any tokens.

    Args:
        episodes: the trajectories of a table with `tokens`.
    """
    tokens = np.maximum(episodes.tokens, 0.0)
    silent = group_sums(episodes.task, tokens, len(episodes.groups.size)) == 0.0
    return np.where(silent[episodes.task], 1.0, tokens)


def _extreme(average: Floats, weight: Floats, episodes: Episodes, limit: float) -> Bools:
    """Whether any token of a task has an advantage of the limit's size, bool [tasks]."""
    largest = np.zeros(len(episodes.groups.size))
    np.maximum.at(largest, episodes.task, np.where(weight > 0.0, np.abs(average), 0.0))
    return np.asarray(largest >= limit, dtype=np.bool_)
