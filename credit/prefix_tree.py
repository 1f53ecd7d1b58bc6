"""Trajectories of a task as paths in a prefix tree: turns with the same history share an edge."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from turncredit.credit.numerics import Groups, compact, groups_of
from turncredit.credit.option_checks import check_choice
from turncredit.credit.steps import Floats, Ints, Steps, need

PrefixKey = Literal["transition", "action", "next_state", "parent"]
COLUMNS: dict[str, tuple[str, ...]] = {
    "transition": ("action", "next_state"),
    "action": ("action",),
    "next_state": ("next_state",),
    "parent": ("parent",),
}


@dataclass(frozen=True, eq=False)
class Paths:
    """The tree that the trajectories of a table form.

    Args:
        before: int64 [N], the node from which each turn starts.
        after: int64 [N], the node to which it leads. Turns with equal `after` have the same history,
            including themselves. Nodes have larger numbers than their parents.
        root: compact int64 [J], the node from which each trajectory starts, in the numbering of `member`.
        member: compact int64 [N], the trajectory of each turn.
    """

    before: Ints
    after: Ints
    root: Ints
    member: Ints

    @cached_property
    def sharers(self) -> Ints:
        """int64 [N], the number of trajectories that share the turn and its history."""
        return np.bincount(self.after)[self.after] if len(self.after) else self.after

    def means(self, score: Floats) -> Floats:
        """Return the mean score of the trajectories that pass each node, float64 [nodes].

        Args:
            score: float64 [J].
        """
        return Groups(np.append(score, score[self.member]), np.append(self.root, self.after)).centre()

    def differences(self, score: Floats) -> Floats:
        """Return the change in mean score at each turn, float64 [N].

            V(after) - V(before)        V(node) = mean score of the trajectories that pass the node

        Args:
            score: float64 [J].
        """
        mean = self.means(score)
        return mean[self.after] - mean[self.before]


def need_paths(steps: Steps, method: str, key: PrefixKey) -> None:
    """Check the option `key`, and that its columns are present.

    Args:
        steps: the table.
        method: name of the rule, for the message.
        key: the option.

    Raises:
        BadOption: the key is unknown.
        MissingColumn: a column is absent; `state` can replace `next_state`.
    """
    check_choice("key", key, PrefixKey)
    need(steps, method, *(name for name in COLUMNS[key] if name != "next_state" or "state" not in steps))


def paths(steps: Steps, key: PrefixKey) -> Paths:
    """Return the prefix tree of a table without copies.

    Args:
        steps: the table; needs the columns of the key.
        key: what identifies equal turns after equal histories: "transition" (action and next state), "action",
            "next_state", or "parent", the nodes of a tree search. Under "parent" a turn is the edge from the node
            `parent` to the `parent` of the trajectory's next turn; the last turn leads to a leaf of its own. Node ids
            are unique within `tree` (or the task), and each tree has a root; under the other keys each task has one.
            Without the column `next_state` a turn leads to the `state` of the next turn, and the last turn to an end of
            its own.
    """
    order = steps.time_order
    member = compact(steps.trajectory)
    owner = member[order]
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if len(order) else order
    length = np.diff(np.append(first, len(order)))
    last = first + length - 1
    if key == "parent" and len(order):
        tree = compact(steps.task, steps.column("tree")) if "tree" in steps else steps.task
        node = compact(tree, steps.column("parent"))[order]
        symbol, root = _of_the_next(node, last), compact(node[first])
    else:
        symbol = np.zeros(len(order), dtype=np.int64)
        root = compact(steps.task[order][first])
        for name in COLUMNS[key] if len(order) else ():
            if name in steps:
                symbol = compact(symbol, steps.column(name)[order])
            else:
                symbol = compact(symbol, _of_the_next(compact(steps.column("state"))[order], last))
    before, after = np.zeros_like(order), np.zeros_like(order)
    before[order], after[order] = prefix_nodes(symbol, first, length, root)
    return Paths(before, after, root, member)


def _of_the_next(code: Ints, last: Ints) -> Ints:
    """The code of the next turn; a unique code at the last turn of each trajectory."""
    following = np.append(code[1:], 0)
    following[last] = groups_of(code) + np.arange(len(last))
    return following


def prefix_nodes(symbol: Ints, first: Ints, length: Ints, root: Ints) -> tuple[Ints, Ints]:
    """Return the nodes of a prefix tree before and after each symbol of some sequences, int64 [N] each.

    Two symbols lead to the same node if and only if their sequences have the same root and agree up to them.

    Args:
        symbol: int64 [N], >= 0, sequence after sequence.
        first: int64 [J], where each sequence starts.
        length: int64 [J].
        root: compact int64 [J], the root of each sequence; roots keep these numbers.
    """
    after = np.full(len(symbol), -1, dtype=np.int64)
    node, count, level = root.copy(), groups_of(root), 0
    alive = np.flatnonzero(length > 0)
    while len(alive):
        rows = first[alive] + level
        key = compact(node[alive], symbol[rows])
        after[rows] = node[alive] = count + key
        count, level = count + groups_of(key), level + 1
        alive = alive[(np.bincount(key)[key] > 1) & (length[alive] > level)]
    alone = np.flatnonzero(after < 0)
    after[alone] = count + np.arange(len(alone))
    before = np.append(0, after[:-1])[: len(after)]
    before[first[length > 0]] = root[length > 0]
    return before, after
