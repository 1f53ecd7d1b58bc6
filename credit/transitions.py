"""Previous and next turns, histories and next states, for rules that look along episodes."""

import numpy as np

from turncredit.credit.numerics import compact
from turncredit.credit.steps import Ints, Steps


def previous_turns(steps: Steps, *, order: Ints | None = None) -> Ints:
    """Return the row of the previous turn of each row, int64 [N]; -1 for first turns and copies.

    Args:
        steps: the table.
        order: int64 [M], rows by trajectory and time; None takes `steps.time_order`. Missing rows get -1.
    """
    order = steps.time_order if order is None else order
    before = np.full(len(steps), -1, dtype=np.int64)
    same = steps.trajectory[order[1:]] == steps.trajectory[order[:-1]]
    before[order[1:][same]] = order[:-1][same]
    return before


def next_turns(before: Ints) -> Ints:
    """Return the row of the next turn of each row, int64 [N]; -1 for last turns.

    Args:
        before: the result of `previous_turns`.
    """
    after = np.full(len(before), -1, dtype=np.int64)
    rows = np.flatnonzero(before >= 0)
    after[before[rows]] = rows
    return after


def history_keys(key: Ints, before: Ints, depth: int) -> list[Ints]:
    """Return the keys of histories of length 0 to `depth`, compact int64 [N] each.

    Two rows share key k when they, and the k turns before each, have equal keys. A history cut short by
    the start of its trajectory equals only histories cut short at the same place.

    Args:
        key: compact int64 [N], compared turn by turn.
        before: int64 [N], see `previous_turns`.
        depth: number of turns to look back.
    """
    keys = [key]
    for _ in range(depth):
        keys.append(compact(key, np.where(before >= 0, keys[-1][before] + 1, 0)))
    return keys


def turns_behind(before: Ints, most: int) -> Ints:
    """Return the number of turns before each row in its trajectory, at most `most`, int64 [N].

    Args:
        before: int64 [N], see `previous_turns`.
        most: the maximum.
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
    """Return the code of the state after each turn, int64 [N]; -1 if unknown, as after a last turn.

    This is the column `next_state`, or without it the state of the trajectory's next turn.

    Args:
        steps: a table with `state`.
        after: int64 [N], see `next_turns`.
    """
    if "next_state" in steps:
        return steps.column("next_state")
    return np.where(after >= 0, steps.column("state")[after], -1)
