"""Batches of verl-style trainers in which a row is a turn, as in verl-agent."""

from typing import Any

import numpy as np

from turncredit.credit.adapters.arrays import column_of, mask_of, numbers_of
from turncredit.credit.adapters.packed import PackedSteps, averages
from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import Coder
from turncredit.credit.numerics import compact
from turncredit.credit.steps import Bools, Floats, Ints, Steps
from turncredit.credit.tensors import plain


def from_verl(
    *,
    uid: Any,
    traj_uid: Any,
    response_mask: Any,
    rewards: Any = None,
    token_level_rewards: Any = None,
    anchor_obs: Any = None,
    is_action_valid: Any = None,
    active_masks: Any = None,
    turn: Any = None,
    duplicate_of_row: Any = None,
    old_log_probs: Any = None,
    entropys: Any = None,
    **columns: Any,
) -> PackedSteps:
    """Return the turns of a batch with one row per turn, with the argument names of verl-style trainers.

        >>> packed = from_verl(uid=["g", "g"], traj_uid=["a", "b"], rewards=[1.0, 0.0], response_mask=[[1, 1], [1, 0]])
        >>> from turncredit.credit import grpo
        >>> packed.tokens(grpo(packed.steps, scale="none")).tolist()
        [[0.5, 0.5], [-0.5, 0.0]]

    Args:
        uid: [B], id of the task; its trajectories form a group.
        traj_uid: [B], id of the trajectory.
        response_mask: bool [B, L], the trained tokens of each response.
        rewards: float [B], the reward of the turn itself. Exactly one of this and the next is given.
        token_level_rewards: float [B, L]; a turn's reward is their sum over its trained tokens. What verl pays for an
            empty response lies outside the mask, and is that row's reward. Note that verl-agent puts the score of the
            whole episode on each of its rows; pass its `rewards` instead.
        anchor_obs: [B], observations of any type, for the column `state`.
        is_action_valid: bool [B].
        active_masks: bool [B]; rows with False are not in the table and get zero.
        turn: int [B], position in time. None uses the order of a trajectory's rows, which is wrong after the
            trainer has shuffled them.
        duplicate_of_row: int [B], row of the original for copies that the trainer added, else -1.
        old_log_probs, entropys: float [B, L], averaged over the tokens of each turn to `logprob` and `entropy`.
        **columns: [B] each, other columns of `Steps`, such as `value`, `role`, `next_state`.

    Raises:
        BadTable: arguments do not fit together; the message names the argument.
    """
    mask = mask_of("response_mask", response_mask)
    count = len(mask)
    given: dict[str, Any] = {"state": anchor_obs, "valid": is_action_valid, "turn": turn, **columns}
    given = {name: column_of(name, value, count) for name, value in given.items() if value is not None}
    given["task"], given["trajectory"] = column_of("uid", uid, count), column_of("traj_uid", traj_uid, count)
    given["reward"] = _rewards(rewards, token_level_rewards, mask)
    given["tokens"] = mask.sum(axis=1)
    rows = np.where(mask, np.arange(count)[:, None], -1)
    for name, source, value in (("logprob", "old_log_probs", old_log_probs), ("entropy", "entropys", entropys)):
        if value is not None:
            given[name] = averages(numbers_of(source, value, mask.shape, inside=mask), rows, count)
    active = np.ones(count, dtype=np.bool_)
    if active_masks is not None:
        active = mask_of("active_masks", np.reshape(plain(active_masks), (-1, 1)), rows=count)[:, 0]
    kept = np.flatnonzero(active)
    number = np.where(active, np.cumsum(active) - 1, -1)
    if duplicate_of_row is not None:
        given["duplicate_of_row"] = _copies(duplicate_of_row, number)
    table = {name: _taken(value, kept) for name, value in given.items()}
    if turn is None:
        table["turn"] = _in_order(table["task"], table["trajectory"], table.get("duplicate_of_row"))
    return PackedSteps(Steps.from_columns(**table), np.where(mask, number[:, None], -1))


def _rewards(rewards: Any, token_level_rewards: Any, mask: Bools) -> Floats:
    if (rewards is None) == (token_level_rewards is None):
        raise BadTable("pass exactly one of rewards [B] and token_level_rewards [B, L]")
    if rewards is not None:
        return numbers_of("rewards", rewards, (len(mask),))
    counted = mask | ~mask.any(axis=1, keepdims=True)
    total: Floats = numbers_of("token_level_rewards", token_level_rewards, mask.shape, inside=counted).sum(axis=1)
    return total


def _copies(duplicate_of_row: Any, number: Ints) -> Ints:
    """The column in the numbers of the table's rows."""
    source = np.asarray(column_of("duplicate_of_row", duplicate_of_row, len(number)))
    if source.dtype.kind not in "iu" or (len(source) and (source.max() >= len(number) or source.min() < -1)):
        raise BadTable("duplicate_of_row must be a row number of the batch or -1")
    moved = np.where(source >= 0, number[source], -1)
    if ((source >= 0) & (number >= 0) & (moved < 0)).any():
        raise BadTable("duplicate_of_row refers to an inactive row as the original of an active one")
    return moved


def _taken(column: Any, rows: Ints) -> Any:
    return column[rows] if isinstance(column, np.ndarray) else [column[row] for row in rows.tolist()]


def _in_order(task: Any, trajectory: Any, source: Ints | None) -> Ints:
    """How many rows of its trajectory come before each row; a copy has the turn of its original."""
    code = compact(Coder().encode(task), Coder().encode(trajectory))
    order = np.argsort(code, kind="stable")
    if source is not None:
        order = order[source[order] < 0]
    owner = code[order]
    first = np.flatnonzero(np.append(True, owner[1:] != owner[:-1])) if len(order) else order
    passed = np.zeros(len(code), dtype=np.int64)
    passed[order] = np.arange(len(order)) - np.repeat(first, np.diff(np.append(first, len(order))))
    return passed if source is None else passed[np.where(source >= 0, source, np.arange(len(code)))]
