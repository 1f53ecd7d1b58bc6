"""EVOL-RL: the majority's answer is the label, and novelty grades the answers on both sides of it."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton, compact, groups_of, standardise
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import GroupOptions, without_copies
from turncredit.credit.outcome.answers import THRESHOLD, majority
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need

By = Literal["majority", "score"]
_GRAIN = 2.0**40


def evol(
    steps: Steps,
    *,
    by: By = "majority",
    threshold: float = THRESHOLD,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Advantages:
    """Return GRPO's advantage of a reward for the majority's answer and for novel reasoning.

        r = 0.5 + 0.5 u on the majority's side, -1 + 0.5 u on the other, -1 without an answer
        u = novelty, stretched to [0, 1] within its side        A = (r - mean) / (std + eps)

    See `novelty_rewards` and `novelty`. The rewards of the table are only read under by="score".

    Args:
        steps: the table; needs `metric` and (for the majority) `label`, each constant within a trajectory. A
            `metric` of one number is the novelty; several numbers are an embedding from which it is computed. A
            trajectory whose last turn is not `valid` has no answer.
        by: "majority" treats the group's most frequent labels as right, "score" scores above the threshold.
        threshold: see `by`.
        scale, singleton, ddof, eps: see `GroupOptions`.

    Returns:
        Advantages with the part "episode"; the report has the share of right answers.

    Raises:
        BadTable: a column differs within a trajectory.

    Source: Zhou et al. 2025, arXiv 2509.15194. We differ in ties between answers, where the published code takes the
    first one, and in groups with one valid answer.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps)
    check_choice("by", by, By)
    check_number("threshold", threshold)
    need(steps, "evol", "metric", *(("label",) if by == "majority" else ()))

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        task, answered = episodes.task, _answered(episodes)
        if by == "majority":
            right = majority(task, np.asarray(episodes.of_trajectory("evol", "label")), answered)
        else:
            right = (episodes.score > threshold) & answered
        metric = np.asarray(episodes.of_trajectory("evol", "metric"), dtype=np.float64)
        given = (
            metric.reshape(len(episodes)) if metric.size == len(episodes) else novelty(metric, task, right, answered)
        )
        groups = Groups(novelty_rewards(right, given, task, answered), task)
        value = standardise(
            groups, scale=options.scale, ddof=options.ddof, eps=options.eps, singleton=options.singleton
        )
        return episodes.advantages(value, report={**episodes.counts, "correct": float(right.mean())})

    return without_copies(steps, estimate)


def novelty_rewards(right: Bools, new: Floats, task: Ints | None = None, answered: Bools | None = None) -> Floats:
    """Return the reward of each answer by its side and its novelty, float64 [J].

        right:  0.5 + 0.5 u        wrong:  -1 + 0.5 u        no answer:  -1
        u = (novelty - least of the side) / (most - least)

    If all answers of a side are equally novel, u is 0.5; a single answer has u = 1.

        >>> novelty_rewards(np.array([True, True, False]), np.array([0.1, 0.3, 0.2])).tolist()
        [0.5, 1.0, -0.5]

    Args:
        right: bool [J].
        new: float64 [J], novelties on any scale.
        task: compact int64 [J], the group of each answer; None for one group.
        answered: bool [J]; None for all.
    """
    task = np.zeros(len(right), dtype=np.int64) if task is None else task
    answered = np.ones(len(right), dtype=np.bool_) if answered is None else answered
    side = compact(task, right.astype(np.int64), answered.astype(np.int64))
    low, high = np.full(groups_of(side), np.inf), np.full(groups_of(side), -np.inf)
    np.minimum.at(low, side, new)
    np.maximum.at(high, side, new)
    width = high - low
    flat = (width <= 1e-12 * np.maximum(np.abs(high), np.abs(low)))[side]
    alone = (np.bincount(side) == 1)[side]
    u = np.where(alone, 1.0, np.where(flat, 0.5, (new - low[side]) / np.where(flat, 1.0, width[side])))
    return np.where(answered, np.where(right, 0.5, -1.0) + 0.5 * u, -1.0)


def novelty(embedding: Floats, task: Ints, right: Bools, answered: Bools | None = None) -> Floats:
    """Return the novelty of each answer within its task, float64 [J] in [0, 1].

        novelty = 1 - (mean similarity to the others of its side + largest similarity to any other) / 2

    Similarity is the cosine, clipped to [0, 1]. An answer alone on its side is compared with all others; an answer
    alone in its task gets 0.5. Missing answers are ignored and get 0.

    Args:
        embedding: float64 [J, M]; a row of zeros is similar to nothing.
        task: compact int64 [J], the group of each answer.
        right: bool [J], the side of each answer.
        answered: bool [J]; None for all.
    """
    answered = np.ones(len(task), dtype=np.bool_) if answered is None else answered
    largest = np.abs(embedding).max(axis=1, keepdims=True, initial=np.finfo(np.float64).tiny)
    unit = embedding / largest  # so that no square overflows
    unit = unit / np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-8)
    out = np.zeros(len(task))
    rows = np.flatnonzero(answered)
    rows = rows[np.argsort(task[rows], kind="stable")]
    size = np.bincount(task[rows], minlength=groups_of(task))
    size_of_row = size[task[rows]]
    for n in np.unique(size[size > 0]).tolist():  # all groups of one size at once
        members = rows[size_of_row == n].reshape(-1, n)
        out[members] = _novelties(unit[members], right[members])
    return out


def _novelties(unit: Floats, right: Bools) -> Floats:
    """Novelties of several groups of one size, float64 [groups, n], from unit vectors [groups, n, M]."""
    n = right.shape[1]
    if n == 1:
        return np.full(right.shape, 0.5)
    similarity = np.clip(unit @ unit.swapaxes(1, 2), 0.0, 1.0)
    similarity = np.rint(similarity * _GRAIN) / _GRAIN  # sums of these are exact, whatever the order
    other = np.broadcast_to(~np.eye(n, dtype=np.bool_), similarity.shape)
    own = other & (right[:, :, None] == right[:, None, :])
    peers = np.where(own.any(axis=2, keepdims=True), own, other)
    average = np.where(peers, similarity, 0.0).sum(axis=2) / peers.sum(axis=2)
    return np.asarray(1.0 - 0.5 * average - 0.5 * np.where(other, similarity, 0.0).max(axis=2))


def _answered(episodes: Episodes) -> Bools:
    """Whether the last turn of each trajectory is valid, bool [J]."""
    order = episodes.steps.time_order
    last = np.zeros(len(episodes), dtype=np.int64)
    last[episodes.member[order]] = order
    return ~episodes.steps.invalid[last]
