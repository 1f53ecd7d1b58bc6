"""Stored episodes that a replay rule chose, as the groups and the batch that a run trains on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory, grouped
from turncredit.credit.advantages import Advantages
from turncredit.curriculum.replay import ReplayBatch
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.objectives.sources import STORED

__all__ = ["Replayed", "replayed"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """Stored episodes that are trained on again.

    Attributes:
        groups: the episodes by task.
        advantages: of their turns.
        age: mean number of iterations since they were played.
    """

    groups: list[Group]
    advantages: Advantages
    age: float

    def batch(self, temperature: SamplingTemperature) -> Batch:
        """Return them as token sequences.

        Args:
            temperature: at which the run sampled.
        """
        sources = {member.id: STORED for group in self.groups for member in group.trajectories}
        return pack(self.groups, self.advantages, sources=sources, temperature=temperature)

    @property
    def metrics(self) -> dict[str, float]:
        """How many episodes were trained on again, and how old they were."""
        return {"replayed": float(sum(len(group.finished) for group in self.groups)), "replay_age": self.age}


def replayed(episodes: Sequence[Trajectory], chosen: ReplayBatch, age: float) -> Replayed:
    """Return episodes with one advantage for all turns of each."""
    groups = grouped(episodes)
    steps = steps_of(groups)
    values = dict(zip(chosen.ids, chosen.advantage, strict=True))
    column = np.array([values[name] for name in steps.ids("trajectory")]) * chosen.weight
    return Replayed(groups, Advantages.of(steps, column, {"episode": column}, {}), age)
