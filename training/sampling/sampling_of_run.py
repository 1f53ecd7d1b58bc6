"""The sampling and the memory of a run, from its configuration."""

from __future__ import annotations

from collections.abc import Sequence

from turnwise.training.config.run import Run
from turnwise.training.config.seeds import Seeds
from turnwise.training.sampling.annotation import run_annotations
from turnwise.training.sampling.experience import Experience
from turnwise.training.sampling.group_draws import GroupDraws
from turnwise.training.sampling.grown_groups import GrowingGroups
from turnwise.training.sampling.run_memory import RunMemory
from turnwise.training.sampling.run_sampling import RunSampling
from turnwise.training.sampling.sampling_files import SamplingFiles
from turnwise.training.sampling.sampling_rules import SamplingRules

__all__ = ["sampling_of"]


def sampling_of(run: Run, rules: SamplingRules, tasks: Sequence[str], seeds: Seeds, *, forest: bool) -> RunSampling:
    """Return what the rollouts of a run ask for groups, with what the run remembers.

    Args:
        run: the configuration.
        rules: of the run.
        tasks: ids of all tasks.
        seeds: of the run.
        forest: whether credit sees how episodes were forked.
    """
    memory = RunMemory(
        experience=None if rules.admission is None else Experience(run.folder / "experience", rules.admission),
        lessons=rules.lessons,
        annotations=run_annotations(run, rules.annotators),
        replay=rules.replay,
        seeds=seeds,
        total=run.train.iterations,
        moments=2 + run.train.oldest,
    )
    draws = GroupDraws(
        rules.tasks,
        tasks,
        seeds,
        groups=run.train.groups,
        size=run.train.group_size,
        total=run.train.iterations,
        grows=bool(rules.groups),
    )
    return RunSampling(
        draws=draws,
        growing=GrowingGroups(rules.groups, seeds, run.train.iterations, rules.max_rounds, memory),
        memory=memory,
        files=SamplingFiles(run.folder),
        max_drops=rules.max_drops,
        forest=forest,
    )
