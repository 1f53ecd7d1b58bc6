"""SPO on segments: the change in estimated outcome over each segment of an episode."""

from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import ROUNDING, Groups, compact, groups_of, penalties, positions
from turncredit.credit.option_checks import check_choice, check_flag, check_number
from turncredit.credit.options import INVALID_PENALTY, without_copies
from turncredit.credit.prefix_tree import Paths, paths
from turncredit.credit.steps import Floats, Ints, Steps, need

Mode = Literal["chain", "tree"]
SegmentScale = Literal["none", "std"]


def spo_segment(
    steps: Steps,
    *,
    mode: Mode = "chain",
    scale: SegmentScale = "none",
    ddof: int = 1,
    eps: float = 1e-6,
    drop_zero: bool = True,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the change in estimated outcome from the start of each segment to its end; a turn is a segment.

        chain:  A[i, t] = V[i, t + 1] - V[i, t]           V given for the start of each segment; V at the end is E[i]
        tree:   A[i, t] = V(node after) - V(node before)  V(leaf) = E[i], V(node) = mean of its children's V
                          (over std of the children's V + eps, if scaled)

    In a chain, V is the mean outcome of continuations sampled from that point. In a tree, V is the mean over children,
    not over leaves.

        >>> steps = Steps.from_columns(task=[0, 0], trajectory=[0, 0], turn=[0, 1], reward=[0, 1.0], value=[0.5, 0.25])
        >>> spo_segment(steps).values.tolist()
        [-0.25, 0.75]

    Args:
        steps: the table; needs `value` for a chain, and `parent` for a tree (see `prefix_tree.paths`), with `tree`
            where node ids are not unique within a task.
        mode: see above.
        scale: "std" divides by the standard deviation of the siblings (tree only); "none" does not.
        drop_zero: drop turns of a tree whose advantage is zero.
        ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "after" and "before", the two V. In a tree, a segment shared by d leaves is d rows of
        weight 1/d.

    Raises:
        BadOption: scale="std" with mode="chain".

    Source: Guo et al. 2025, arXiv 2505.23564. The code's spread has ddof=0 and eps=1e-8; its mask of
    tokens with probability above 0.9 is not included.
    """
    check_choice("mode", mode, Mode)
    check_flag("drop_zero", drop_zero)
    check_choice("scale", scale, SegmentScale)
    check_number("ddof", ddof, 0, 1, whole=True)
    check_number("eps", eps, 0.0)
    check_number("invalid_penalty", invalid_penalty, 0.0)
    if mode == "chain" and scale != "none":
        raise BadOption("scale='std' needs siblings; use mode='tree', or scale='none' with mode='chain'")
    need(steps, "spo_segment", "value" if mode == "chain" else "parent")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=table.reward - penalties(table, invalid_penalty))
        if mode == "chain":
            before, after = _chain(table, episodes)
            return Advantages.of(table, after - before, {"after": after, "before": before})
        tree = paths(table, "parent")
        nodes = _Nodes(tree, positions(table))
        value = nodes.values(episodes.score)
        before, after = value[tree.before], value[tree.after]
        gain = np.where(np.abs(after - before) <= _rounding(episodes), 0.0, after - before)
        if scale == "std":
            spread = nodes.sibling_spread(value, ddof)[tree.after] + eps
            gain = np.divide(gain, spread, out=np.zeros(len(gain)), where=spread > 0.0)
        keep = gain != 0.0 if drop_zero else np.ones(len(gain), dtype=np.bool_)
        parts = {"after": after, "before": before}
        return Advantages.of(table, gain, parts, episodes.counts, keep=keep, weight=1.0 / tree.sharers)

    return without_copies(steps, estimate)


def _chain(table: Steps, episodes: Episodes) -> tuple[Floats, Floats]:
    """V before and after each turn where V is given."""
    value = table.column("value")
    order = table.time_order
    member = episodes.member[order]
    following = episodes.score[member]
    inner = np.flatnonzero(member[1:] == member[:-1])
    following[inner] = value[order[inner + 1]]
    after = np.zeros(len(table))
    after[order] = following
    return value, after


def _rounding(episodes: Episodes) -> Floats:
    """What a difference of means of each row's task may be by rounding alone, float64 [N]."""
    largest = np.zeros(groups_of(episodes.task))
    np.maximum.at(largest, episodes.task, episodes.size_of_terms)
    return ROUNDING * largest[episodes.task[episodes.member]]


class _Nodes:
    """The nodes of a forest but for its roots, once each, with the node above."""

    def __init__(self, tree: Paths, depth: Ints) -> None:
        self.child, row = np.unique(tree.after, return_index=True)
        self.parent, self.depth = tree.before[row], depth[row]
        self.shared, self.member = tree.sharers[row] > 1, tree.member[row]
        self.count = groups_of(tree.after)

    def values(self, score: Floats) -> Floats:
        """V of every node, float64 [nodes]: from the leaves up, level by level, above the last branching."""
        value = np.zeros(self.count)
        value[self.child] = score[self.member]  # stays where a node is passed by one trajectory alone
        branching = np.ones(self.count, dtype=np.bool_)
        branching[self.child] = self.shared
        below = branching[self.parent]
        for depth in range(int(self.depth[below].max()), -1, -1):
            level = below & (self.depth == depth)
            children = Groups(value[self.child[level]], compact(self.parent[level]))
            value[np.unique(self.parent[level])] = children.centre()
        return value

    def sibling_spread(self, value: Floats, ddof: int) -> Floats:
        """Standard deviation of V among each node and its siblings, float64 [nodes]."""
        spread = np.zeros(self.count)
        key = compact(self.parent)
        spread[self.child] = Groups(value[self.child], key).deviation(ddof)[key]
        return spread
