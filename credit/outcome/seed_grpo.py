"""SEED-GRPO: smaller updates on tasks whose answers have many different meanings."""

import numpy as np

from turncredit.credit.advantages import Advantages
from turncredit.credit.episodes import Episodes
from turncredit.credit.numerics import Scale, Singleton
from turncredit.credit.option_checks import check_number
from turncredit.credit.options import INVALID_PENALTY, GroupOptions, without_copies
from turncredit.credit.outcome.answers import answer_entropy
from turncredit.credit.steps import Floats, Steps, need


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
    """Return the episode's normalised score, scaled down by the semantic entropy of the task's answers.

        A = (E - mean) * (1 - alpha * H / log G)        H = - sum over clusters c of p_c log p_c

    where p_c is the share of the task's G episodes in cluster c. Tasks whose answers all mean the same keep the
    full advantage; tasks whose answers all differ keep 1 - alpha of it.

        >>> steps = Steps.from_columns(task=["t"] * 4, trajectory=range(4), turn=[0] * 4, reward=[1.0, 0, 0, 1],
        ...                            label=["4", "5", "5", "4"])
        >>> seed_grpo(steps).values.tolist()
        [0.375, -0.375, -0.375, 0.375]

    Args:
        steps: the table; needs `label`, the key of the answer's cluster, constant within a trajectory.
        alpha: largest reduction, in [0, 1].
        scale, singleton, ddof, eps, invalid_penalty: see `GroupOptions`; the paper has scale="none".

    Returns:
        Advantages with the parts "episode" (the result) and "grpo" (before the scaling); the report has the mean of
        H / log G.

    Raises:
        BadTable: `label` differs within a trajectory.

    Source: Chen et al. 2025, arXiv 2505.12346. Our reading: clusters are weighted by frequency, not by likelihood; the
    linear scaling; alpha.
    """
    options = GroupOptions(scale=scale, singleton=singleton, ddof=ddof, eps=eps, invalid_penalty=invalid_penalty)
    check_number("alpha", alpha, 0.0, 1.0)
    need(steps, "seed_grpo", "label")

    def estimate(table: Steps) -> Advantages:
        episodes = Episodes.of(table, reward=options.penalised_reward(table))
        base = options.normalise(episodes.groups)
        uncertainty = _uncertainty(episodes)
        value = base * (1.0 - alpha * uncertainty)
        report = {**episodes.counts, "uncertainty": float(uncertainty.mean())}
        return episodes.advantages(value, {"episode": value, "grpo": base}, report)

    return without_copies(steps, estimate)


def _uncertainty(episodes: Episodes) -> Floats:
    """H / log G of each trajectory's group, float64 [J]."""
    entropy = answer_entropy(episodes.task, np.asarray(episodes.of_trajectory("seed_grpo", "label")))
    largest = np.log(np.maximum(episodes.groups.size, 2.0))[episodes.task]
    return np.minimum(entropy / largest, 1.0)
