"""COPO: where the answers of a group agree, compare groups with each other instead of the members of one.

Left out on purpose: parsing of answers. The column `label` says which answers are the same.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Groups, Scale, check_flag, check_number, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.outcome.answers import answer_entropy
from turnwise.credit.steps import Floats, Steps, need


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
    """Return the episode's standing in its group, blended with its group's standing in the batch.

        local = norm(E over the episodes of the task)                norm(x) = (x - mean) / (std + eps)
        global = norm(mean of E over the tasks of the batch)
        A = w * local + (1 - w) * global        w = 1 / (1 + exp(-steepness * (H - pivot)))

    where H is the entropy of the group's answers in bits. The more the answers agree, the more the comparison of
    groups counts, which gives a signal where all are right or all wrong. By that the method is about the whole batch:
    groups do see each other.

    Args:
        steps: the table; needs `label`, the key of the answer's class, the same in all rows of a trajectory.
        steepness: how sharply w changes with the entropy, per bit.
        pivot: entropy in bits at which both terms weigh the same.
        consistency: whether a group's score is held down by the entropy of its n answers: the global term is then that
            of mean of E * (1 - k H), k = (1 - 1 / n) / log2 n. (Ours.)
        scale: "std", "none" (mean only) or "mad", for both terms.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, taken from that turn's reward.

    Returns:
        Advantages with the parts "episode" (the result), "local" and "global"; its report has the mean entropy. A batch
        of one task has a global term of zero, a group of one a local term of zero.

    Raises:
        MissingColumn: there is no `label`.
        BadTable: `label` differs within a trajectory.
        BadOption: an option has an impossible value.

    Source: Han et al. 2025, arXiv 2508.04138. Our reading: we had no code to check it against, and the equations were
    not available. H in bits, the pivot, and that the advantages are blended and not the losses, are ours.
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
    """Standing of each episode's group among the groups of the batch, float64 [J]."""
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
    """Mean score of each episode's group, float64 [J], to the same bits whatever the order of rows."""
    order = np.lexsort((episodes.score, episodes.task))
    total = np.bincount(episodes.task[order], weights=episodes.score[order])
    return np.asarray((total / np.maximum(episodes.groups.size, 1.0))[episodes.task], dtype=np.float64)
