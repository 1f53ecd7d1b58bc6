"""CANON: compare an episode with those on the other side of a metric, and with those on its own side.

Left out on purpose: the published code's division by a constant length, which is an aggregation of the loss, and its
schedules of mu, which a caller can follow by changing the option.
"""

from typing import Literal

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, Singleton, check_choice, check_number, compact
from turnwise.credit.episodes import Episodes
from turnwise.credit.errors import BadTable
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Floats, Steps, need

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
    """Return a mixture of the episode's standing against the other half of its task and within its own half.

    A task's n episodes are sorted by a metric; the first floor(n / 2) are the low half, the rest the high half.

        inter = r - mean of the other half        intra = r - mean of the own half
        A = mu * inter + (1 - mu) * intra

    With mu = 0.5 and halves of one size this is r less the mean of the task. Episodes with equal metrics at the border
    belong to both halves in part, with the same share each, so that no order of rows decides between them. If alpha and
    beta differ from 1 and 0, inter compares rewards of which those of the chosen half are multiplied by alpha, and
    those of the high half have beta added.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 1, 1],
        ...                            metric=[0.4, 0.1, 0.3, 0.2])
        >>> canon(steps, mu=1.0).values.tolist()
        [0.5, -1.0, 0.5, 0.0]

    Args:
        steps: the table; needs `metric`, one number that is the same in all rows of a trajectory (its mean entropy,
            say), or else `tokens`: without a metric the trajectory's length is the metric.
        mu: weight [0, 1] of the comparison with the other half. The published code's default is 1.
        alpha: factor of the chosen half's rewards in inter.
        beta: added to the high half's rewards in inter.
        alpha_on: the chosen half: "high" (as published for lengths) or "low" (as published for entropy).
        singleton: a group of one gives "zero" or its "raw" score.
        invalid_penalty: what an invalid action costs, taken from that turn's reward.

    Returns:
        Advantages with the parts "episode" (the result), "inter" and "intra".

    Raises:
        MissingColumn: there is neither `metric` nor `tokens`.
        BadTable: `metric` differs within a trajectory or holds several numbers.
        BadOption: an option has an impossible value.

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
    """Return the number by which a method sorts trajectories, float64 [J]: the column `metric`, else their tokens.

    Args:
        episodes: the trajectories.
        method: name of the estimator, for a message.

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
    """Return how far each trajectory belongs to the low half of its task, float64 [J] from 0 to 1.

    Args:
        episodes: the trajectories.
        metric: float64 [J], by which they are sorted; equal ones share the places that they take.
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
