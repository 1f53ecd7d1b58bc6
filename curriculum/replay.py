"""ReplayBatch rules: which stored episodes are trained on beside the batch of an iteration, and how.

    def rule(index, *, iteration, total, rng, **options) -> ReplayBatch

A rule is asked after the update of an iteration. What it chooses is one more batch, with the log-probabilities that
were sampled as the old ones. A rule may take `state`, what it returned last in `ReplayBatch.state`. Packages offer
rules in the group `turncredit.replay_rules`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from numpy.random import Generator, default_rng

from turncredit.curriculum.errors import CurriculumError
from turncredit.curriculum.rule_registry import SamplingRule, rule_registry
from turncredit.curriculum.stored_episodes import Index
from turncredit.registry import Registry

__all__ = ["REPLAY_RULES", "ReplayBatch", "ReplayRule"]


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
            CurriculumError: there is not one finite advantage for each episode, or the weight is negative.
        """
        finite = all(math.isfinite(value) for value in self.advantage)
        if len(self.ids) != len(self.advantage) or not finite or not 0 <= self.weight < math.inf:
            raise CurriculumError(
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
            CurriculumError: the function chose an episode that is not stored, or returned something else than a replay.
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
            raise CurriculumError(
                f"the replay rule {self.name!r} must return a ReplayBatch, got {type(replay).__name__}"
            )
        if unknown := set(replay.ids) - {episode.id for episode in index.episodes}:
            raise CurriculumError(f"the replay rule {self.name!r} chose {min(unknown)!r}, which is not stored")
        return replay

    def check(self) -> None:
        """Ask about an empty store."""
        self(Index(), iteration=1, total=1, rng=default_rng(0))


REPLAY_RULES: Registry[ReplayRule] = rule_registry("replay rule", "turncredit.replay_rules", ReplayRule)
