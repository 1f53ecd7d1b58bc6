"""SEELE: as much of the plan is shown as makes half of the episodes win, found by a fit from round to round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from turncredit.credit.columns import Floats
from turncredit.credit.option_checks import check_number
from turncredit.curriculum.growth import Growth, MoreEpisodes, OpenGroup

Points = Sequence[tuple[float, float]]
"""(share of the plan that was shown, share of winners)."""

STEEPNESS, LOCATION, GUESSING = (0.1, 50.0), (-1.5, 0.5), (0.0, 0.95)
"""Bounds of k, m and b."""


def seele(group: OpenGroup, *, rounds: int = 4, target: float = 0.5, most: float = 0.75) -> Growth:
    """Play a group in rounds, each with the share of the plan at which a fit to the earlier ones expects a success.

        success at share h:  f(h) = b + (1 - b) / (1 + exp(-k (h + m)))
        next h:              f(h) = target,  h in [0, most];  0 where b >= target

    The first share is the one that the task's record holds, or `most` for a new task. All members are kept.

    At most size episodes in `rounds` rounds. Remembers `hint`, the share that the next group begins with.

    Args:
        group: the group so far.
        rounds: parts of the group.
        target: share of winners that is looked for.
        most: of the plan that is ever shown.

    Raises:
        BadOption: rounds < 1, or a target or share outside (0, 1].

    Source: arXiv 2509.06923 (SEELE); the bounds of the fit are ours. There, all steps of the solution but one are the
    most that is shown; a rule does not know how long a plan is. Not included: the likelihood of the hint in the loss.
    """
    check_number("rounds", rounds, 1, whole=True)
    check_number("target", target, 0, 0.99, open_low=True)
    check_number("most", most, 0, 1, open_low=True)
    share, points = _next_share(group, target, most)
    sizes = [len(part) for part in np.array_split(np.arange(group.size), min(rounds, group.size))]
    if group.round < len(sizes):
        return Growth((MoreEpisodes(sizes[group.round], plan=share),))
    return Growth(remember={"hint": share} if points else {})


def _next_share(group: OpenGroup, target: float, most: float) -> tuple[float, list[tuple[float, float]]]:
    """Return the share of the coming round, and what the earlier ones came to."""
    share = min(max(group.record.get("hint", most), 0.0), most)
    points: list[tuple[float, float]] = []
    for number in range(group.round):
        members = [member for member in group.members if member.round == number]
        if members:
            points.append((share, sum(member.won for member in members) / len(members)))
            share = min(max(share_for(target, *fit(points)), 0.0), most)
    return share, points


def share_for(target: float, k: float, m: float, b: float) -> float:
    """Return the share h at which f(h) is the target; 0 where b >= target.

    >>> round(share_for(0.5, 10, -0.5, 0.0), 4), round(share_for(0.5, 10, -0.5, 0.2), 4)
    (0.5, 0.4489)
    """
    return -m - math.log((1 - b) / (target - b) - 1) / k if b < target else 0.0


def fit(points: Points) -> tuple[float, float, float]:
    """Return the k, m and b for which f is closest to the points, by bounded least squares.

    With fewer than three different shares, k = 10 and b = 0, and f goes through the last point, with its success in
    [0.02, 0.98].

    b is exact for each k and m, since f is linear in it; k and m are searched from several starts.

    >>> k, m, b = fit([(h, 0.2 + 0.8 / (1 + math.exp(-8 * (h - 0.4)))) for h in (0.1, 0.3, 0.5, 0.7)])
    >>> round(k, 3), round(m, 3), round(b, 3)
    (8.0, -0.4, 0.2)
    """
    if len({share for share, _ in points}) < 3:
        share, success = points[-1]
        success = min(max(success, 0.02), 0.98)
        return 10.0, min(max(math.log(success / (1 - success)) / 10 - share, LOCATION[0]), LOCATION[1]), 0.0
    shares, successes = np.array(points, dtype=np.float64).T
    fits = [_descend(start, shares, successes) for start in _starts(shares, successes)]
    log_k, m = min(fits)[1]
    return math.exp(log_k), m, float(_lost_and_guessed(np.array([log_k, m]), shares, successes)[1])


LOW, HIGH = np.array([math.log(STEEPNESS[0]), LOCATION[0]]), np.array([math.log(STEEPNESS[1]), LOCATION[1]])
"""Bounds of log k and m."""


def _starts(shares: Floats, successes: Floats, count: int = 8) -> list[Floats]:
    """Return the best cells of a grid that are no worse than the cells around them: the error has several minima."""
    axes = np.linspace(LOW[0], HIGH[0], 48), np.linspace(LOW[1], HIGH[1], 160)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    errors = np.square(_residual(grid, shares, successes)).sum(axis=-1)
    around = sliding_window_view(np.pad(errors, 1, constant_values=np.inf), (3, 3)).min(axis=(2, 3))
    valleys = np.flatnonzero(errors <= around)
    return list(grid.reshape(-1, 2)[valleys[np.argsort(errors.ravel()[valleys])[:count]]])


def _descend(start: Floats, shares: Floats, successes: Floats) -> tuple[float, tuple[float, float]]:
    """Return the smallest squared error near a start, with its log k and m (Levenberg and Marquardt, inside bounds)."""
    point, damping = start, 1e-3
    residual = _residual(point, shares, successes)
    for _ in range(60):
        steps = np.where(point + _STEP > HIGH, -_STEP, _STEP)
        moved = _residual(point + np.diag(steps), shares, successes)
        jacobian = ((moved - residual) / steps[:, None]).T
        slope = jacobian.T @ residual
        free = ~(((point <= LOW) & (slope > 0)) | ((point >= HIGH) & (slope < 0)))
        curve = jacobian.T @ jacobian
        curve += np.diag(damping * np.diag(curve) + np.where(free, 1e-12, 1e12))
        trial = np.clip(point - np.linalg.solve(curve, slope), LOW, HIGH)
        other = _residual(trial, shares, successes)
        gain = residual @ residual - other @ other
        better = gain > 0
        point, residual = (trial, other) if better else (point, residual)
        damping = damping / 4 if better else damping * 4
        if damping > 1e9 or 0 < gain < 1e-12:
            break
    return float(residual @ residual), (float(point[0]), float(point[1]))


_STEP = 1e-6


def _residual(points: Floats, shares: Floats, successes: Floats) -> Floats:
    """Return success - f(share) for log k and m in the last axis, with the best b."""
    lost, b = _lost_and_guessed(points, shares, successes)
    residual: Floats = successes - 1 + (1 - b)[..., None] * lost
    return residual


def _lost_and_guessed(points: Floats, shares: Floats, successes: Floats) -> tuple[Floats, Floats]:
    """Return 1 - f without guessing at each share, and the b with the smallest squared error."""
    lost = 1 / (1 + np.exp(np.exp(points[..., :1]) * (shares + points[..., 1:])))
    above = successes - 1 + lost
    return lost, np.clip((lost * above).sum(axis=-1) / np.maximum((lost**2).sum(axis=-1), 1e-300), *GUESSING)
