"""Rollouts of the training loop: finished before each update, or concurrent with it.

`SynchronousRollouts` plays exactly the groups of one iteration with the newest weights;
`turncredit.training.play.asynchronous` has the concurrent ones. Both write the trajectories that an iteration trains on
to one file, and keep what no checkpoint has trained on yet, so that a run that was killed need not play it again.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from turncredit.agents.agent import Agent
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.credit.registry import CreditRule
from turncredit.training.config.sections import TrainSection
from turncredit.training.engine.engine import RunEngine
from turncredit.training.play.fork_values import ForkValues, ValuedTurns
from turncredit.training.play.played import Played, refuse_empty
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.trajectory_store import RolloutFiles, TrajectoryStore
from turncredit.training.sampling.grown_groups import PlayedGroup, joined_once
from turncredit.training.sampling.run_sampling import RunSampling
from turncredit.training.tasks.environments import Environments
from turncredit.training.tasks.group_draws import DrawnGroup
from turncredit.training.types import State

__all__ = ["Played", "Rollouts", "SynchronousRollouts"]


class Rollouts(Protocol):
    """Plays groups with the weights that it was given."""

    def load(self, version: int) -> None:
        """Give the learner's weights to the engine, which then does nothing else until `next`."""

    def next(self, step: int) -> Played:
        """Return the groups of the next iteration.

        Args:
            step: number of finished iterations.

        Raises:
            TrainingError: every episode failed.
        """

    def settle(self) -> None:
        """Wait for what has to be complete before a checkpoint and before new weights."""

    def saved(self, step: int) -> None:
        """Learn that a checkpoint now holds everything that the first `step` iterations were trained on."""

    def state(self) -> State:
        """Return what a checkpoint keeps, as JSON can hold it."""

    def load_state(self, state: State) -> None:
        """Continue where `state` was taken."""

    def close(self) -> None:
        """End what is in play, and close the environments."""


class SynchronousRollouts:
    """Plays the groups of one iteration at a time, while the learner waits.

    Args:
        section: the `[train]` section.
        agent: plays.
        engine: samples.
        report: receives ticks.
        environments: where it plays.
        sampling: which groups, and how they grow.
        store: stores the trajectories, and how they were sampled.
        files: finished rollouts since the last checkpoint.
        processes: number of processes that play, of which this one is the first.
        rule: the credit rule, whose discount and penalty the values of turns have.
    """

    def __init__(
        self,
        section: TrainSection,
        agent: Agent,
        engine: RunEngine,
        report: Reporter,
        *,
        environments: Environments,
        sampling: RunSampling,
        store: TrajectoryStore,
        files: RolloutFiles,
        rule: CreditRule,
        processes: int = 1,
    ) -> None:
        self._section, self._agent, self._engine, self._report = section, agent, engine, report
        self._sampling, self._pool = sampling, environments.pool()
        self._store, self._files, self._processes = store, files, processes
        self._resumed = False  # whether all iterations since a checkpoint took their rollouts from files
        self._played = False  # whether a rollout was played, from which on the files are those of this process
        self._values = ForkValues.of(section, rule, processes)

    def load(self, version: int) -> None:
        """Give the learner's weights to the engine."""
        self._engine.load(version)
        self._sampling.begin(version)

    def next(self, step: int) -> Played:
        """Play the groups of the next iteration; trajectories are stored as they finish.

        A run that was killed after this rollout had finished takes it from its file.
        """
        drawn = [self._sampling.draws.next() for _ in range(self._section.groups)]
        tick = self._report.counting("rollout", sum(group.size for group in drawn))
        with self._store.iteration(step + 1) as store:

            def finished(trajectory: Trajectory) -> None:
                store(trajectory)
                tick(trajectory)

            stored = self._restored(step, [group.task for group in drawn], finished)
            sampled, counts = self._play(drawn, [] if stored is None else stored[0], finished, tick.expect)
        groups = [played.counted for played in sampled if not played.dropped]
        refuse_empty(groups, step)
        if stored is None:  # and can be trained on: one that cannot is played again
            self._files.write(step + 1, [played.group for played in sampled], counts)
        self._sampling.finished(step, sampled)
        valued = ValuedTurns()
        if self._values is not None:
            valued = self._values.of_turns(groups, self._agent, self._engine.sampler, self._pool)
        self._engine.rest()
        return Played(
            groups,
            counts if stored is None else stored[1],
            step,
            metrics={**self._sampling.metrics(sampled), **valued.metrics},
            columns=valued.columns,
            forest=self._sampling.forest,
            skip_truncated=self._sampling.skip_truncated,
            each_path=self._section.forks.shared == "each",
            sampled=sampled,
        )

    def _play(
        self,
        drawn: list[DrawnGroup],
        stored: Sequence[Group],
        finished: Callable[[Trajectory], None],
        expect: Callable[[int], None],
    ) -> tuple[list[PlayedGroup], RolloutReport]:
        """Play groups, and others in place of those that are dropped; stored ones come first, and are not played."""
        counts, waiting, sampled, drops = RolloutReport(), deque(stored), list[PlayedGroup](), 0
        while drawn:
            groups = [waiting.popleft() for _ in drawn[: len(waiting)]]
            groups += self._groups(drawn[len(groups) :], finished, counts)
            before = drops
            for number, group in enumerate(groups):
                sampled.append(self._sampling.decided(drawn[number], group, drops))
                drops += sampled[-1].dropped
            drawn = [self._sampling.draws.replacement() for _ in range(drops - before)]
            expect(sum(group.size for group in drawn))
        return joined_once(sampled), counts

    def _groups(
        self, drawn: Sequence[DrawnGroup], finished: Callable[[Trajectory], None], counts: RolloutReport
    ) -> list[Group]:
        """Play some groups."""
        if not drawn:
            return []
        return rollout(
            self._agent,
            self._engine.sampler,
            [self._sampling.spec(group) for group in drawn],
            make=self._pool,
            concurrency=self._section.concurrency,
            processes=self._processes,
            replacements=self._section.replacements,
            on_finish=finished,
            report=counts,
            teachers=self._sampling.teachers,
        )

    def _restored(
        self, step: int, tasks: Sequence[str], finished: Callable[[Trajectory], None]
    ) -> tuple[list[Group], RolloutReport] | None:
        """Return the rollout of an iteration that was finished before the run was resumed; None if there is none."""
        stored = self._files.read(step + 1, tasks) if self._resumed else None
        if stored is None:
            if not self._played:  # those of later iterations were played by weights that may not come again
                self._files.clear()
            self._resumed, self._played = False, True
            return None
        for group in stored[0]:
            for trajectory in group.trajectories:
                finished(trajectory)
        return stored

    def settle(self) -> None:
        """Do nothing: nothing is in play."""

    def saved(self, step: int) -> None:
        """Remove the files of rollouts that a checkpoint has trained on."""
        self._files.clear(step)

    def state(self) -> State:
        """Return what was drawn so far, and what is known of the tasks."""
        return {"tasks": self._sampling.draws.state()}

    def load_state(self, state: State) -> None:
        """Continue after the groups that were drawn."""
        self._sampling.draws.load_state(state["tasks"])
        self._resumed = True

    def close(self) -> None:
        """Close the environments and the teachers."""
        self._pool.close()
        self._sampling.close()
