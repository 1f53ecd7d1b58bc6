"""Rewards of length: an episode that says less, or plays fewer turns, earns more.

The length is the number of sampled tokens of an episode, or with unit="turns" of its turns.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from turncredit.credit.numerics import group_sums
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.steps import Floats, Steps
from turncredit.curriculum.reward_rules.outcomes import WIN, Outcomes

LengthUnit = Literal["tokens", "turns"]


def overlong(
    steps: Steps, *, limit: float = 20480.0, buffer: float = 4096.0, factor: float = 1.0, unit: LengthUnit = "tokens"
) -> Steps:
    """Return the table with a penalty for episodes that come near the limit of length.

        r - factor * clip((L - (limit - buffer)) / buffer, 0, 1)          -factor from the limit on

    Args:
        steps: the table; needs `tokens`.
        limit: length from which the penalty is `factor`.
        buffer: length before the limit over which it grows.
        factor: the largest penalty.
        unit: unit of the lengths.

    Source: Yu et al. 2025 (DAPO), arXiv 2503.14476, soft overlong punishment, equation 13. Only sampled tokens count,
    and an episode of several turns may be longer than the limit.
    """
    _check_unit(unit)
    check_number("limit", limit, 0.0, open_low=True)
    check_number("buffer", buffer, 0.0, limit, open_low=True)
    check_number("factor", factor, 0.0)
    episodes = Outcomes("overlong", steps)
    excess = episodes.length(unit) - (limit - buffer)
    return episodes.with_last(-factor * np.clip(excess / buffer, 0.0, 1.0))


def truncate(steps: Steps, *, limit: float = 4000.0, unit: LengthUnit = "tokens") -> Steps:
    """Return the table in which episodes that reach the limit of length earn nothing.

    Args:
        steps: the table; needs `tokens`.
        limit: length from which the outcome is 0.
        unit: of the lengths.

    Source: Liu et al. 2025 (DLER), arXiv 2510.15110: truncation as the only reward of length.
    """
    _check_unit(unit)
    check_number("limit", limit, 0.0, open_low=True)
    episodes = Outcomes("truncate", steps)
    return episodes.paid(np.where(episodes.length(unit) >= limit, 0.0, episodes.score))


def cosine(
    steps: Steps,
    *,
    limit: float = 4000.0,
    best: float = 1.0,
    worst: float = 0.5,
    wrong: float = -0.5,
    beyond: float = -0.5,
    win: float = WIN,
    unit: LengthUnit = "tokens",
) -> Steps:
    """Return the table in which won episodes earn more the shorter they are, and lost ones the longer they are.

        won:   worst + (best - worst) (1 + cos(pi L / limit)) / 2           best at 0, worst at the limit
        lost:  wrong (1 + cos(pi L / limit)) / 2                            wrong at 0, 0 at the limit
        L >= limit: beyond

    Args:
        steps: the table; needs `tokens`.
        limit: length from which `beyond` is earned.
        best: reward of a won episode of length 0.
        worst: reward of a won one just below the limit.
        wrong: reward of a lost one of length 0.
        beyond: reward from the limit on, won or lost; at 0, a lost episode would earn most by running into the limit.
        win: outcome from which an episode counts as won.
        unit: of the lengths.

    Source: Yeo et al. 2025, arXiv 2502.03373, whose curve this is; its numbers are 2, 1, -10, and -10 beyond. Ours: a
    won episode within the limit is never worth less than a lost one.
    """
    _check_unit(unit)
    check_number("limit", limit, 0.0, open_low=True)
    check_number("worst", worst, 0.0)
    check_number("best", best, worst)
    check_number("wrong", wrong, high=0.0)
    check_number("beyond", beyond, high=0.0)
    check_number("win", win)
    episodes = Outcomes("cosine", steps, win)
    length = episodes.length(unit)
    falling = (1.0 + np.cos(np.pi * np.minimum(length, limit) / limit)) / 2.0
    outcome = np.where(episodes.won, worst + (best - worst) * falling, wrong * falling)
    return episodes.paid(np.where(length >= limit, beyond, outcome))


def l_grpo(steps: Steps, *, win: float = WIN, unit: LengthUnit = "tokens") -> Steps:
    """Return the table in which groups with wins only are rewarded by their lengths; other groups are as they were.

        r = 1 - (L - L_min) / (L_max - L_min)          1 where all are of one length

    Args:
        steps: the table; needs `tokens`.
        win: outcome from which an episode counts as won.
        unit: of the lengths.

    Source: ConciseR, second stage; the form of the reward is our reading.
    """
    _check_unit(unit)
    check_number("win", win)
    episodes = Outcomes("l_grpo", steps, win)
    length = episodes.length(unit)
    low, high = episodes.extremes(length)
    width = high - low
    short = 1.0 - np.divide(length - low, width, out=np.zeros(len(length)), where=width > 0)
    return episodes.paid(np.where(episodes.wins() == episodes.size(), short, episodes.score))


def budget(
    steps: Steps,
    *,
    iteration: int,
    start: float = 256.0,
    decay: float = 0.9,
    every: int = 10,
    weight: float = 0.5,
    win: float = WIN,
    unit: LengthUnit = "tokens",
) -> Steps:
    """Return the table with a reward for lengths near a budget that shrinks during the run.

        B = max(1, start * decay^floor(iteration / every))
        r + weight * tri        tri = L / B up to B, then 1 - (L - B) / B, and 0 from 2 B

    Args:
        steps: the table; needs `tokens`.
        iteration: number of finished iterations.
        start: first budget.
        decay: factor of the budget.
        every: iterations between two budgets.
        weight: of the reward of length.
        win: outcome from which an episode counts as won; lost ones get no reward of length.
        unit: of the lengths.

    Source: Train Long, Think Short, arXiv 2508.08940, the budget by a note and the rest from memory. Ours: lost
    episodes get nothing for their length.
    """
    _check_unit(unit)
    check_number("start", start, 0.0, open_low=True)
    check_number("decay", decay, 0.0, 1.0, open_low=True)
    check_number("every", every, 1, whole=True)
    check_number("weight", weight, 0.0)
    check_number("win", win)
    episodes = Outcomes("budget", steps, win)
    share = episodes.length(unit) / max(1.0, start * decay ** (iteration // every))
    return episodes.with_last(np.where(episodes.won, weight * triangle(share), 0.0))


def triangle(share: Floats) -> Floats:
    """Return the reward of a length that is a share of the budget, float64 [J].

    >>> triangle(np.array([0.5, 1.0, 1.5, 3.0])).tolist()
    [0.5, 1.0, 0.5, 0.0]
    """
    return np.where(share <= 1.0, share, np.maximum(0.0, 2.0 - share))


def dylr(
    steps: Steps, *, limit: float = 4000.0, weight: float = 0.5, win: float = WIN, unit: LengthUnit = "tokens"
) -> Steps:
    """Return the table in which lost episodes are drawn to the mean length of the won ones of their group.

        lost:  r - weight/2 (1 + cos(pi L / T))   up to 2 T, and - weight from there
        T = mean length of the group's won episodes; `limit` without one

    Args:
        steps: the table; needs `tokens`.
        limit: target where no episode of the group won.
        weight: the largest penalty.
        win: outcome from which an episode counts as won.
        unit: of the lengths.

    Source: VL-Cogito (PCuRL), arXiv 2507.22607, dynamic length reward, as its code has it.
    """
    _check_unit(unit)
    check_number("limit", limit, 0.0, open_low=True)
    check_number("weight", weight, 0.0)
    check_number("win", win)
    episodes = Outcomes("dylr", steps, win)
    length = episodes.length(unit)
    total = group_sums(episodes.task, np.where(episodes.won, length, 0.0), episodes.groups)[episodes.task]
    wins = episodes.wins()
    target = np.where(wins > 0, total / np.maximum(wins, 1), limit)
    change = near(np.divide(length, target, out=np.full(len(length), 2.0), where=target > 0), weight)
    return episodes.with_last(np.where(episodes.won, 0.0, change))


def near(share: Floats, weight: float) -> Floats:
    """Return the penalty of a length that is a share of the target: 0 at the target, -weight at 0 and from twice it.

    >>> near(np.array([0.0, 0.5, 1.0, 1.5, 2.0, 9.0]), 0.5).round(6).tolist()
    [-0.5, -0.25, -0.0, -0.25, -0.5, -0.5]
    """
    return np.asarray(-weight / 2.0 * (1.0 + np.cos(np.pi * np.minimum(share, 2.0))))


def tldr(steps: Steps, *, weight: float = 0.5, unit: LengthUnit = "tokens") -> Steps:
    """Return the table with a penalty for episodes that are longer than their prompt allowed.

        r - weight * clip(L / B - 1, 0, 1)          B = the column `length_budget`

    Args:
        steps: the table; needs `tokens`, and `length_budget`, one number a trajectory.
        weight: the largest penalty, that of an episode of twice the budget and of longer ones.
        unit: of the lengths.

    Raises:
        BadTable: the budget differs within a trajectory.

    Source: TLDR; our reading of the abstract. Ours: the bound, since episodes have no limit of their own.
    """
    _check_unit(unit)
    check_number("weight", weight, 0.0)
    episodes = Outcomes("tldr", steps)
    allowed = episodes.of("length_budget")
    return episodes.with_last(-weight * np.clip(episodes.length(unit) / np.maximum(allowed, 1e-9) - 1.0, 0.0, 1.0))


def _check_unit(unit: str) -> None:
    check_choice("unit", unit, LengthUnit)
