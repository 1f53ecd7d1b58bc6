"""Rewarding the unlikely: right answers count more, the less likely they were under the policy."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, compact
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Ints, Steps, need

Likelihood = Literal["mean", "sum"]


def unlikely(
    steps: Steps,
    *,
    beta: float = 0.25,
    likelihood: Likelihood = "mean",
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return GRPO's advantage of scores that are reduced for likely answers.

        r'[i] = r[i] * (1 - beta * k[i] / G)        A = (r' - mean) / (std + eps)

    where k is the rank of the episode's log-probability among the G of its task, 0 for the least likely. Equal
    log-probabilities share the mean of their ranks. Scores <= 0 do not change.

    Args:
        steps: the table; needs `logprob`; with `tokens` turns are weighted by their number.
        beta: largest reduction of the reward, in [0, 1].
        likelihood: "mean" ranks by log-probability per token, "sum" by that of the whole episode (needs `tokens`).
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode".

    Source: He et al. 2025, arXiv 2506.02355. We differ in ties and in scores <= 0.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("beta", beta, 0.0, 1.0)
    check_choice("likelihood", likelihood, Likelihood)
    need(steps, "unlikely", "logprob", *(("tokens",) if likelihood == "sum" else ()))

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        likely = episodes.logprob * (episodes.tokens if likelihood == "sum" else 1.0)
        score = reshaped(episodes.score, likely, episodes.task, beta)
        groups = Groups(score, episodes.task, size_of_terms=episodes.size_of_terms)
        value = options.normalise(groups)
        return episodes.advantages(value, report=episodes.counts)

    return without_copies(steps, estimate)


def reshaped(score: Floats, logprob: Floats, task: Ints, beta: float = 0.25) -> Floats:
    """Return the scores, with positive ones reduced by the rank of their likelihood, float64 [J].

        >>> reshaped(np.array([1.0, 1.0]), np.array([-1.0, -2.0]), np.array([0, 0])).tolist()
        [0.875, 1.0]

    Args:
        score: float64 [J], in units of reward.
        logprob: float64 [J], used for ranking within groups, nats.
        task: compact int64 [J], the group of each trajectory.
        beta: see `unlikely`.
    """
    size = np.bincount(task)[task]
    return np.where(score > 0.0, score * (1.0 - beta * _ranks(logprob, task) / size), score)


def _ranks(value: Floats, task: Ints) -> Floats:
    """Rank of each value within its group, from 0, float64 [J]; equal values share the mean of their ranks."""
    order = np.lexsort((value, task))
    size = np.bincount(task)
    place = np.arange(len(order)) - (np.cumsum(size) - size)[task[order]]
    tie = compact(task, np.unique(value, return_inverse=True)[1].reshape(-1).astype(np.int64))
    return np.asarray((np.bincount(tie[order], weights=place) / np.bincount(tie))[tie], dtype=np.float64)
