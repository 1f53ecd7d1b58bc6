"""ARPO for screens: a group that failed throughout gets one stored success in the place of one of its failures.

A success may come from an earlier iteration, so the trajectory itself is not in the table: the estimator works with
scores and ids, and whoever trains keeps the trajectories. It says what to keep (`stored`) and what goes where
(`replacements`); the turns of the replaced failure have `keep` false.

    result = arpo_replay(steps, state=state, rng=rng)
    for new in replacements(result):                  # train on what was stored, with the advantage that it gets here
        train_on(store[new.task, new.call, new.stored], new.advantage)
    state = result.state
    store = {key: store.get(key) or turns_of(key) for key in stored(state)}      # the key's call is this one, or older

Left out on purpose: tokens and their old log-probabilities, which stay as they were when the success was sampled. The
method that branches where entropy rises has the same name; it is another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, Scale, Singleton, check_number
from turnwise.credit.episodes import Episodes
from turnwise.credit.errors import BadOption, BadTable
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.steps import Ints, Steps, need


@dataclass(frozen=True, slots=True)
class Replacement:
    """A stored success that takes the place of a failure.

    Args:
        task: id of the task instance, as the table has it.
        trajectory: id of the failure that gives way.
        call: number of the call at which the success was in the table, from 0.
        stored: id that the success had in that table.
        advantage: what every turn of the success gets.
    """

    task: Any
    trajectory: Any
    call: int
    stored: Any
    advantage: float


def arpo_replay(
    steps: Steps,
    *,
    low_std: float = 0.05,
    low_mean: float = 0.2,
    success: float = 0.1,
    capacity: int = 8,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
    state: object = None,
    rng: np.random.Generator | None = None,
) -> Advantages:
    """Return GRPO's advantages, in failed groups after one failure was exchanged for a stored success of the same task.

        failed:    std of the group (ddof 0) < low_std  and  mean < low_mean  and  a success of the task is stored
        E[i'] = score of the stored success              i' the group's first trajectory by the text of its id
        A[i, t] = (E[i] - mean) / (std + eps)

    Afterwards every trajectory with a score above `success` is stored; each task keeps its latest `capacity`.

        >>> def table(*scores):
        ...     return Steps.from_columns(task=["t"] * 2, trajectory=["a", "b"], turn=[0, 0], reward=scores)
        >>> rng = np.random.default_rng(0)
        >>> first = arpo_replay(table(1.0, 0.0), scale="none", rng=rng)
        >>> stored(first.state)
        [('t', 0, 'a')]
        >>> second = arpo_replay(table(0.0, 0.0), scale="none", rng=rng, state=first.state)
        >>> second.values.tolist(), second.keep.tolist()
        ([0.0, -0.5], [False, True])
        >>> replacements(second)
        [Replacement(task='t', trajectory='a', call=0, stored='a', advantage=0.5)]

    Args:
        steps: the table; needs no column beyond the required ones. `valid`, if there, brings the penalty. Ids of tasks
            must stay the same from call to call; these and the ids of trajectories must be hashable.
        low_std, low_mean: what a failed group is, in units of reward.
        success: what a success is, in units of reward.
        capacity: successes kept a task, the latest.
        scale: "std", "none" (mean only) or "mad" (median over median absolute deviation).
        singleton: a group of one gives "zero" or its "raw" score; nothing is replaced in it.
        ddof: 1 divides the squares by n - 1, 0 by n; for the advantages.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, in units of reward, taken from that turn's reward.
        state: what the last call gave back; None at first.
        rng: draws which success is taken.

    Returns:
        Advantages with the part "episode"; for a replaced trajectory the value is zero and `keep` false. `state` is
        plain Python: read it with `stored`, and the result with `replacements`.

    Raises:
        BadOption: an option has an impossible value, there is no `rng`, or `state` is not one of this function's.
        BadTable: an id is not hashable.

    Source: Lu et al. 2025, arXiv 2505.16282, after its public code. We differ in the group of one.
    """
    options = GroupOptions(scale, "trajectory", singleton, ddof, eps, invalid_penalty)
    for name, value in {"low_std": low_std, "low_mean": low_mean, "success": success}.items():
        check_number(name, value, 0.0)
    check_number("capacity", capacity, 1, whole=True)
    memory = _memory(state)
    need(steps, "arpo_replay")
    if len(steps) and rng is None:
        raise BadOption("arpo_replay needs a random generator; pass rng=numpy.random.default_rng(seed)")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        ids = _ids(episodes)
        groups = episodes.groups
        low = (groups.size > 1.0) & (groups.deviation(ddof=0) < low_std) & (groups.mean() < low_mean)
        failed = np.flatnonzero(low[episodes.task])
        swapped = _draw(failed[np.argsort(episodes.place[failed])], episodes, ids, memory["stored"], rng)
        score, gone = episodes.score.copy(), np.zeros(len(episodes), dtype=np.bool_)
        for slot, (_, _, new) in swapped.items():
            score[slot], gone[slot] = new, True
        terms = np.maximum(episodes.size_of_terms, np.abs(score))
        value = options.normalise(Groups(score, episodes.task, size_of_terms=terms))
        replaced = [(*ids[slot], call, name, float(value[slot])) for slot, (call, name, _) in swapped.items()]
        kept = _store(memory, episodes, ids, success, capacity)
        now = {"calls": memory["calls"] + 1, "stored": kept, "replaced": replaced}
        values, keep = np.where(gone, 0.0, value)[episodes.member], ~gone[episodes.member]
        report = {**episodes.counts, "replaced": float(len(replaced))}
        return Advantages.of(table, values, {"episode": values.copy()}, report, keep=keep, state=now)

    return without_copies(steps, estimate, state=state)


def replacements(result: Advantages) -> list[Replacement]:
    """Return what goes where, of a result of `arpo_replay`."""
    return [Replacement(*item) for item in _memory(result.state)["replaced"]]


def stored(state: object) -> list[tuple[Any, int, Any]]:
    """Return task, call and trajectory of every success that a later call may want; all others can be forgotten.

    Args:
        state: of a result of `arpo_replay`.
    """
    return [(task, call, name) for task, kept in _memory(state)["stored"].items() for call, name, _ in kept]


def _ids(episodes: Episodes) -> list[tuple[Any, Any]]:
    """Task and trajectory of each episode as the caller named them, [J]; codes where the table has no names."""
    steps, first = episodes.steps, episodes.first
    tasks, trajectories = steps.names.get("task"), steps.names.get("trajectory")
    pairs = zip(steps.task[first].tolist(), steps.trajectory[first].tolist(), strict=True)
    ids = [(tasks[t] if tasks else t, trajectories[j] if trajectories else j) for t, j in pairs]
    try:
        hash(tuple(ids))
    except TypeError as error:
        raise BadTable(
            f"arpo_replay remembers ids of tasks and trajectories, which must be hashable: {error}"
        ) from error
    return ids


def _draw(
    failed: Ints, episodes: Episodes, ids: list[tuple[Any, Any]], kept: dict[Any, Any], rng: np.random.Generator | None
) -> dict[int, tuple[int, Any, float]]:
    """For the first failure of each group for which there is a stored success, one of these at random."""
    first: dict[int, int] = {}
    for slot in failed.tolist():
        if kept.get(ids[slot][0]):
            first.setdefault(int(episodes.task[slot]), slot)
    slots = sorted(first.values(), key=lambda slot: repr(ids[slot][0]))  # the order of rows must not change the draws
    assert rng is not None or not slots
    return {slot: kept[ids[slot][0]][int(rng.integers(len(kept[ids[slot][0]])))] for slot in slots if rng is not None}


def _store(
    memory: dict[str, Any], episodes: Episodes, ids: list[tuple[Any, Any]], success: float, capacity: int
) -> dict[Any, list[tuple[int, Any, float]]]:
    """The stored successes by task after this call's are added, the oldest ones over capacity left out."""
    kept = {task: list(items) for task, items in memory["stored"].items()}
    won = np.flatnonzero(episodes.score > success)
    for number in won[np.argsort(episodes.place[won])].tolist():
        task, name = ids[number]
        kept.setdefault(task, []).append((memory["calls"], name, float(episodes.score[number])))
    return {task: items[-capacity:] for task, items in kept.items()}


def _memory(state: object) -> dict[str, Any]:
    """What a state remembers; nothing for None."""
    if state is None:
        return {"calls": 0, "stored": {}, "replaced": []}
    if not isinstance(state, Mapping) or not {"calls", "stored", "replaced"} <= state.keys():
        raise BadOption(f"state must be the state that arpo_replay returned, got {state!r}")
    return dict(state)
