"""ADORA: full credit only in tasks where the right answers are the longer ones."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Scale, Singleton, group_sums
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.outcome.answers import THRESHOLD, solved
from turncredit.credit.steps import Bools, Steps, need


def adora(
    steps: Steps,
    *,
    lam: float = 0.1,
    threshold: float = THRESHOLD,
    max_tokens: int | None = None,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return GRPO's advantage, scaled down in tasks where longer answers were not better.

        A = GRPO's advantage * w

    where w is 1 if the task's longest right episode has more tokens than its wrong ones on average, else lam. A task
    without right episodes has w = lam, one without wrong episodes w = 1.

    Args:
        steps: the table; needs `tokens`.
        lam: the smaller factor.
        threshold: episodes with a higher score are right.
        max_tokens: wrong episodes with at least this many tokens are ignored as truncated; None counts all. The
            published code has 4054.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" (the result) and "grpo"; the report has the share of tasks with w = 1.

    Source: Ren et al. 2026, arXiv 2602.10019, the form of its published code for texts. We differ in the
    threshold, which is specific to the reward.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("lam", lam, 0.0)
    check_number("threshold", threshold)
    if max_tokens is not None:
        check_number("max_tokens", max_tokens, 1, whole=True)
    need(steps, "adora", "tokens")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        base = options.normalise(episodes.groups)
        right = solved(table, threshold)
        wrong = ~right if max_tokens is None else ~right & (episodes.tokens < max_tokens)
        full = _length_pays(episodes, right, wrong)
        value = base * np.where(full, 1.0, float(lam))[episodes.task]
        report = {**episodes.counts, "tasks_in_full": float(full.mean())}
        return episodes.advantages(value, {"episode": value, "grpo": base}, report)

    return without_copies(steps, estimate)


def _length_pays(episodes: Episodes, right: Bools, wrong: Bools) -> Bools:
    """Whether a task's longest right episode is longer than its wrong ones on average, bool [tasks]."""
    tasks = len(episodes.groups.size)
    longest = np.full(tasks, -np.inf)
    np.maximum.at(longest, episodes.task[right], episodes.tokens[right])
    count = np.bincount(episodes.task[wrong], minlength=tasks)
    total = group_sums(episodes.task[wrong], episodes.tokens[wrong], tasks)
    average = np.where(count > 0, total / np.maximum(count, 1), -np.inf)
    return np.asarray(longest > average, dtype=np.bool_)
