"""XRPO's novelty sharpening: a bonus for right answers that were less likely than the group's others."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, Singleton
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.outcome.answers import THRESHOLD, solved
from turncredit.credit.steps import Bools, Floats, Ints, Steps, need


def xrpo_novelty(
    steps: Steps,
    *,
    lam: float = 1.0,
    kappa: float = 1.0,
    threshold: float = THRESHOLD,
    scale: Scale = "std",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return GRPO's advantage, increased for right episodes whose tokens were less likely than the group's.

        s = mean log-probability of the episode's tokens        eta = exp(s - mean of s over the task)
        A = GRPO + min(max(lam * (1 - eta), 0), kappa * GRPO)        where the episode is right
        A = GRPO                                                     where it is wrong

    Args:
        steps: the table; needs `logprob`; with `tokens` turns are weighted by their number.
        lam: size of the bonus.
        kappa: the bonus is at most this multiple of the advantage; negative advantages get no bonus.
        threshold: episodes with a higher score are right.
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`.

    Returns:
        Advantages with the parts "episode" (GRPO) and "novelty" (the bonus), which add up to the result.

    Source: arXiv 2510.06672. Our reading: the formula is from a secondary description; no code was available.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("lam", lam, 0.0)
    check_number("kappa", kappa, 0.0)
    check_number("threshold", threshold)
    need(steps, "xrpo_novelty", "logprob")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        base = options.normalise(episodes.groups)
        bonus = novelty_bonus(base, episodes.logprob, episodes.task, solved(table, threshold), lam=lam, kappa=kappa)
        return episodes.advantages(base + bonus, {"episode": base, "novelty": bonus}, episodes.counts)

    return without_copies(steps, estimate)


def relative_likelihood(logprob: Floats, task: Ints) -> Floats:
    """Return eta, the likelihood of each episode relative to the geometric mean of its task, float64 [J], at most e^50.

    Args:
        logprob: float64 [J], mean log-probability of the episode's tokens, nats.
        task: compact int64 [J], the group of each trajectory.
    """
    return np.exp(np.minimum(Groups(logprob, task).centred(), 50.0))


def novelty_bonus(
    advantage: Floats, logprob: Floats, task: Ints, right: Bools, *, lam: float = 1.0, kappa: float = 1.0
) -> Floats:
    """Return the bonus of right episodes, float64 [J], zero for wrong ones.

        bonus = min(max(lam * (1 - eta), 0), kappa * A)

        >>> one = np.zeros(2, dtype=np.int64)
        >>> novelty_bonus(np.array([0.4, -0.4]), np.array([-2.0, -1.0]), one, np.array([True, False])).round(4).tolist()
        [0.3935, 0.0]

    Args:
        advantage: float64 [J], A, of any outcome rule.
        logprob: float64 [J], mean log-probability of the episode's tokens, nats.
        task: compact int64 [J], the group of each trajectory.
        right: bool [J].
        lam, kappa: see `xrpo_novelty`.
    """
    bonus = np.maximum(lam * (1.0 - relative_likelihood(logprob, task)), 0.0)
    return np.where(right, np.minimum(bonus, kappa * np.maximum(advantage, 0.0)), 0.0)
