"""Statistics of the answers of a group: which were right, how much they differ, and which one is the majority's."""

import numpy as np

from turncredit.credit.numerics import compact, exact_sums, groups_of, trajectory_scores
from turncredit.credit.steps import Bools, Floats, Ints, Steps

THRESHOLD = 0.5
"""Scores above it count as right; this fits rewards of 0 and 1, -1 and 1, or 0 and 10, with small format terms."""


def solved(steps: Steps, threshold: float = THRESHOLD) -> Bools:
    """Return whether each trajectory's summed reward exceeds the threshold, bool [J]; without penalties.

    Args:
        steps: the table.
        threshold: in units of reward.
    """
    return np.asarray(trajectory_scores(steps)[0] > threshold, dtype=np.bool_)


def share(flag: Bools, task: Ints) -> Floats:
    """Return the share of flagged trajectories in each trajectory's group, float64 [J].

    Args:
        flag: bool [J].
        task: compact int64 [J], the group of each trajectory.
    """
    size = np.bincount(task)
    return np.asarray((np.bincount(task, weights=flag) / np.maximum(size, 1))[task], dtype=np.float64)


def answer_entropy(task: Ints, label: Ints) -> Floats:
    """Return the entropy of the answers in each trajectory's group, float64 [J], nats.

        H_g = - sum over answers c of p_c log p_c        p_c = share of the group's trajectories with answer c

        >>> answer_entropy(np.array([0, 0, 0, 0]), np.array([5, 5, 7, 7]))[0].round(6).tolist()
        0.693147

    Args:
        task: compact int64 [J], the group of each trajectory.
        label: int64 [J], code of the answer's class.
    """
    answer = compact(task, label)
    group = np.zeros(groups_of(answer), dtype=np.int64)
    group[answer] = task
    share_of_answer = np.bincount(answer) / np.bincount(task)[group]
    return exact_sums(group, -share_of_answer * np.log(share_of_answer), groups_of(task))[task]


def majority(task: Ints, label: Ints, counted: Bools) -> Bools:
    """Return whether each trajectory gave its group's most frequent answer, bool [J].

    Equally frequent answers are all majority answers, so that the result does not depend on the order of rows.

    Args:
        task: compact int64 [J], the group of each trajectory.
        label: int64 [J], code of the answer's class.
        counted: bool [J], False for a trajectory without an answer, which has no vote.
    """
    answer = compact(task, label)
    votes = np.bincount(answer, weights=counted)[answer]
    most = np.zeros(groups_of(task))
    np.maximum.at(most, task, votes)
    return np.asarray(counted & (votes == most[task]), dtype=np.bool_)
