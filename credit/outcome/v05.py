"""V0.5: the outcome against a mixture of the group's mean and a prior value, which a surprising group outweighs."""

from collections.abc import Hashable, Mapping
from typing import Literal

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.errors import BadOption
from turncredit.credit.numerics import Groups
from turncredit.credit.option_checks import check_choice, check_number
from turncredit.credit.options import without_copies
from turncredit.credit.outcome.answers import THRESHOLD
from turncredit.credit.steps import Floats, Steps, need

PriorFrom = Literal["memory", "value"]
Memory = Mapping[Hashable, tuple[int, int]]


def v05(
    steps: Steps,
    *,
    prior_from: PriorFrom = "memory",
    prior: float = 0.0,
    threshold: float = THRESHOLD,
    state: object = None,
) -> Advantages:
    """Return 1 or -1 for a right or wrong episode, minus a mean that is shrunk toward a prior value of its task.

        A[i, t] = x[i] - (w m + (1 - w) V)        x[i] = 1 if right, else -1
        w = D2 / (D2 + 1/k)                       D2 = max(0, (m - V)^2 - 1/k)

    with m the mean of x over the k episodes of the task. 1/k bounds the variance of m: a difference from the prior V
    that chance explains leaves V as the baseline, and a large one the mean. So a group whose episodes all ended alike
    has a signal unless V says so too.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 0])
        >>> result = v05(steps, prior=0.6)
        >>> result.parts["baseline"].round(4).tolist()[0], result.state["t"]
        (-0.2727, (4, 1))

    Args:
        steps: the table; needs `value` if the prior is from there.
        prior_from: "memory": V is the mean of x over the task's episodes in earlier calls, as the group rule v05 has
            it; "value": V = 2 v - 1, with v the value of a trajectory's first turn, clipped to [0, 1]: the probability
            that it will be right, the same in all trajectories of a task up to their mean.
        prior: V of a task that the memory does not hold, in [-1, 1].
        threshold: episodes with a higher score are right.
        state: the state that the previous call returned: a dict from the task id to (episodes, right ones).

    Returns:
        Advantages with the parts "episode", "baseline" (w m + (1 - w) V) and "share" (w); `state` is a new dict, or
        None where the prior is from `value`.

    Raises:
        BadOption: `state` is not a state of this function.
        BadTable: a task id is not hashable.

    Source: Zhang et al. 2026 (V0.5), arXiv 2603.10848. Our reading of a description; V is a value model's
    there.
    """
    check_choice("prior_from", prior_from, PriorFrom)
    check_number("prior", prior, -1.0, 1.0)
    check_number("threshold", threshold)
    memory = _checked(state)
    if prior_from == "value":
        need(steps, "v05", "value")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table)
        right = episodes.score > threshold
        answers = Groups(np.where(right, 1.0, -1.0), episodes.task)
        after: dict[Hashable, tuple[int, int]] | None = None
        if prior_from == "value":
            chance = np.clip(table.column("value")[episodes.first], 0.0, 1.0)
            value = 2.0 * Groups(chance, episodes.task).mean() - 1.0
        else:
            keys = episodes.task_keys("v05")
            before = [memory.get(key, (0, 0)) for key in keys]
            value = np.array([2.0 * wins / count - 1.0 if count else prior for count, wins in before])
            wins = np.bincount(episodes.task, weights=right).astype(np.int64).tolist()
            sizes = answers.size.astype(np.int64).tolist()
            sums = [(old[0] + size, old[1] + won) for old, size, won in zip(before, sizes, wins, strict=True)]
            after = {**memory, **dict(zip(keys, sums, strict=True))}
        baseline, share = _mixture(answers.mean(), value, 1.0 / answers.size)
        result = np.where(right, 1.0, -1.0) - baseline[episodes.task]
        parts = {"episode": result, "baseline": baseline[episodes.task], "share": share[episodes.task]}
        return episodes.advantages(result, parts, {**episodes.counts, "correct": float(right.mean())}, state=after)

    return without_copies(steps, estimate, state=state)


def _mixture(mean: Floats, value: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return w m + (1 - w) V and w, float64 [tasks] each."""
    surprise = np.maximum(0.0, (mean - value) ** 2 - noise)
    share = surprise / (surprise + noise)
    return share * mean + (1.0 - share) * value, share


def _checked(state: object) -> Memory:
    if state is None:
        return {}
    if not isinstance(state, Mapping):
        raise BadOption(f"state must be the dict that the previous call returned, got {type(state).__name__}")
    for task, entry in state.items():
        numbers = np.asarray(entry)
        usable = numbers.shape == (2,) and numbers.dtype.kind in "iu" and 0 <= numbers[1] <= numbers[0]
        if not usable:
            raise BadOption(f"state[{task!r}] must be (episodes, right ones), two integers, got {entry!r}")
    return state
