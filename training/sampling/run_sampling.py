"""The sampling of a run: what its rollouts ask for groups, and tell what became of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from turncredit.agents.rollouts.group_rounds import GroupSpec
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.steps import Steps
from turncredit.curriculum.errors import CurriculumError
from turncredit.training.batch.batch import Batch
from turncredit.training.config.agents import MakeAgent
from turncredit.training.config.run import Run
from turncredit.training.errors import TrainingError
from turncredit.training.sampling.grown_groups import GrowingGroups, PlayedGroup
from turncredit.training.sampling.run_memory import RunMemory
from turncredit.training.sampling.run_teachers import RunTeachers
from turncredit.training.sampling.sampling_files import SamplingFiles
from turncredit.training.sampling.sampling_metrics import draw_metrics, fork_metrics, growth_metrics
from turncredit.training.tasks.group_draws import DrawnGroup, GroupDraws
from turncredit.training.tasks.task_columns import task_columns

__all__ = ["RUN_ERRORS", "RunSampling"]

RUN_ERRORS = (TrainingError, CurriculumError)
"""What ends an iteration with one sentence: errors of the run, and of the rules that it follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSampling:
    """Draws the groups of a run, lets them grow, and keeps what is learned of their tasks.

    Attributes:
        draws: the groups in the order in which they begin.
        growing: asks the group rules.
        memory: what the run remembers of earlier iterations.
        files: what each iteration was made of.
        max_drops: groups that may be dropped in an iteration.
        forest: whether episodes may begin in the middle of others.
        skip_truncated: what is left out of the loss because a limit cut it.
        teachers: other models that play; None: there are none.
    """

    draws: GroupDraws
    growing: GrowingGroups
    memory: RunMemory
    files: SamplingFiles
    max_drops: int
    forest: bool = False
    skip_truncated: str = ""
    teachers: RunTeachers | None = None

    def taught(self, run: Run, agents: MakeAgent) -> Self:
        """Return the sampling with the teachers of a run, if it has any.

        Args:
            run: the configuration.
            agents: makes the agent for a tokenizer.
        """
        return replace(self, teachers=RunTeachers(run, agents)) if run.sampling.teachers else self

    def begin(self, iteration: int) -> None:
        """Let later draws and their groups see what is known after a number of finished iterations."""
        self.draws.begin(iteration)
        self.memory.begin(iteration)

    def spec(self, drawn: DrawnGroup, played: Sequence[Trajectory] = ()) -> GroupSpec:
        """Return what a rollout plays for a group, of which some members may be finished already."""
        return drawn.spec(self.growing.grow(drawn), played)

    def decided(self, drawn: DrawnGroup, group: Group, drops: int) -> PlayedGroup:
        """Return a group whose episodes are over; it is trained on if too many were dropped before it.

        Args:
            drawn: what was drawn.
            group: what was played.
            drops: groups of the iteration that were dropped before.
        """
        played = self.growing.played(drawn, group)
        return replace(played, dropped=played.dropped and drops < self.max_drops)

    def finished(self, step: int, sampled: Sequence[PlayedGroup]) -> None:
        """Write down what an iteration is made of, and learn from it.

        Args:
            step: number of finished iterations.
            sampled: the groups in the order of their numbers, dropped ones included.
        """
        self.files.write(step + 1, sampled)
        self.draws.learn([played.visit for played in sampled], step)

    def learn(self, sampled: Sequence[PlayedGroup], steps: Steps, batch: Batch) -> None:
        """Write into the records what the update of an iteration tells, and the task rule reads.

        Args:
            sampled: the groups, dropped ones included.
            steps: table of the turns.
            batch: what was trained on.
        """
        if names := self.draws.columns:
            drawn = [played.drawn for played in sampled if not played.dropped]
            tasks, weights = [group.task for group in drawn], [group.weight for group in drawn]
            self.draws.note(task_columns(names, steps, batch, tasks, weights))

    def close(self) -> None:
        """Close the teachers."""
        if self.teachers is not None:
            self.teachers.close()

    def metrics(self, sampled: Sequence[PlayedGroup]) -> dict[str, float]:
        """Return statistics of what an iteration was made of."""
        grown = growth_metrics(sampled) if self.growing.rules else {}
        forks = fork_metrics([played.group for played in sampled]) if self.forest else {}
        return {**draw_metrics(sampled), **grown, **forks}
