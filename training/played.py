"""What an iteration trains on: the groups that were played for it, and their turns as a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from turnwise.agents.rollouts.rollout import RolloutReport
from turnwise.agents.steps import Anchor, steps_of
from turnwise.agents.trajectory import Group
from turnwise.credit.advantages import Advantages
from turnwise.credit.steps import Floats, Ints, Steps
from turnwise.training.batch.batch import Batch
from turnwise.training.staleness import age_metrics, ratio_metrics, turn_ages, without_stale


@dataclass(frozen=True, slots=True)
class Played:
    """The groups of one iteration.

    Attributes:
        groups: to train on.
        report: counts of what was played for them, or meanwhile.
        version: version of the weights that they will update.
        oldest: maximum age of a turn that is trained on, in updates; 0: all turns are of these weights.
        metrics: further numbers of the rollouts.
        columns: further columns of the table of turns, in the order of `turnwise.agents.steps.steps_of`.
        forest: whether episodes were forked.
        each_path: whether turns that forks took over carry loss in every path, and not only where they were sampled.
    """

    groups: list[Group]
    report: RolloutReport
    version: int
    oldest: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Floats | Ints] = field(default_factory=dict)
    forest: bool = False
    each_path: bool = False

    def steps(self, anchor: Anchor) -> Steps:
        """Return the table of the turns."""
        steps = steps_of(self.groups, anchor, forest=self.forest)
        return replace(steps, extra={**steps.extra, **self.columns}) if self.columns else steps

    def fresh(self, advantages: Advantages) -> Advantages:
        """Return the advantages without the turns that are too old to train on, or trained on in another episode."""
        if self.forest and not self.each_path:
            starts = {member.id: member.fork_turn or 0 for group in self.groups for member in group.finished}
            own = advantages.turn >= np.array([starts[name] for name in advantages.trajectory], dtype=np.int64)
            advantages = replace(advantages, keep=advantages.keep & own)
        if not self.oldest:
            return advantages
        return without_stale(advantages, turn_ages(self.groups, self.version), self.oldest)

    def age_metrics(self, batch: Batch) -> dict[str, float]:
        """Return the ages of the turns, and the importance ratios at each age, before the update."""
        if not self.oldest:
            return {}
        return age_metrics(self.groups, self.version, self.oldest) | ratio_metrics(batch, self.version)
