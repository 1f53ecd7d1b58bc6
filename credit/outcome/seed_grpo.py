"""SEED-GRPO: smaller updates where the policy's answers to a task mean many different things.

Left out on purpose: finding out which answers mean the same. The column `label` holds the semantic cluster.
"""

import numpy as np

from turnwise.credit.advantages import Advantages
from turnwise.credit.blocks import Scale, Singleton, check_number, standardise
from turnwise.credit.episodes import Episodes
from turnwise.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turnwise.credit.outcome.answers import answer_entropy
from turnwise.credit.steps import Floats, Steps, need


def seed_grpo(
    steps: Steps,
    *,
    alpha: float = 0.5,
    scale: Scale = "none",
    singleton: Singleton = "zero",
    ddof: int = 1,
    eps: float = 1e-6,
    invalid_penalty: float = INVALID_PENALTY,
) -> Advantages:
    """Return the episode's standing in its task, scaled down by the semantic entropy of the task's answers.

        A = (E - mean) * (1 - alpha * H / log G)        H = - sum over clusters c of p_c log p_c

    where p_c is the share of the task's G episodes in cluster c. Answers that all mean the same keep the full
    advantage, answers that all mean something else keep 1 - alpha of it.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 1],
        ...                            label=["4", "5", "5", "4"])
        >>> seed_grpo(steps).values.tolist()
        [0.375, -0.375, -0.375, 0.375]

    Args:
        steps: the table; needs `label`, the key of the answer's cluster, the same in all rows of a trajectory.
        alpha: what the most uncertain task loses, in [0, 1].
        scale: "none" (mean only, as the paper), "std" or "mad".
        singleton: a group of one gives "zero" or its "raw" score; its entropy is zero.
        ddof: 1 divides the squares by n - 1, 0 by n.
        eps: added to the spread.
        invalid_penalty: what an invalid action costs, taken from that turn's reward.

    Returns:
        Advantages with the parts "episode" (the result) and "grpo" (before the scaling); its report has the mean of
        H / log G.

    Raises:
        MissingColumn: there is no `label`.
        BadTable: `label` differs within a trajectory.
        BadOption: an option has an impossible value.

    Source: Chen et al. 2025, arXiv 2505.12346. Our reading: clusters weigh by their frequency, not by the likelihood of
    their answers; the linear form of the scaling; alpha.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("alpha", alpha, 0.0, 1.0)
    need(steps, "seed_grpo", "label")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        base = standardise(episodes.groups, scale=scale, ddof=ddof, eps=eps, singleton=singleton)
        uncertainty = _uncertainty(episodes)
        value = base * (1.0 - alpha * uncertainty)
        report = {**episodes.counts, "uncertainty": float(uncertainty.mean()) if len(value) else 0.0}
        return episodes.advantages(value, {"episode": value, "grpo": base}, report)

    return without_copies(steps, estimate)


def _uncertainty(episodes: Episodes) -> Floats:
    """Entropy of the answers of each trajectory's group relative to the largest possible, float64 [J]."""
    entropy = answer_entropy(episodes.task, np.asarray(episodes.of_trajectory("seed_grpo", "label")))
    largest = np.log(np.maximum(episodes.groups.size, 2.0))[episodes.task]
    return np.minimum(entropy / largest, 1.0)
