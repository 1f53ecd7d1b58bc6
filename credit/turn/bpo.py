"""BPO: the branches of a fork compared with each other, the trunks of a task with its group."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.prefix_tree import Paths, PrefixKey, need_paths, paths
from turncredit.credit.steps import Ints, Steps


def bpo(steps: Steps, *, key: PrefixKey = "parent", invalid_penalty: float = INVALID_PENALTY) -> Advantages:
    """Return the mean score of the paths through each turn minus that of the paths through the last fork before it.

        V(n)    = mean score of the trajectories that pass node n of the tree, equally weighted
        A[i, t] = V(node after turn t) - V(fork of turn t)

    The fork of a turn is the last node before it from which more than one branch goes out; the turns of a trunk, before
    any fork, have all trajectories of the task as their baseline. A turn that several paths share has one advantage.

        >>> steps = Steps.from_columns(task=["t"] * 5, trajectory=["a", "a", "b", "b", "c"], turn=[0, 1, 0, 1, 0],
        ...                            reward=[0, 1.0, 0, 0, 0], parent=["", "n1", "", "n1", ""], tree=[1, 1, 1, 1, 2])
        >>> bpo(steps).values.round(6).tolist()
        [0.166667, 0.5, 0.166667, -0.5, -0.333333]

    Args:
        steps: the table; needs the columns of `key`. Each path lists all of its turns, including shared ones.
        key: as for `arpo_hard`.
        invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "after" and "before", whose difference they are; the report has the share of turns
        that follow a fork.

    Source: arXiv 2607.14171, of which we read the abstract: siblings of a fork are compared with each other, the trunk
    with its group. Our reading: the rest.
    """
    options = GroupOptions(scale="none", invalid_penalty=invalid_penalty)
    need_paths(steps, "bpo", key)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        score = episodes.groups.centred()  # one number for all paths of a task, which cancels
        tree = paths(table, key)
        fork = _forks(table, tree)
        forked = fork >= 0
        mean = tree.means(score)
        after, before = mean[tree.after], np.where(forked, mean[fork], 0.0)
        report = {**episodes.counts, "forked": float(forked.mean())}
        return Advantages.of(table, after - before, {"after": after, "before": before}, report)

    return without_copies(steps, estimate)


def _forks(steps: Steps, tree: Paths) -> Ints:
    """Return the last node before each turn from which several branches go out, int64 [N]; -1 where there is none."""
    order = steps.time_order
    before, member = tree.before[order], tree.member[order]
    branches = np.bincount(np.unique(np.stack([tree.before, tree.after]), axis=1)[0], minlength=1)
    row = np.arange(len(order))
    start = np.maximum.accumulate(np.where(np.append(True, member[1:] != member[:-1]), row, 0)) if len(row) else row
    latest = np.maximum.accumulate(np.where(branches[before] > 1, row, -1)) if len(row) else row
    forks = np.empty(len(steps), dtype=np.int64)
    forks[order] = np.where(latest >= start, before[latest], -1)
    return forks
