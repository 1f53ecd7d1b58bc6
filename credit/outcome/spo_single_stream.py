"""SPO (single-stream): the outcome of an episode against a memory of how often its task went well.

Left out on purpose: the sampling of tasks by `sampling_weights`, and the log-probabilities from which the drift is
taken; both belong to training. The segment method of the same short name is another one.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, check_number, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.errors import BadOption, BadTable
from turnwise.credit.options import GroupOptions, without_copies
from turnwise.credit.steps import Floats, Steps, need

UNSEEN = (0.5, 0.5)
Trackers = Mapping[Hashable, tuple[float, float]]


def spo_single_stream(
    steps: Steps,
    *,
    drift: float | None = None,
    half_life: float = 0.06,
    rho_min: float = 0.875,
    rho_max: float = 0.96,
    ddof: int = 1,
    eps: float = 1e-8,
    state: object = None,
) -> Advantages:
    """Return how much better an episode did than its task's tracked success rate, on one scale for the batch.

        A[i, t] = (d[i] - mean) / (std + eps)          over all trajectories of the batch
        d[i] = E[i] - a / (a + b)                      a, b: the tracker of the task before this batch
        E[i] = sum over t of r[i, t], meant to lie in [0, 1]

    and then, for the next call,

        a <- rho a + sum of E      b <- rho b + sum of (1 - E)      over the n trajectories of the task in the batch
        rho = clip(2^(-D / half_life), rho_min, rho_max)            D: mean drift of the task

    The memory makes a group unnecessary: one episode a task is the usual case. Mean and spread are the batch's, so that
    an episode's advantage depends on those of other tasks; a batch of one episode gives zero. With one episode a task
    the update is the paper's; for n > 1, which it does not have, sums and one decay a batch are our reading.

        >>> steps = Steps.from_columns(task=["t", "u"], trajectory=[0, 1], turn=[0, 0], reward=[1.0, 1.0])
        >>> result = spo_single_stream(steps, drift=0.0, ddof=0, state={"t": (9.0, 1.0)})
        >>> result.values.round(6).tolist(), result.state["u"]
        ([-1.0, 1.0], (1.48, 0.48))

    Args:
        steps: the table; needs `metric` unless `drift` is given: one number a trajectory, the mean absolute change of
            the log-probability of the tokens of the task's last response between the policy that wrote it and the one
            of now, nats. How far the policy has moved says how much of the memory is outdated.
        drift: such a number for all, in place of the column.
        half_life: the drift that halves the memory, nats.
        rho_min, rho_max: bounds of what a batch leaves of the memory, in [0, 1].
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        state: what the last call gave back: a dict from the task's own id to its (a, b). A task that is not in it
            starts with (0.5, 0.5). `offline_trackers` makes a first one of episodes played earlier.

    Returns:
        Advantages with the parts "episode", "baseline" (a / (a + b)) and "rho"; `state` is a new dict.

    Raises:
        MissingColumn: there is no `metric` and no `drift`.
        BadOption: an option has an impossible value, or `state` is not what a call gave back.
        BadTable: `metric` differs within a trajectory, or a task's id cannot be remembered.

    Source: Xu and Ding 2025, arXiv 2509.13232.
    """
    options = GroupOptions(ddof=ddof, eps=eps)
    check_number("half_life", half_life, 1e-12)
    check_number("rho_max", rho_max, 0.0, 1.0)
    check_number("rho_min", rho_min, 0.0, rho_max)
    if drift is None:
        need(steps, "spo_single_stream", "metric")
    else:
        check_number("drift", drift, 0.0)
    known = _checked(state)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        keys = episodes.task_keys("spo_single_stream")
        tracked = np.array([known.get(key, UNSEEN) for key in keys], dtype=np.float64).reshape(-1, 2)
        baseline = tracked[:, 0] / tracked.sum(axis=1)
        better = episodes.score - baseline[episodes.task]
        terms = episodes.size_of_terms + np.abs(baseline[episodes.task])
        batch = Groups(better, np.zeros(len(episodes), dtype=np.int64), size_of_terms=terms)
        value = standardise(batch, ddof=options.ddof, eps=options.eps)
        rho = np.clip(2.0 ** (-_drift(episodes, drift) / half_life), rho_min, rho_max)
        parts = {"episode": value, "baseline": baseline[episodes.task], "rho": rho[episodes.task]}
        fresh = float(sum(key not in known for key in keys))
        report = {"tasks": float(len(keys)), "tasks_unseen": fresh}
        after = {**known, **_updated(episodes, keys, tracked, rho)}
        return episodes.advantages(value, parts, report, state=after)

    return without_copies(steps, estimate, state=state)


def offline_trackers(
    scores: Mapping[Hashable, Sequence[float]], *, rho_min: float = 0.875
) -> dict[Hashable, tuple[float, float]]:
    """Return a first `state` from the scores of episodes that were played before training.

        a = n0 (sum of s + 1/2) / (N + 1)      b = n0 - a      n0 = 1 / (1 - rho_min), the memory's longest reach

        >>> offline_trackers({"t": [1.0, 0.0, 0.0]})
        {'t': (3.0, 5.0)}

    Args:
        scores: the N scores of each task, by the task's id, in [0, 1].
        rho_min: as in `spo_single_stream`, below 1.

    Raises:
        BadOption: rho_min is outside [0, 1).
    """
    check_number("rho_min", rho_min, 0.0, float(np.nextafter(1.0, 0.0)))
    reach = 1.0 / (1.0 - rho_min)
    rates = {task: (float(np.sum(found)) + 0.5) / (len(found) + 1.0) for task, found in scores.items()}
    return {task: (reach * rate, reach * (1.0 - rate)) for task, rate in rates.items()}


def sampling_weights(state: object) -> dict[Hashable, float]:
    """Return how much each remembered task wants to be played next: sqrt(p (1 - p)) + 0.05, p = a / (a + b).

        >>> sampling_weights({"t": (1.0, 1.0), "u": (0.0, 2.0)})
        {'t': 0.55, 'u': 0.05}

    Args:
        state: what `spo_single_stream` gave back.

    Raises:
        BadOption: `state` is something else.
    """
    rates = {task: min(max(a / (a + b), 0.0), 1.0) for task, (a, b) in _checked(state).items()}
    return {task: (rate * (1.0 - rate)) ** 0.5 + 0.05 for task, rate in rates.items()}


def _checked(state: object) -> Trackers:
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise BadOption(f"state must be the dict that the previous call returned, got {type(state).__name__}")
    for task, pair in state.items():
        numbers = np.asarray(pair)
        usable = numbers.shape == (2,) and numbers.dtype.kind in "iuf" and bool(np.isfinite(numbers).all())
        if not usable or not numbers.sum() > 0.0:
            raise BadOption(f"state[{task!r}] must be two numbers with a positive sum, got {pair!r}")
    return state


def _drift(episodes: Episodes, drift: float | None) -> Floats:
    """float64 [tasks], the mean drift of each task."""
    if drift is not None:
        return np.full(len(episodes.groups.size), float(drift))
    moved = np.asarray(episodes.of_trajectory("spo_single_stream", "metric"), dtype=np.float64)
    if moved.size != len(episodes):
        raise BadTable(f"spo_single_stream expects one number per row in 'metric', got {moved.shape[1]}")
    return Groups(moved.reshape(-1), episodes.task).centre()


def _updated(
    episodes: Episodes, keys: Sequence[Hashable], tracked: Floats, rho: Floats
) -> dict[Hashable, tuple[float, float]]:
    count = episodes.groups.size
    wins = episodes.groups.centre() * count
    after = rho[:, None] * tracked + np.stack([wins, count - wins], axis=1)
    return dict(zip(keys, map(tuple, after.tolist()), strict=True))
