"""DCPO's smoothed advantages: an episode relative to this batch's group and to all earlier visits of its task."""

from collections.abc import Hashable, Mapping

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import ROUNDING
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import GroupOptions, without_copies
from turncredit.credit.steps import Floats, Steps

Memory = Mapping[Hashable, tuple[int, float, float]]


def dcpo_sas(steps: Steps, *, ddof: int = 1, eps: float = 1e-6, state: object = None) -> Advantages:
    """Return the smaller of two mixes of an episode's normalised score in this batch and over all visits of its task.

        new = (E - m) / (s + eps)          m, s: mean and std of the task's episodes in this batch
        total = (E - M) / (S + eps)        M, S: of all i visits of the task, including this one
        A = ((i - 1) new + total) / i  or  (new + (i - 1) total) / i, whichever is closer to zero

    with M <- ((i - 1) M + m) / i and S^2 <- ((i - 1) S^2 + s^2 + (i - 1) / i (m - M before)^2) / i. A term
    with a spread of zero is zero. On the first visit both terms equal A. On later visits, zero-variance groups and
    groups of one get a signal from the earlier visits.

        >>> steps = Steps.from_columns(task=["t"] * 2, trajectory=[0, 1], turn=[0, 0], reward=[1.0, 1.0])
        >>> result = dcpo_sas(steps, eps=0.0, state={"t": (1, 0.0, 0.0)})
        >>> result.values.tolist(), result.state["t"]
        ([0.5, 0.5], (2, 0.5, 0.5))

    Args:
        steps: the table.
        ddof, eps: see `GroupOptions`.
        state: the state that the previous call returned: a dict from the task id to (visits, M, S).

    Returns:
        Advantages with the parts "episode", "new" and "total"; `state` is a new dict.

    Raises:
        BadOption: `state` is not a state of this function.
        BadTable: a task id is not hashable.

    Source: Yang et al. 2025, arXiv 2509.02333, and its code, which has no eps; of two mixes of equal size we take
    the first.
    """
    options = GroupOptions(ddof=ddof, eps=eps)
    known = _checked(state)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        groups, task = episodes.groups, episodes.task
        keys = episodes.task_keys("dcpo_sas")
        before = np.array([known.get(key, (0, 0.0, 0.0)) for key in keys], dtype=np.float64).reshape(-1, 3)
        visit, mean, deviation = before[:, 0] + 1.0, groups.mean(), groups.deviation(options.ddof)
        centre = before[:, 1] + (mean - before[:, 1]) / visit
        shift = np.where(visit > 1.0, mean - before[:, 1], 0.0)
        squares = (visit - 1.0) * before[:, 2] ** 2 + deviation**2 + (visit - 1.0) / visit * shift**2
        noise = ROUNDING * np.maximum(np.abs(centre), np.abs(mean))
        spread = np.sqrt(squares / visit)
        spread = np.where(spread <= noise, 0.0, spread)
        new = _scaled(groups.centred(), deviation[task], options.eps)
        total = _scaled(groups.centred() + (mean - centre)[task], spread[task], options.eps)
        i = visit[task]
        one, other = ((i - 1.0) * new + total) / i, (new + (i - 1.0) * total) / i
        value = np.where(np.abs(one) <= np.abs(other), one, other)
        fresh = float((visit == 1.0).sum())
        rows = zip(keys, visit.tolist(), centre.tolist(), spread.tolist(), strict=True)
        after = {**known, **{key: (int(count), middle, width) for key, count, middle, width in rows}}
        parts, report = (
            {"episode": value, "new": new, "total": total},
            {"tasks": float(len(keys)), "tasks_unseen": fresh},
        )
        return episodes.advantages(value, parts, report, state=after)

    return without_copies(steps, estimate, state=state)


def _scaled(distance: Floats, spread: Floats, eps: float) -> Floats:
    """The distance over spread + eps; zero where there is no spread."""
    return np.divide(distance, spread + eps, out=np.zeros(len(distance)), where=spread > 0.0)


def _checked(state: object) -> Memory:
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise BadOption(f"state must be the dict that the previous call returned, got {type(state).__name__}")
    for task, entry in state.items():
        numbers = np.asarray(entry)
        if numbers.shape != (3,) or numbers.dtype.kind not in "iuf" or not np.isfinite(numbers).all():
            raise BadOption(f"state[{task!r}] must be (visits, mean, deviation), got {entry!r}")
        check_number(f"state[{task!r}] (visits)", float(numbers[0]), 1.0)
        check_number(f"state[{task!r}] (deviation)", float(numbers[2]), 0.0)
    return state
