"""CANON: compare an episode with the other half of its group by a metric, and with its own half."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadTable
from turncredit.credit.numerics import Groups, Singleton, compact
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Steps, need

Side = Literal["high", "low"]


def canon(
    steps: Steps,
    *,
    mu: float = 0.5,
    alpha: float = 1.0,
    beta: float = 0.0,
    alpha_on: Side = "high",
    singleton: Singleton = "zero",
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return a mix of the episode's score relative to the other half of its task and relative to its own half.

    A task's n episodes are sorted by a metric; the first floor(n / 2) are the low half, the rest the high half.

        inter = r - mean of the other half        intra = r - mean of the own half
        A = mu * inter + (1 - mu) * intra

    With mu = 0.5 and halves of equal size this is r minus the mean of the task. Episodes with equal metrics at the
    boundary belong to both halves with equal shares, so that the order of rows has no effect. In inter, the rewards of
    the chosen half are multiplied by alpha, and beta is added to those of the high half.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 1, 1],
        ...                            metric=[0.4, 0.1, 0.3, 0.2])
        >>> canon(steps, mu=1.0).values.tolist()
        [0.5, -1.0, 0.5, 0.0]

    Args:
        steps: the table; needs `metric`, one number per trajectory (such as its mean entropy), or else `tokens`: the
            default metric is the trajectory's length.
        mu: weight of inter, in [0, 1]; 1 in the published code.
        alpha: factor of the chosen half's rewards in inter.
        beta: added to the high half's rewards in inter.
        alpha_on: the chosen half: "high" (as published for lengths) or "low" (as published for entropy).
        singleton, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" (the result), "inter" and "intra".

    Raises:
        BadTable: `metric` differs within a trajectory or holds several numbers.

    Source: Chen et al. 2025, arXiv 2509.23962. We differ in ties and in the group of one.
    """
    options = GroupOptions(singleton=singleton, invalid_penalty=invalid_penalty)
    check_number("mu", mu, 0.0, 1.0)
    check_number("alpha", alpha, 0.0)
    check_number("beta", beta)
    check_choice("alpha_on", alpha_on, Side)
    need(steps, "canon")
    if "metric" not in steps:
        need(steps, "canon", "tokens")
    factors = (1.0, float(alpha)) if alpha_on == "high" else (float(alpha), 1.0)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        low = low_share(episodes, metric_of(episodes, "canon"))
        inter, intra = _comparisons(episodes, low, factors, float(beta))
        raw = episodes.score if singleton == "raw" else np.zeros(len(episodes))
        value = np.where(episodes.alone, raw, mu * inter + (1.0 - mu) * intra)
        return episodes.advantages(value, {"episode": value, "inter": inter, "intra": intra}, episodes.counts)

    return without_copies(steps, estimate)


def metric_of(episodes: Episodes, method: str) -> Floats:
    """Return the metric of each trajectory, float64 [J]: the column `metric`, or else its number of tokens.

    Args:
        episodes: the trajectories.
        method: name of the rule, for messages.

    Raises:
        BadTable: `metric` differs within a trajectory or holds several numbers.
    """
    if "metric" not in episodes.steps:
        return episodes.tokens
    metric = np.asarray(episodes.of_trajectory(method, "metric"), dtype=np.float64)
    if metric.ndim == 2 and metric.shape[1] != 1:
        raise BadTable(f"{method} expects one number per row in 'metric', got {metric.shape[1]}")
    return metric.reshape(len(episodes))


def low_share(episodes: Episodes, metric: Floats) -> Floats:
    """Return the share with which each trajectory belongs to the low half of its task, float64 [J] in [0, 1].

    Args:
        episodes: the trajectories.
        metric: float64 [J], by which they are sorted; equal values share their ranks.
    """
    order = np.lexsort((metric, episodes.task))
    size = np.bincount(episodes.task)
    place = np.arange(len(order)) - (np.cumsum(size) - size)[episodes.task[order]]
    level = compact(episodes.task, np.unique(metric, return_inverse=True)[1].reshape(-1).astype(np.int64))
    first = np.full(len(np.bincount(level)), len(order), dtype=np.int64)
    np.minimum.at(first, level[order], place)
    ties = np.bincount(level)[level]
    return np.asarray(np.clip(size[episodes.task] // 2 - first[level], 0, ties) / ties, dtype=np.float64)


def _comparisons(episodes: Episodes, low: Floats, factors: tuple[float, float], beta: float) -> tuple[Floats, Floats]:
    """Inter and intra, float64 [J] each; zero for a group of one. Factors are those of the low and the high half."""
    alone, score, terms = episodes.alone, episodes.score, episodes.size_of_terms
    from_low = Groups(score, episodes.task, np.where(alone, 1.0, low), size_of_terms=terms).centred()
    from_high = Groups(score, episodes.task, 1.0 - np.where(alone, 0.0, low), size_of_terms=terms).centred()
    by_low, by_high = factors
    as_high = by_low * from_low + (by_high - by_low) * score + beta
    as_low = by_high * from_high + (by_low - by_high) * score - beta
    inter = np.where(alone, 0.0, (1.0 - low) * as_high + low * as_low)
    return inter, low * from_low + (1.0 - low) * from_high
