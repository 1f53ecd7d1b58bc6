"""How much the credit rules of an ablation differ, measured before they make a difference: on the reference's turns."""

import statistics
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from turncredit.ablation.axes import Arm
from turncredit.ablation.plan import Ablation
from turncredit.agents.files.trajectory_files import read_trajectories
from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, grouped
from turncredit.credit.errors import BadTable
from turncredit.credit.registry import get as get_credit_rule
from turncredit.training.assign.credit_by_part import credit_by_part, parts_of_run
from turncredit.training.assign.run_rewards import RunRewards
from turncredit.training.config.run import Run
from turncredit.training.sampling.sampling_files import credited_groups


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
    runs = [ablation.run(reference, seed), ablation.run(arm, seed)]
    correlations = []
    for iteration in range(1, first + 1):
        file = _trajectories(ablation.folder_of(reference.folder, seed), iteration)
        groups = _credited(file) if file else []
        try:
            value = _correlation(*(_advantages(groups, run, iteration - 1) for run in runs))
        except BadTable:
            return None
        correlations += [value] if value is not None else []
    return statistics.fmean(correlations) if correlations else None


def _trajectories(run: Path, iteration: int) -> Path | None:
    return next(iter(sorted((run / "trajectories").glob(f"{iteration:06d}.jsonl*"))), None)


def _credited(file: Path) -> list[Group]:
    """Return the groups of an iteration as credit saw them."""
    trajectories = list(read_trajectories(file))
    seen = credited_groups(file, trajectories)
    return grouped(trajectories) if seen is None else seen.groups


def _advantages(groups: list[Group], run: Run, iteration: int) -> NDArray[np.float64]:
    """Return the advantages that a run gives turns after a number of finished iterations."""
    rule = get_credit_rule(run.credit.method, **run.credit.options)
    steps = RunRewards.of(run, iteration)(steps_of(groups, anchor=run.credit.anchor))
    options = {"rng": np.random.default_rng(0)} if rule.draws else {}
    return credit_by_part(rule, steps, parts_of_run(run), **options).values


def _correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float | None:
    if len(first) == 0 or np.ptp(first) == 0.0 or np.ptp(second) == 0.0:
        return None
    return float(np.corrcoef(first, second)[0, 1])
