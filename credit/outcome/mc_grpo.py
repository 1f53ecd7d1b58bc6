"""MC-GRPO: the outcome of an episode relative to the median of its task; the median episode is dropped."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import group_sums
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Bools, Floats, Steps

NOTHING = 1e-6
"""Advantages of at most this size do not count in n'."""


def mc_grpo(
    steps: Steps,
    *,
    eps: float = 1e-3,
    rescale: bool = True,
    clip: float = 10.0,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's distance from its task's median, in units of the median distance.

        B[i] = (E[i] - median) / (mad + eps)        mad = median of |E - median|, both the lower median
        A[i, t] = clip(B[i] * n / n', -c, c)        n' = number of the task's episodes with |B| > 1e-6, of n

    Unlike the mean of a small group, the median is robust to a single lucky episode. Sample one episode more than
    needed: exactly one median episode per group, whose advantage is zero, is dropped (`keep`). Among several it is the
    one whose id sorts first as text.

    If more than half of a group have equal scores, mad is zero and the others would get huge advantages; hence the
    clip.

        >>> steps = Steps.from_columns(task=["t"] * 3, trajectory=[0, 1, 2], turn=[0] * 3, reward=[0.0, 1.0, 3.0])
        >>> result = mc_grpo(steps, eps=0.0)
        >>> result.values.tolist(), result.keep.tolist()
        ([-1.5, 0.0, 3.0], [True, False, True])

    Args:
        steps: the table.
        rescale: multiply B by n / n'.
        clip: the largest absolute advantage c; infinity disables clipping.
        eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the part "episode"; `keep` is False for the turns of dropped episodes. A group of one gives zero
        and is kept.

    Source: Kim 2026, arXiv 2601.22582, for the median; the scaling by n / n' is from the published code. We differ in
    the clip, in the rule for ties, and in the group of one.
    """
    options = GroupOptions(eps=eps, invalid_penalty=invalid_penalty)
    check_flag("rescale", rescale)
    check_number("clip", clip, 0.0)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        value = np.clip(_distances(episodes, options.eps, rescale), -clip, clip)
        dropped = _one_median_episode(episodes)
        report = {**episodes.counts, "left_out": float(dropped.sum())}
        return episodes.advantages(value, report=report, keep=~dropped)

    return without_copies(steps, estimate)


def _distances(episodes: Episodes, eps: float, rescale: bool) -> Floats:
    groups, key = episodes.groups, episodes.task
    width = (groups.median_deviation() + eps)[key]
    value = np.divide(groups.centred("median"), width, out=np.zeros(len(episodes)), where=width > 0.0)
    moved = np.abs(value) > NOTHING
    count = group_sums(key, moved.astype(np.float64), len(groups.size))
    return value * (groups.size / np.maximum(count, 1.0))[key] if rescale else value


def _one_median_episode(episodes: Episodes) -> Bools:
    """bool [J], True for one episode at the median of each group of two or more."""
    dropped = np.zeros(len(episodes), dtype=np.bool_)
    at_median = np.flatnonzero((episodes.groups.centred("median") == 0.0) & ~episodes.alone)
    order = at_median[np.lexsort((episodes.place[at_median], episodes.task[at_median]))]
    dropped[order[np.unique(episodes.task[order], return_index=True)[1]]] = True
    return dropped
