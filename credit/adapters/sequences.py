"""Batches in which a row is a whole conversation, and every unbroken run of trained tokens is a turn."""

from typing import Any

import numpy as np

from turncredit.credit.adapters.arrays import column_of, mask_of, numbers_of
from turncredit.credit.adapters.packed import PackedSteps, averages, runs, unseen_turns
from turncredit.credit.errors import BadTable
from turncredit.credit.numerics import group_sums
from turncredit.credit.steps import Floats, Ints, Steps
from turncredit.credit.tensors import plain


def from_sequences(
    *,
    uid: Any,
    response_mask: Any,
    rewards: Any = None,
    token_level_rewards: Any = None,
    turn_rewards: Any = None,
    active_masks: Any = None,
    old_log_probs: Any = None,
    entropys: Any = None,
    **columns: Any,
) -> PackedSteps:
    """Return the turns of a batch with one row per trajectory; every unbroken run of trained tokens is a turn.

    A row without trained tokens, such as an empty or a masked answer, still counts in its group: it has one turn, or as
    many as it has values.

        >>> packed = from_sequences(uid=["g", "g"], response_mask=[[1, 0, 1], [1, 1, 0]], rewards=[1.0, 0.0])
        >>> packed.steps.turn.tolist(), packed.steps.reward.tolist(), packed.place.tolist()
        ([0, 1, 0], [0.0, 1.0, 0.0], [[0, -1, 1], [2, 2, -1]])

    Args:
        uid: [B], id of the task; its trajectories form a group.
        response_mask: bool [B, L], the trained tokens.
        rewards: float [B], the outcome, assigned to the last turn. Exactly one of this and the next two is given.
        token_level_rewards: float [B, L]; a turn gets the rewards from its first token up to the next turn, so that a
            reward on an observation belongs to the turn before it. Earlier rewards belong to the first turn.
        turn_rewards: [B] lists with a reward for each turn.
        active_masks: bool [B]; rows with False are not in the table and get zero.
        old_log_probs, entropys: float [B, L], averaged over the tokens of each turn to `logprob` and `entropy`.
        **columns: [B] each, other columns of `Steps`, such as `state`, `action`, `valid`, `value`: a list with one
            value per turn, or one value for all turns of the row.

    Raises:
        BadTable: arguments do not fit together; the message names the argument and the row.
    """
    mask = mask_of("response_mask", response_mask)
    active = np.ones(len(mask), dtype=np.bool_)
    if active_masks is not None:
        active = mask_of("active_masks", np.reshape(plain(active_masks), (-1, 1)), rows=len(mask))[:, 0]
    seen_row, start, place = runs(mask & active[:, None])
    seen = np.bincount(seen_row, minlength=len(mask))
    lists = [turn_rewards, *columns.values()]
    turns = np.array([number or _unseen(lists, row) for row, number in enumerate(seen.tolist())], dtype=np.int64)
    turns = np.where(active, turns, 0)
    place = unseen_turns(place, turns, seen)
    row = np.repeat(np.arange(len(mask)), turns)
    table: dict[str, Any] = {
        "trajectory": row,
        "turn": np.arange(len(row)) - (np.cumsum(turns) - turns)[row],
        "tokens": np.bincount(place[place >= 0], minlength=len(row)),
    }
    owner = column_of("uid", uid, len(mask))
    table["task"] = [owner[number] for number in row.tolist()]
    given = [
        name
        for name, value in (
            ("rewards", rewards), ("token_level_rewards", token_level_rewards), ("turn_rewards", turn_rewards)
        )
        if value is not None
    ]  # fmt: skip
    if len(given) != 1:
        raise BadTable(
            "pass exactly one of rewards [B], token_level_rewards [B, L] and turn_rewards [B lists], "
            f"got {' and '.join(given) or 'none'}"
        )
    if rewards is not None:
        table["reward"] = _at_the_end(numbers_of("rewards", rewards, (len(mask),)), row)
    elif token_level_rewards is not None:
        paid = numbers_of("token_level_rewards", token_level_rewards, mask.shape)
        earned = _up_to_the_next(np.where(seen[:, None] > 0, paid, 0.0), seen_row, start)
        table["reward"] = _at_the_end(np.where(seen, 0.0, paid.sum(axis=1)), row)
        table["reward"][seen[row] > 0] = earned
    else:
        table["reward"] = per_turn("turn_rewards", turn_rewards, turns, active)
    for name, source, value in (("logprob", "old_log_probs", old_log_probs), ("entropy", "entropys", entropys)):
        if value is not None:
            table[name] = averages(numbers_of(source, value, mask.shape, inside=place >= 0), place, len(row))
    for name, value in columns.items():
        if value is not None:
            table[name] = per_turn(name, value, turns, active)
    return PackedSteps(Steps.from_columns(**table), place)


def _unseen(lists: list[Any], row: int) -> int:
    """The number of turns of a row without trained tokens: that of its values, or one."""
    for values in lists:
        if not hasattr(values, "__len__") or isinstance(values, str | dict) or len(values) <= row:
            continue  # `column_of` refuses it by name
        value = plain(values[row])
        if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
            return len(value)
    return 1


def per_turn(name: str, values: Any, turns: Ints, active: Any) -> list[Any]:
    """Return one value per turn, from one list or one value per row.

    Args:
        name: name of the argument, for messages.
        values: [B], lists, tuples or arrays of a row's values; anything else is one value for all of its turns.
        turns: int64 [B], how many turns each row has.
        active: bool [B], the rows that count.

    Raises:
        BadTable: a row has more or fewer values than turns.
    """
    out: list[Any] = []
    for number, value in enumerate(column_of(name, values, len(turns))):
        count = int(turns[number])
        if not active[number]:
            continue
        value = plain(value)
        if not isinstance(value, list | tuple | np.ndarray) or (isinstance(value, np.ndarray) and value.ndim == 0):
            out += [value] * count
        elif len(value) == count:
            out += list(value)
        else:
            raise BadTable(f"row {number} of {name} has {len(value)} values, but {count} turns")
    return out


def _at_the_end(outcome: Floats, row: Ints) -> Floats:
    """The outcome of each row at the row's last turn, zero at the others."""
    last = np.append(row[1:] != row[:-1], True)[: len(row)]
    return np.where(last, outcome[row], 0.0)


def _up_to_the_next(paid: Floats, row: Ints, start: Ints) -> Floats:
    """The rewards from the start of each turn to the start of the next."""
    if not len(row):
        return np.zeros(0)
    starting = np.zeros(paid.shape, dtype=np.int64)
    starting[row, start] = 1
    first = np.minimum(np.searchsorted(row, np.arange(len(paid))), len(row) - 1)
    number = np.maximum(np.cumsum(starting).reshape(paid.shape) - 1, first[:, None])
    return group_sums(number.ravel(), paid.ravel(), len(row))
