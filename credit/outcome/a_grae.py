"""A-GRAE: shift weight to hard tasks as the batch gets easier, and damp positive credit while it is hard."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Scale, Singleton, exact_sums
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.outcome.answers import THRESHOLD, share, solved
from turncredit.credit.steps import Floats, Steps


def a_grae(
    steps: Steps,
    *,
    alpha: float = 1.0,
    threshold: float = THRESHOLD,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return GRPO's advantage, weighted by the difficulty of the task and the success rate of the batch.

        s = GRPO's advantage        p = share of the task's episodes that are right        m = mean of p over the tasks
        A = (1 - m) * s / (2 (1 - sqrt(p) + eps)) + m * s / (2 (sqrt(p) + eps))
        A = A * min(1, m / alpha)        where A > 0

    The first term favours easy tasks and dominates at low success rates; the second favours hard ones. A task whose
    episodes are all right or all wrong gets zero, since one weight is infinite there. m is over the whole batch, so
    groups depend on each other.

    Args:
        steps: the table.
        alpha: success rate of the batch from which positive advantages have full weight, > 0.
        threshold: episodes with a higher score are right.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`; for s. `eps` is also added in the weights.

    Returns:
        Advantages with the parts "episode" (the result) and "grpo" (s); the report has m.

    Source: Yu et al. 2026, arXiv 2602.05548; the formula is that of the published code. We differ where rewards
    are not binary: p and m count right episodes.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("threshold", threshold)
    check_number("alpha", alpha, 0.0, open_low=True)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        base = options.normalise(episodes.groups)
        right = share(solved(table, threshold), episodes.task)
        ability = _mean_over_tasks(right, episodes)
        mixed = np.asarray((1.0 - ability) * _halved(base, 1.0 - np.sqrt(right), eps, right))
        mixed = mixed + ability * _halved(base, np.sqrt(right), eps, right)
        value = np.where(mixed > 0.0, mixed * min(1.0, ability / alpha), mixed)
        return episodes.advantages(value, {"episode": value, "grpo": base}, {**episodes.counts, "correct": ability})

    return without_copies(steps, estimate)


def _halved(base: Floats, weight: Floats, eps: float, right: Floats) -> Floats:
    """Half of base over weight, float64 [J]; zero where all episodes of the task have the same outcome."""
    mixed = (right > 0.0) & (right < 1.0)
    return np.divide(0.5 * base, weight + eps, out=np.zeros(len(base)), where=mixed)


def _mean_over_tasks(value: Floats, episodes: Episodes) -> float:
    """Mean over the tasks of a number in [0, 1] that is the same for all of a task's episodes."""
    tasks = len(episodes.groups.size)
    if not tasks:
        return 0.0
    of_task = np.zeros(tasks)
    of_task[episodes.task] = value
    return float(exact_sums(np.zeros(tasks, dtype=np.int64), of_task, 1)[0]) / tasks
