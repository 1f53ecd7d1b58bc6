"""ReplayBatch rules: which stored episodes are trained on beside the batch of an iteration, and how.

    def rule(index, *, iteration, total, rng, **options) -> ReplayBatch

A rule is asked after the update of an iteration. What it chooses is one more batch, with the log-probabilities that
were sampled as the old ones. A rule may take `state`, what it returned last in `ReplayBatch.state`. Packages offer
rules in the group `turncredit.replay_rules`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.random import Generator, default_rng

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory, grouped
from turncredit.credit.advantages import Advantages
from turncredit.registry import Registry
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.errors import TrainingError
from turncredit.training.objectives.sources import STORED
from turncredit.training.sampling.experience import Index
from turncredit.training.sampling.rule_registry import SamplingRule, rule_registry

__all__ = ["REPLAY_RULES", "ReplayBatch", "ReplayRule", "Replayed", "replayed"]


@dataclass(frozen=True, slots=True)
class ReplayBatch:
    """Stored episodes to train on; none: no further batch.

    Attributes:
        ids: of stored episodes.
        advantage: of every turn of each.
        weight: factor of all advantages.
        empty: whether the store is emptied afterwards.
        state: what the rule remembers.
    """

    ids: tuple[str, ...] = ()
    advantage: tuple[float, ...] = ()
    weight: float = 1.0
    empty: bool = False
    state: object = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            TrainingError: there is not one finite advantage for each episode, or the weight is negative.
        """
        finite = all(math.isfinite(value) for value in self.advantage)
        if len(self.ids) != len(self.advantage) or not finite or not 0 <= self.weight < math.inf:
            raise TrainingError(
                f"a replay has one finite advantage an episode and a weight of at least 0; got {self!r:.200}"
            )


@dataclass(frozen=True)
class ReplayRule(SamplingRule):
    """A replay rule: `function(index, *, iteration, total, rng, options) -> ReplayBatch`."""

    GIVEN = frozenset({"iteration", "total", "scores"})

    def __call__(
        self,
        index: Index,
        *,
        iteration: int,
        total: int,
        rng: Generator,
        scores: tuple[float, ...] = (),
        state: object = None,
    ) -> ReplayBatch:
        """Return the stored episodes to train on.

        Args:
            index: the stored episodes.
            iteration: number of finished iterations, this one included.
            total: iterations of the whole run.
            rng: of this iteration.
            scores: mean reward of each group of this iteration.
            state: what the rule returned last, for one that remembers.

        Raises:
            TrainingError: the function chose an episode that is not stored, or returned something else than a replay.
        """
        arguments = {"iteration": iteration, "total": total, "rng": rng, "scores": scores, "state": state}
        replay = self.function(
            index,
            **{
                name: value
                for name, value in arguments.items()
                if name in self.parameters and (name, value) != ("state", None)
            },
        )
        if not isinstance(replay, ReplayBatch):
            raise TrainingError(f"the replay rule {self.name!r} must return a ReplayBatch, got {type(replay).__name__}")
        if unknown := set(replay.ids) - {episode.id for episode in index.episodes}:
            raise TrainingError(f"the replay rule {self.name!r} chose {min(unknown)!r}, which is not stored")
        return replay

    def check(self) -> None:
        """Ask about an empty store."""
        self(Index(), iteration=1, total=1, rng=default_rng(0))


REPLAY_RULES: Registry[ReplayRule] = rule_registry("replay rule", "turncredit.replay_rules", ReplayRule)


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
