"""Staleness: the age of a turn is the number of updates between the weights that sampled it and those that train on it.

Turns above a limit carry no loss; they stay in the sequence as context, and in the statistics of their group. With
recomputed log-probabilities, the importance ratio at each age shows how far the policy has moved.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.training.batch.batch import Batch
from turncredit.training.objectives.sources import POLICY

OLDEST_SHOWN = 8
"""Ages above this one are counted together."""


def turn_ages(groups: Sequence[Group], version: int) -> dict[tuple[str, int], int]:
    """Return the age of every turn of the finished trajectories, by trajectory id and turn.

    Args:
        groups: as returned by a rollout.
        version: of the weights that will be updated. Turns of a later version, sampled before a run was resumed from
            an earlier checkpoint, count as equally far away.
    """
    return {
        (trajectory.id, number): abs(version - turn.version)
        for group in groups
        for trajectory in group.finished
        for number, turn in enumerate(trajectory.turns)
    }


def without_stale(advantages: Advantages, ages: Mapping[tuple[str, int], int], limit: int) -> Advantages:
    """Return the advantages with keep=False for turns that are older than a limit.

    Args:
        advantages: of these turns.
        ages: from `turn_ages`.
        limit: largest age that is trained on.
    """
    rows = zip(advantages.trajectory.tolist(), advantages.turn.tolist(), strict=True)
    fresh = np.array([ages[key] <= limit for key in rows], dtype=bool)
    return replace(advantages, keep=advantages.keep & fresh)


def age_metrics(groups: Sequence[Group], version: int, limit: int, foreign: Collection[str] = ()) -> dict[str, float]:
    """Return statistics of the ages.

    Args:
        groups: as returned by a rollout.
        version: of the weights that will be updated.
        limit: largest age that is trained on.
        foreign: ids of trajectories that do not count, since the policy did not play them for this update: they are
            trained on at any age.

    Returns:
        age and age_max (of turns), age_0, age_1, ... (shares of turns; the last one counts all older turns), stale
        (share of turns older than the limit), stale_tokens (share of the sampled tokens that are in them), interrupted
        (share of turns whose answer went on under new weights; its age is that of its first token).
    """
    played = [trajectory for group in groups for trajectory in group.finished if trajectory.id not in foreign]
    turns = [turn for trajectory in played for turn in trajectory.turns]
    ages = np.array([abs(version - turn.version) for turn in turns], dtype=np.int64)
    tokens = np.array([len(turn.response) for turn in turns], dtype=np.float64)
    if not len(ages):
        return {}
    counts = np.bincount(np.minimum(ages, OLDEST_SHOWN))
    return {
        "age": float(ages.mean()),
        "age_max": float(ages.max()),
        **{f"age_{age}": float(count) / len(ages) for age, count in enumerate(counts)},
        "stale": float(np.mean(ages > limit)),
        "interrupted": sum(bool(turn.switches) for turn in turns) / len(turns),
        "stale_tokens": float(tokens[ages > limit].sum() / max(1.0, tokens.sum())),
    }


def ratio_metrics(batch: Batch, version: int) -> dict[str, float]:
    """Return the mean importance ratio of the tokens at each age, before the update: ratio_0, ratio_1, ...

    The ratio is exp(recomputed - sampled log-probability); without recomputed log-probabilities there are none. Stored
    episodes and those of teachers do not count.
    """
    if batch.rollout is None:
        return {}
    mask = batch.mask & (batch.episodes.source[batch.trajectory] == POLICY)[:, None]
    ages = np.minimum(np.abs(version - batch.version[mask]), OLDEST_SHOWN)
    ratios: NDArray[np.float64] = np.exp(np.clip(batch.old[mask] - batch.rollout[mask], -20.0, 20.0))
    return {f"ratio_{age}": float(ratios[ages == age].mean()) for age in np.unique(ages).tolist()}
