"""COPO: where the answers of a group agree, compare groups with each other instead of episodes."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Groups, Scale, standardise
from turncredit.credit.option_checks import check_flag, check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.outcome.answers import answer_entropy
from turncredit.credit.steps import Floats, Steps, need


def copo(
    steps: Steps,
    *,
    steepness: float = 1.0,
    pivot: float = 0.5,
    consistency: bool = False,
    scale: Scale = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's normalised score in its group, mixed with the group's normalised mean in the batch.

        local = norm(E over the episodes of the task)                norm(x) = (x - mean) / (std + eps)
        global = norm(mean of E over the tasks of the batch)
        A = w * local + (1 - w) * global        w = 1 / (1 + exp(-steepness * (H - pivot)))

    where H is the entropy of the group's answers in bits. The global term gives a signal where all answers of a group
    are right or wrong. It is over the whole batch, so groups depend on each other.

    Args:
        steps: the table; needs `label`, the key of the answer's class, constant within a trajectory.
        steepness: slope of w in the entropy, per bit.
        pivot: entropy in bits at which both terms have equal weight.
        consistency: reduce a group's mean by the entropy of its n answers: mean of E * (1 - k H) with
            k = (1 - 1 / n) / log2 n. (Our addition.)
        scale, ddof, eps, invalid_penalty: see `GroupOptions`; for both terms.

    Returns:
        Advantages with the parts "episode" (the result), "local" and "global"; the report has the mean entropy. The
        global term is zero for a batch of one task, the local term for a group of one.

    Raises:
        BadTable: `label` differs within a trajectory.

    Source: Han et al. 2025, arXiv 2508.04138. Our reading of the abstract; H in bits, the pivot, and mixing advantages
    instead of losses are ours.
    """
    options = GroupOptions(scale=scale, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("steepness", steepness, 0.0)
    check_number("pivot", pivot, 0.0)
    check_flag("consistency", consistency)
    need(steps, "copo", "label")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        bits = answer_entropy(episodes.task, np.asarray(episodes.of_trajectory("copo", "label"))) / np.log(2.0)
        local = standardise(episodes.groups, scale=scale, ddof=ddof, eps=eps)
        between = _between(episodes, bits if consistency else np.zeros(len(bits)), options)
        w = 1.0 / (1.0 + np.exp(-np.clip(steepness * (bits - pivot), -700.0, 700.0)))
        value = w * local + (1.0 - w) * between
        report = {**episodes.counts, "answer_entropy_bits": float(bits.mean())}
        return episodes.advantages(value, {"episode": value, "local": local, "global": between}, report)

    return without_copies(steps, estimate)


def _between(episodes: Episodes, bits: Floats, options: GroupOptions) -> Floats:
    """Mean of each episode's group, normalised over the groups of the batch, float64 [J]."""
    tasks = len(episodes.groups.size)
    size = episodes.groups.size
    most = (1.0 - 1.0 / np.maximum(size, 1.0)) / np.log2(np.maximum(size, 2.0))
    mean, entropy, terms = np.zeros(tasks), np.zeros(tasks), np.zeros(tasks)
    mean[episodes.task] = _means(episodes)
    entropy[episodes.task] = bits
    np.maximum.at(terms, episodes.task, episodes.size_of_terms)
    groups = Groups(mean * (1.0 - most * entropy), np.zeros(tasks, dtype=np.int64), size_of_terms=terms)
    return standardise(groups, scale=options.scale, ddof=options.ddof, eps=options.eps)[episodes.task]


def _means(episodes: Episodes) -> Floats:
    """Mean score of each episode's group, float64 [J]."""
    order = np.lexsort((episodes.score, episodes.task))
    total = np.bincount(episodes.task[order], weights=episodes.score[order])
    return np.asarray((total / np.maximum(episodes.groups.size, 1.0))[episodes.task], dtype=np.float64)
