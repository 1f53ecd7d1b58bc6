"""SPO (single-stream): the outcome of an episode relative to a running estimate of its task's success rate."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption, BadTable
from turncredit.credit.numerics import Groups, standardise
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import GroupOptions, without_copies
from turncredit.credit.steps import Floats, Steps, need

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
    prior: float = 1.0,
    state: object = None,
) -> Advantages:
    """Return the episode's score minus its task's tracked success rate, normalised over the batch.

        A[i, t] = (d[i] - mean) / (std + eps)          over all trajectories of the batch
        d[i] = E[i] - a / (a + b)                      a, b: the tracker of the task before this batch
        E[i] = sum over t of r[i, t], ideally in [0, 1]

    and then, for the next call,

        a <- rho a + sum of E      b <- rho b + sum of (1 - E)      over the n trajectories of the task in the batch
        rho = clip(2^(-D / half_life), rho_min, rho_max)            D: mean drift of the task

    One episode per task is enough. Mean and std are those of the batch, so tasks depend on each other, and a batch of
    one episode gives zero. For n > 1, which the paper does not define, the sums and one decay per batch are our
    reading.

        >>> steps = Steps.from_columns(task=["t", "u"], trajectory=[0, 1], turn=[0, 0], reward=[1.0, 1.0])
        >>> result = spo_single_stream(steps, drift=0.0, ddof=0, state={"t": (9.0, 1.0)})
        >>> result.values.round(6).tolist(), result.state["u"]
        ([-1.0, 1.0], (1.48, 0.48))

    Args:
        steps: the table; needs `metric` unless `drift` is given: one number per trajectory, the mean absolute change
            of the log-probability of the tokens of the task's last response since it was sampled, nats.
        drift: one such number for all trajectories, instead of the column.
        half_life: drift that halves the weight of the memory, nats.
        rho_min, rho_max: bounds of the decay per batch, in [0, 1].
        prior: weight of a new task's tracker, in episodes: it starts with a = b = prior / 2.
        state: the state that the previous call returned: a dict from the task id to (a, b). `offline_trackers` creates
            a first state from earlier episodes.
        ddof, eps: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode", "baseline" (a / (a + b)) and "rho"; `state` is a new dict.

    Raises:
        BadOption: `state` is not a state of this function.
        BadTable: `metric` differs within a trajectory, or a task id is not hashable.

    Source: Xu and Ding 2025, arXiv 2509.13232.
    """
    options = GroupOptions(ddof=ddof, eps=eps)
    check_number("half_life", half_life, 1e-12)
    check_number("rho_max", rho_max, 0.0, 1.0)
    check_number("rho_min", rho_min, 0.0, rho_max)
    check_number("prior", prior, 1e-12)
    if drift is None:
        need(steps, "spo_single_stream", "metric")
    else:
        check_number("drift", drift, 0.0)
    known = _checked(state)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        keys = episodes.task_keys("spo_single_stream")
        tracked = np.array([known.get(key, (prior / 2.0, prior / 2.0)) for key in keys], dtype=np.float64).reshape(
            -1, 2
        )
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
    """Return a first `state` from the scores of episodes played before training.

        a = n0 (sum of s + 1/2) / (N + 1)      b = n0 - a      n0 = 1 / (1 - rho_min)

        >>> offline_trackers({"t": [1.0, 0.0, 0.0]})
        {'t': (3.0, 5.0)}

    Args:
        scores: the N scores of each task by its id, in [0, 1].
        rho_min: as in `spo_single_stream`, below 1.

    Raises:
        BadOption: rho_min is outside [0, 1).
    """
    check_number("rho_min", rho_min, 0.0, float(np.nextafter(1.0, 0.0)))
    reach = 1.0 / (1.0 - rho_min)
    rates = {task: (float(np.sum(found)) + 0.5) / (len(found) + 1.0) for task, found in scores.items()}
    return {task: (reach * rate, reach * (1.0 - rate)) for task, rate in rates.items()}


def sampling_weights(state: object) -> dict[Hashable, float]:
    """Return sampling weights for the tasks in a state: sqrt(p (1 - p)) + 0.05, p = a / (a + b).

        >>> sampling_weights({"t": (1.0, 1.0), "u": (0.0, 2.0)})
        {'t': 0.55, 'u': 0.05}

    Args:
        state: a state that `spo_single_stream` returned.

    Raises:
        BadOption: `state` is not such a state.
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
