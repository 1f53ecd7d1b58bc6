"""How much the credit rules of an ablation differ, measured before they make a difference: on the reference's turns."""

import statistics
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turnwise.ablation.plan import Ablation, Arm
from turnwise.agents.files.trajectory_files import read_trajectories
from turnwise.agents.steps import steps_of
from turnwise.agents.trajectory import Group, grouped
from turnwise.credit.errors import BadTable
from turnwise.credit.registry import get as get_credit_rule
from turnwise.training.config.sections import CreditSection


def credit_agreement(ablation: Ablation, arm: Arm, seed: int, first: int) -> float | None:
    """Return the correlation between the advantages of an arm and of the reference on the turns of the reference.

    Args:
        ablation: the ablation, whose first arm is the reference.
        arm: whose credit rule is applied to the trajectories that the reference arm played.
        seed: of the run.
        first: number of the first iterations that count.

    Returns:
        Pearson's correlation over turns, a mean over those iterations whose trajectories are stored. None if there are
        none, if a rule needs what they lack, or if all advantages of a rule are equal.
    """
    reference = ablation.arms[0]
    mine, other = ablation.run(reference, seed).credit, ablation.run(arm, seed).credit
    files = [_trajectories(ablation.folder_of(reference.folder, seed), iteration) for iteration in range(1, first + 1)]
    correlations = []
    for file in files:
        groups = grouped(read_trajectories(file)) if file else []
        try:
            value = _correlation(_advantages(groups, mine), _advantages(groups, other))
        except BadTable:
            return None
        correlations += [value] if value is not None else []
    return statistics.fmean(correlations) if correlations else None


def _trajectories(run: Path, iteration: int) -> Path | None:
    return next(iter(sorted((run / "trajectories").glob(f"{iteration:06d}.jsonl*"))), None)


def _advantages(groups: list[Group], section: CreditSection) -> NDArray[np.float64]:
    rule = get_credit_rule(section.method, **section.options)
    steps = steps_of(groups, anchor=section.anchor)
    return (rule(steps, rng=np.random.default_rng(0)) if rule.draws else rule(steps)).values


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    if len(first) == 0 or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return None
    return float(np.corrcoef(first, second)[0, 1])
