"""The lists that TRL's trainers pass to reward functions: prompts, completions, rewards."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from turncredit.credit.adapters.arrays import column_of, mask_of
from turncredit.credit.adapters.packed import PackedSteps, runs, unseen_turns
from turncredit.credit.errors import BadTable
from turncredit.credit.key_codes import freeze
from turncredit.credit.steps import Bools, Floats, Ints, Steps
from turncredit.credit.tensors import plain


def from_trl(
    prompts: Any,
    completions: Any,
    rewards: Any,
    *,
    num_generations: int,
    completion_mask: Any = None,
    reward_weights: Any = None,
) -> PackedSteps:
    """Return the turns of a batch of completions: one per completion, or one per assistant message in it.

    A turn's `state` is the prompt, or the messages since the last assistant message; its `action` is the assistant
    message. The reward belongs to the last turn.

        >>> from turncredit.credit import rloo
        >>> packed = from_trl(["2+2?"] * 2, ["4", "5"], [1.0, 0.0], num_generations=2)
        >>> packed.tokens(rloo(packed.steps)).tolist()
        [[1.0], [-1.0]]

    Args:
        prompts: [B] strings or lists of messages; each prompt `num_generations` times in a row.
        completions: [B] strings, or lists of messages (mappings with `role`) that continue the prompt.
        rewards: float [B], or [B, K] for K reward functions, which also become the column `multi`. None or NaN of a
            function that does not apply counts as zero.
        num_generations: number of completions per prompt, which form a group.
        completion_mask: bool [B, L], the tokens that the model sampled (TRL's completion mask without tool results).
            Required for completions of several turns. A row without tokens still counts in its group. None means one
            token per completion, so that `tokens` returns [B, 1].
        reward_weights: float [K], weights of the reward functions; None means 1 each.

    Raises:
        BadTable: arguments do not fit together; the message names the argument and the row.
    """
    count = len(column_of("prompts", prompts, len(prompts)))
    group = groups_of_prompts(prompts, num_generations)
    spoken = [_turns(row, prompt, text) for row, (prompt, text) in
              enumerate(zip(prompts, column_of("completions", completions, count), strict=True))]  # fmt: skip
    turns = np.asarray([len(found) for found in spoken], dtype=np.int64)
    row = np.repeat(np.arange(count), turns)
    turn = np.arange(len(row)) - np.repeat(np.cumsum(turns) - turns, turns)
    multi = _rewards(rewards, count)
    weights = np.ones(multi.shape[1]) if reward_weights is None else np.asarray(plain(reward_weights), dtype=np.float64)
    if weights.shape != (multi.shape[1],):
        raise BadTable(f"reward_weights must have shape ({multi.shape[1]},), got {weights.shape}")
    multi = np.where((turn == turns[row] - 1)[:, None], multi[row], 0.0)
    place = _places(completion_mask, turns)
    table: dict[str, Any] = {
        "task": group[row], "trajectory": row, "turn": turn, "reward": multi @ weights,
        "state": [state for found in spoken for state, _ in found],
        "action": [action for found in spoken for _, action in found],
    }  # fmt: skip
    if np.ndim(plain(rewards)) == 2:
        table["multi"] = multi
    if completion_mask is not None:
        table["tokens"] = np.bincount(place[place >= 0], minlength=len(row))
    return PackedSteps(Steps.from_columns(**table), place)


def groups_of_prompts(prompts: Any, size: int) -> Ints:
    """Return the group of each completion, int64 [B]: `size` consecutive completions of one prompt.

    Args:
        prompts: [B], of any type.
        size: completions of a group.

    Raises:
        BadTable: the prompts of a group differ, or the last group is incomplete.
    """
    count = len(prompts)
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1 or count % size:
        raise BadTable(f"num_generations must divide the number of completions, {count}, got {size!r}")
    keys = [freeze(prompt) for prompt in prompts]
    for row, key in enumerate(keys):
        if key != keys[row - row % size]:
            raise BadTable(
                f"prompt {row} differs from prompt {row - row % size}, the first of its group of {size}; a group is "
                "num_generations consecutive completions of one prompt"
            )
    return np.arange(count) // size


def _turns(row: int, prompt: Any, completion: Any) -> list[tuple[Any, Any]]:
    """State and action of every turn of a completion."""
    if not isinstance(completion, list | tuple):
        return [(prompt, completion)]
    found: list[tuple[Any, Any]] = []
    heard: Any = prompt
    for message in completion:
        if not isinstance(message, Mapping) or "role" not in message:
            raise BadTable(f"completion {row} must be a string or a list of messages, each a mapping with a role")
        if message["role"] == "assistant":
            found.append((heard, {key: value for key, value in message.items() if key != "role"}))
            heard = []
        else:
            heard = [*heard, message] if found else [heard, message]
    if not found:
        raise BadTable(f"completion {row} has no assistant message, so it has no turn")
    return found


def _rewards(rewards: Any, count: int) -> Floats:
    """The rewards as float64 [B, K], zero where there is none."""
    try:
        array = np.asarray(plain(rewards), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadTable(f"rewards must be numbers, one or K per completion: {error}") from error
    if array.ndim not in (1, 2) or len(array) != count:
        raise BadTable(f"rewards must have shape ({count},) or ({count}, K), got {array.shape}")
    array = array.reshape(count, -1) if count else np.zeros((0, array.shape[1] if array.ndim == 2 else 1))
    unrewarded = np.flatnonzero(np.isnan(array).all(axis=1))
    if len(unrewarded):
        count = len(unrewarded)
        raise BadTable(f"completion {unrewarded[0]} has no reward ({count} in all); drop it or give it a reward")
    return np.where(np.isnan(array), 0.0, array)


def _places(completion_mask: Any, turns: Ints) -> Ints:
    """The turn of each token."""
    if completion_mask is None:
        if (turns != 1).any():
            raise BadTable("completions of several turns need completion_mask to find the tokens of each turn")
        return np.arange(len(turns))[:, None]
    mask: Bools = mask_of("completion_mask", completion_mask, rows=len(turns))
    row, _, place = runs(mask)
    found = np.bincount(row, minlength=len(turns))
    wrong = np.flatnonzero((found != turns) & (found > 0))
    if len(wrong):
        first = int(wrong[0])
        raise BadTable(
            f"row {first} of completion_mask has {found[first]} runs of tokens, but {turns[first]} assistant turns "
            f"({len(wrong)} such rows)"
        )
    return unseen_turns(place, turns, found)
