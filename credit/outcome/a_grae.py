"""A-GRAE: weight hard tasks more as the batch gets easier, and hold positive credit back while it is hard.

Left out on purpose: a schedule over the run. The batch's own success rate takes its place.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Scale, Singleton, check_number, exact_sums, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.outcome.answers import THRESHOLD, share, solved
from turnwise.credit.steps import Floats, Steps


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
    """Return GRPO's advantage reweighted by how hard the task is and how able the policy has become.

        s = GRPO's advantage        p = share of the task's episodes that are right        m = mean of p over the tasks
        A = (1 - m) * s / (2 (1 - sqrt(p) + eps)) + m * s / (2 (sqrt(p) + eps))
        A = A * min(1, m / alpha)        where A > 0

    The first term favours easy tasks and counts while the policy is weak, the second favours hard ones. A task whose
    episodes are all right or all wrong gets zero: one of the weights has no finite value there. The mean m is taken
    over the whole batch, so groups do see each other here.

    Args:
        steps: the table; needs no column beyond the required ones.
        alpha: success rate of the batch from which on positive advantages count in full, above 0.
        threshold: a score above it is right.
        scale: "std", "none" (mean only) or "mad", for s.
        singleton: a group of one gives "zero" or its "raw" score as s; its weights are zero all the same.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread and in the weights.
        invalid_penalty: what an invalid action costs, taken from that turn's reward.

    Returns:
        Advantages with the parts "episode" (the result) and "grpo" (s); its report has the mean success rate m.

    Raises:
        BadOption: an option has an impossible value.

    Source: Yu et al. 2026, arXiv 2602.05548; the formula is that of the published code, which takes the
    square root of p and was run for binary rewards. We differ where rewards are not binary: p and m
    count episodes that are right.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("threshold", threshold)
    check_number("alpha", alpha, 0.0, open_low=True)

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        base = standardise(episodes.groups, scale=scale, ddof=ddof, eps=eps, singleton=singleton)
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
