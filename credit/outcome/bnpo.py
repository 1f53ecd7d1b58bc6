"""BNPO: the outcome minus the mean of its task, divided by a Beta density fitted to the tasks' success rates."""

import math

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption, BadTable
from turncredit.credit.numerics import Groups
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Floats, Steps


def bnpo(
    steps: Steps,
    *,
    low: float | None = None,
    high: float | None = None,
    weight_max: float = 1e6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's score minus its task's mean, weighted by how rare tasks of that mean are in the batch.

        x[i] = (E[i] - low) / (high - low)        p = mean of x over the task        E[i] = sum over t of r[i, t]
        A[i, t] = min(1 / Beta(p; alpha, beta), weight_max) * (x[i] - p)
        alpha = max(1 + a / 3, 1)                 a = (m (1 - m) / v - 1) m
        beta  = max(1 + b / 3, 1)                 b = (m (1 - m) / v - 1) (1 - m)
        m, v: mean and variance (over n - 1) of p over the tasks of the batch

    The density is that of the batch, so groups depend on each other. A batch of one group, or one in which all tasks
    have the same mean, has weights of 1.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 0])
        >>> bnpo(steps).values.tolist()
        [0.75, -0.25, -0.25, -0.25]

    Args:
        steps: the table.
        low, high: the scores that map to 0 and 1, in units of reward; None takes the batch's lowest and highest. Set
            both for graded rewards, so that the scale does not depend on the batch.
        weight_max: the largest weight.
        invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode", in units of high - low. A group of one gives zero and does not enter m and
        v. The report has "alpha" and "beta".

    Raises:
        BadOption: high <= low.
        BadTable: low and high are given, and the mean of a task is outside.

    Source: Xiao et al. 2025, arXiv 2506.02864. We differ in the group of one, and in
    batches of equal means, where the published parameters are infinite.
    """
    options = GroupOptions(invalid_penalty=invalid_penalty)
    for name, bound in (("low", low), ("high", high)):
        if bound is not None:
            check_number(name, bound, -1e100, 1e100)
    if low is not None and high is not None and not low < high:
        raise BadOption(f"high must be > low, got low={low!r}, high={high!r}")
    check_number("weight_max", weight_max, 0.0, 1e100)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        groups, width = _to_unit(episodes, low, high)
        rate = groups.centre()
        alpha, beta = _fitted(rate[groups.size > 1.0])
        value = _weights(rate, alpha, beta, weight_max)[episodes.task] * groups.centred()
        return episodes.advantages(value, report={**episodes.counts, "alpha": alpha, "beta": beta, "width": width})

    return without_copies(steps, estimate)


def _to_unit(episodes: Episodes, low: float | None, high: float | None) -> tuple[Groups, float]:
    """The scores on the scale where low is 0 and high is 1, by task, and high - low."""
    score = episodes.score
    bottom = float(score.min(initial=np.inf)) if low is None else float(low)
    top = float(score.max(initial=-np.inf)) if high is None else float(high)
    width = top - bottom if top > bottom and len(score) else 1.0
    groups = Groups(score, episodes.task, size_of_terms=episodes.size_of_terms)
    mean = groups.centre()
    slack = 1e-9 * max(abs(bottom), abs(top), 1.0) if len(score) else 0.0
    if ((mean < bottom - slack) | (mean > top + slack)).any():
        raise BadTable(
            f"bnpo expects mean scores in [low, high] = [{bottom:g}, {top:g}], got "
            f"{mean[(mean < bottom - slack) | (mean > top + slack)][0]:g}; set low and high to the bounds of the scores"
        )
    terms = (episodes.size_of_terms + abs(bottom)) / width if len(score) else score
    return Groups((score - bottom) / width, episodes.task, size_of_terms=terms), width


def _fitted(rate: Floats) -> tuple[float, float]:
    """The parameters of the density; 1 and 1 (uniform) where they are undefined."""
    tasks = Groups(rate, np.zeros(len(rate), dtype=np.int64))
    if not len(rate) or tasks.flat[0]:
        return 1.0, 1.0
    mean, variance = float(tasks.centre()[0]), float(tasks.deviation(1)[0]) ** 2
    scale = mean * (1.0 - mean) / variance - 1.0
    return max(1.0 + scale * mean / 3.0, 1.0), max(1.0 + scale * (1.0 - mean) / 3.0, 1.0)


def _weights(rate: Floats, alpha: float, beta: float, weight_max: float) -> Floats:
    inside = np.clip(rate, 1e-300, 1.0 - 1e-16)  # at 0 and 1 the distances are zero anyway
    constant = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    log_density = (alpha - 1.0) * np.log(inside) + (beta - 1.0) * np.log1p(-inside) + constant
    largest = math.log(weight_max) if weight_max > 0.0 else -np.inf
    return np.exp(np.minimum(-log_density, largest))
