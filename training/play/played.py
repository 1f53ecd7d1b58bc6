"""What an iteration trains on: the groups that were played for it, and their turns as a table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from turncredit.agents.rollouts.rollout import RolloutReport
from turncredit.agents.steps import Anchor, steps_of
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.advantages import Advantages
from turncredit.credit.steps import Floats, Ints, Steps
from turncredit.curriculum.growth import BranchPoint
from turncredit.training.batch.batch import Batch, outcomes_of, pack
from turncredit.training.batch.sampling_temperature import SamplingTemperature
from turncredit.training.errors import TrainingError
from turncredit.training.objectives.sources import STORED, TEACHER
from turncredit.training.play.staleness import age_metrics, ratio_metrics, turn_ages, without_stale
from turncredit.training.sampling.grown_groups import PlayedGroup
from turncredit.training.sampling.sampling_metrics import growth_by_part


@dataclass(frozen=True, slots=True)
class Played:
    """The groups of one iteration.

    Attributes:
        groups: that credit sees.
        report: counts of what was played for them, or meanwhile.
        version: version of the weights that they will update.
        oldest: maximum age of a turn that is trained on, in updates; 0: all turns are of these weights.
        metrics: further numbers of the rollouts.
        columns: further columns of the table of turns, in the order of `turncredit.agents.steps.steps_of`.
        forest: whether episodes were forked.
        each_path: whether turns that forks took over carry loss in every path, and not only where they were sampled.
        skip_truncated: "answers", "episodes" or empty: what is left out of the loss because a limit cut it.
        sampled: all groups that were played, dropped ones included, with the decisions about them; empty: `groups`.
    """

    groups: list[Group]
    report: RolloutReport
    version: int
    oldest: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict)
    columns: Mapping[str, Floats | Ints] = field(default_factory=dict)
    forest: bool = False
    each_path: bool = False
    skip_truncated: str = ""
    sampled: Sequence[PlayedGroup] = ()

    @property
    def sources(self) -> dict[str, int]:
        """Where the episodes come from that were not played for this iteration, by id."""
        stored = {member.id: STORED for played in self.sampled for member in played.replayed}
        taught = {member.id: TEACHER for group in self.groups for member in group.trajectories if member.teacher}
        return stored | taught

    @property
    def everyone(self) -> list[Group]:
        """All groups that were played."""
        return [played.group for played in self.sampled] or self.groups

    @property
    def trained(self) -> list[Group]:
        """The groups without the members that credit sees and that are not trained on."""
        masked = self._masked
        if not masked:
            return self.groups
        return [
            replace(group, trajectories=tuple(member for member in group.trajectories if member.id not in masked))
            for group in self.groups
        ]

    @property
    def _masked(self) -> frozenset[str]:
        return frozenset().union(*(played.masked for played in self.sampled if not played.dropped))

    def without_some(self, sampled: Sequence[PlayedGroup]) -> Self:
        """Return the iteration where credit sees fewer members.

        Args:
            sampled: the same groups with other decisions, which count no member that was not counted.
        """
        groups = [played.counted for played in sampled if not played.dropped]
        left = [{member.id for member in group.finished} for group in groups]
        rows = np.array(
            [
                member.id in ids
                for group, ids in zip(self.groups, left, strict=True)
                for member in group.finished
                for _ in member.turns
            ],
            dtype=bool,
        )
        columns = {name: column[rows] for name, column in self.columns.items()}
        return replace(self, groups=groups, sampled=sampled, columns=columns)

    def steps(self, anchor: Anchor) -> Steps:
        """Return the table of the turns."""
        steps = steps_of(self.groups, anchor, forest=self.forest)
        return replace(steps, extra={**steps.extra, **self.columns}) if self.columns else steps

    def fresh(self, advantages: Advantages) -> Advantages:
        """Return the advantages of the turns to train on, weighted as the task rule wants it.

        Left out are turns of members that are not trained on, turns that are trained on in another episode, those that
        a limit cut, and those that are too old.
        """
        if masked := self._masked:
            advantages = advantages.take(np.flatnonzero([name not in masked for name in advantages.trajectory]))
        advantages = self._weighted(advantages)
        starts = {member.id: member.fork_turn or 0 for group in self.groups for member in group.finished}
        if any(starts.values()) and not self.each_path:
            own = advantages.turn >= np.array([starts[name] for name in advantages.trajectory], dtype=np.int64)
            advantages = replace(advantages, keep=advantages.keep & own)
        if self.skip_truncated:
            cut = {turn for group in self.groups for member in group.finished for turn in self._cut(member)}
            rows = zip(advantages.trajectory.tolist(), advantages.turn.tolist(), strict=True)
            advantages = replace(
                advantages, keep=advantages.keep & np.array([row not in cut for row in rows], dtype=bool)
            )
        if not self.oldest:
            return advantages
        stored = self.sources
        ages = {turn: 0 if turn[0] in stored else age for turn, age in turn_ages(self.groups, self.version).items()}
        return without_stale(advantages, ages, self.oldest)

    def batch(self, steps: Steps, advantages: Advantages, temperature: SamplingTemperature) -> Batch:
        """Return what is trained on as token sequences.

        Args:
            steps: table of the turns, with the rewards that credit saw.
            advantages: of the turns.
            temperature: at which the run sampled.
        """
        return pack(
            self.trained,
            self.fresh(advantages),
            outcomes=outcomes_of(steps),
            sources=self.sources,
            temperature=temperature,
            parts=self._parts,
        )

    @property
    def _ends(self) -> dict[str, BranchPoint]:
        """Where the loss of members ends that are trained on in part, by id."""
        return {at.trajectory: at for played in self.sampled if not played.dropped for at in played.growth.until}

    @property
    def _parts(self) -> dict[tuple[str, int], slice]:
        """Which tokens of an answer are trained on, where these are not all: by trajectory id and turn."""
        starts = {
            (member.id, member.fork_turn or 0): member.fork_tokens
            for group in self.groups
            for member in group.finished
            if member.fork_tokens and not self.each_path
        }
        ends = {(at.trajectory, at.turn): at.tokens for at in self._ends.values() if at.tokens}
        return {turn: slice(starts.get(turn, 0), ends.get(turn)) for turn in starts.keys() | ends.keys()}

    def _cut(self, member: Trajectory) -> list[tuple[str, int]]:
        """Return the turns of an episode that are left out because of a limit."""
        short = [(member.id, number) for number, turn in enumerate(member.turns) if turn.finish == "length"]
        if self.skip_truncated == "answers":
            return short
        whole = short or member.stop in ("turns", "tokens", "truncated")
        return [(member.id, number) for number in range(len(member.turns))] if whole else []

    def _weighted(self, advantages: Advantages) -> Advantages:
        """Return the advantages with the weights of their groups, and 0 for turns after the end of a member's loss."""
        weights = {
            member.id: played.drawn.weight
            for played in self.sampled
            if played.drawn.weight != 1.0
            for member in played.group.trajectories
        }
        ends = {name: at.turn + (at.tokens > 0) for name, at in self._ends.items()}
        if not weights and not ends:
            return advantages
        rows = zip(advantages.trajectory.tolist(), advantages.turn.tolist(), strict=True)
        factors = np.array([weights.get(name, 1.0) if turn < ends.get(name, np.inf) else 0.0 for name, turn in rows])
        return replace(advantages, weight=advantages.weight * factors)

    def growth_by_part(self, parts: Sequence[str]) -> dict[str, float]:
        """Return how many groups of each part of a mixture were dropped; {} where no rule could drop any."""
        return growth_by_part(self.sampled, parts) if "groups_dropped" in self.metrics else {}

    def age_metrics(self, batch: Batch) -> dict[str, float]:
        """Return the ages of the turns, and the importance ratios at each age, before the update."""
        if not self.oldest:
            return {}
        ages = age_metrics(self.groups, self.version, self.oldest, self.sources)
        return ages | ratio_metrics(batch, self.version)


def refuse_empty(groups: Sequence[Group], step: int) -> None:
    """Refuse groups without a single turn to train on.

    Raises:
        TrainingError: every episode failed, or ended before its first turn.
    """
    if any(trajectory.turns for group in groups for trajectory in group.finished):
        return
    everyone = [trajectory for group in groups for trajectory in group.trajectories]
    reason = (
        Counter(trajectory.error for trajectory in everyone).most_common(1)[0][0] if everyone else "their tasks fail"
    )
    fate = "failed" if all(not trajectory.finished for trajectory in everyone) else "ended before its first turn"
    raise TrainingError(
        f"every episode of iteration {step + 1} {fate} ({reason}); the iterations before it are saved, and --resume "
        "continues from there"
    )
