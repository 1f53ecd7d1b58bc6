"""ARPO with replay: a group in which every episode failed gets a stored success in place of one failure.

A stored success may come from an earlier iteration, so its turns are not in the table. The rule works with scores and
ids; the caller keeps the trajectories. `stored` lists what to keep, and `replacements` what to train on instead; the
turns of the replaced failure have `keep` False.

    result = arpo_replay(steps, state=state, rng=rng)
    for new in replacements(result):                  # train on the stored success with its advantage here
        train_on(store[new.task, new.call, new.stored], new.advantage)
    state = result.state
    store = {key: store.get(key) or turns_of(key) for key in stored(state)}
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption, BadTable
from turncredit.credit.numerics import Groups, Scale, Singleton
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.steps import Ints, Steps, need


@dataclass(frozen=True, slots=True)
class Replacement:
    """A stored success that replaces a failure.

    Args:
        task: id of the task instance, as the table has it.
        trajectory: id of the replaced failure.
        call: number of the call in whose table the success was, from 0.
        stored: id that the success had in that table.
        advantage: the advantage of every turn of the success.
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
    """Return GRPO's advantages after one failure of each failed group was replaced by a stored success of its task.

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
        steps: the table. Task ids must be the same from call to call; ids must be hashable.
        low_std, low_mean: thresholds of a failed group, in units of reward.
        success: a trajectory with a higher score is a success, in units of reward.
        capacity: number of successes kept per task; older ones are dropped.
        state: the state that the previous call returned; None at first.
        rng: draws the success to use.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`. Nothing is replaced in a group of one.

    Returns:
        Advantages with the part "episode"; for a replaced trajectory the value is zero and `keep` False. Read `state`
        with `stored` and the result with `replacements`.

    Raises:
        BadOption: `rng` is missing, or `state` is not a state of this function.
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
    """Return the replacements in a result of `arpo_replay`."""
    return [Replacement(*item) for item in _memory(result.state)["replaced"]]


def stored(state: object) -> list[tuple[Any, int, Any]]:
    """Return task, call and trajectory of every success that a later call may use; others can be discarded.

    Args:
        state: the state of a result of `arpo_replay`.
    """
    return [(task, call, name) for task, kept in _memory(state)["stored"].items() for call, name, _ in kept]


def _ids(episodes: Episodes) -> list[tuple[Any, Any]]:
    """Task id and trajectory id of each episode, [J]."""
    names = (episodes.steps.ids(name)[episodes.first].tolist() for name in ("task", "trajectory"))
    ids = list(zip(*names, strict=True))
    try:
        hash(tuple(ids))
    except TypeError as error:
        raise BadTable(f"arpo_replay needs hashable ids of tasks and trajectories: {error}") from error
    return ids


def _draw(
    failed: Ints, episodes: Episodes, ids: list[tuple[Any, Any]], kept: dict[Any, Any], rng: np.random.Generator | None
) -> dict[int, tuple[int, Any, float]]:
    """A random stored success for the first failure of each failed group."""
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
    """The stored successes by task, with those of this call added and the oldest over capacity dropped."""
    kept = {task: list(items) for task, items in memory["stored"].items()}
    won = np.flatnonzero(episodes.score > success)
    for number in won[np.argsort(episodes.place[won])].tolist():
        task, name = ids[number]
        kept.setdefault(task, []).append((memory["calls"], name, float(episodes.score[number])))
    return {task: items[-capacity:] for task, items in kept.items()}


def _memory(state: object) -> dict[str, Any]:
    """The content of a state; empty for None."""
    if state is None:
        return {"calls": 0, "stored": {}, "replaced": []}
    if not isinstance(state, Mapping) or not {"calls", "stored", "replaced"} <= state.keys():
        raise BadOption(f"state must be the state that arpo_replay returned, got {state!r}")
    return dict(state)
