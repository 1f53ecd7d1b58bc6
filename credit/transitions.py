"""Which turn follows which, what a turn has behind it, and where it led: for methods that look along episodes.

Left out on purpose: returns. They are sums and live in `turnwise.credit.blocks`.
"""

import numpy as np

from turnwise.credit.blocks import compact
from turnwise.credit.steps import Ints, Steps


def previous_turns(steps: Steps, *, order: Ints | None = None) -> Ints:
    """Return the row of the turn before each row's, int64 [N]; -1 for the first turn of a trajectory, and for copies.

    Args:
        steps: the table.
        order: int64 [M], rows with each trajectory's in one piece and in order of time; None takes `steps.time_order`.
            Rows that it leaves out get -1.
    """
    order = steps.time_order if order is None else order
    before = np.full(len(steps), -1, dtype=np.int64)
    same = steps.trajectory[order[1:]] == steps.trajectory[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def next_turns(before: Ints) -> Ints:
    """Return the row of the turn after each row's, int64 [N]; -1 for the last turn of a trajectory.

    Args:
        before: what `previous_turns` returned.
    """
    after = np.full(len(before), -1, dtype=np.int64)
    rows = np.flatnonzero(before >= 0)
    after[before[rows]] = rows
    return after


def history_keys(key: Ints, before: Ints, depth: int) -> list[Ints]:
    """Return the keys of ever longer histories, `depth + 1` arrays of compact int64 [N].

    Two rows share key k when they, and the k turns before each, have equal keys. A history that the start of its
    trajectory cuts short equals only histories that are cut short at the same place.

    Args:
        key: compact int64 [N], what is compared turn by turn.
        before: int64 [N], see `previous_turns`.
        depth: how many turns to look back.
    """
    keys = [key]
    for _ in range(depth):
        keys.append(compact(key, np.where(before >= 0, keys[-1][before] + 1, 0)))
    return keys


def turns_behind(before: Ints, most: int) -> Ints:
    """Return how many turns each row has behind it in its trajectory, counted up to `most`, int64 [N].

    Args:
        before: int64 [N], see `previous_turns`.
        most: where to stop counting.
    """
    behind = np.zeros(len(before), dtype=np.int64)
    row = before
    for _ in range(most):
        there = row >= 0
        if not there.any():
            break
        behind += there
        row = np.where(there, before[row], -1)
    return behind


def next_states(steps: Steps, after: Ints) -> Ints:
    """Return the code of the state to which each turn led, int64 [N]; -1 where nobody says, as after a last turn.

    The column `next_state`, or without it the state in which the trajectory's next turn started.

    Args:
        steps: a table with `state`.
        after: int64 [N], see `next_turns`.
    """
    if "next_state" in steps:
        return steps.column("next_state")
    return np.where(after >= 0, steps.column("state")[after], -1)
