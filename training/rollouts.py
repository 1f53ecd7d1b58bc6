"""Rollouts of the training loop: finished before each update, or concurrent with it.

`SynchronousRollouts` plays exactly the groups of one iteration with the newest weights;
`turnwise.training.asynchronous` has the concurrent ones. Both write the trajectories that an iteration trains on to one
file, and keep what no checkpoint has trained on yet, so that a run that was killed need not play it again.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from turnwise.agents.agent import Agent
from turnwise.agents.rollouts.rollout import RolloutReport, rollout
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.credit.registry import CreditRule
from turnwise.training.config.sections import TrainSection
from turnwise.training.engine.engine import RunEngine
from turnwise.training.environments import Environments
from turnwise.training.errors import TrainingError
from turnwise.training.forest.fork_values import ForkValues, ValuedTurns
from turnwise.training.forest.growing import Forest, fork_metrics
from turnwise.training.played import Played
from turnwise.training.run_folder.events import Reporter
from turnwise.training.run_folder.trajectory_store import RolloutFiles, TrajectoryStore
from turnwise.training.states import State
from turnwise.training.tasks import TaskSampler

__all__ = ["Played", "Rollouts", "SynchronousRollouts", "refuse_empty"]


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
        tasks: order of the tasks.
        seed_of: returns the seed of an iteration.
        store: stores the trajectories.
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
        tasks: TaskSampler,
        seed_of: Callable[[int], int],
        store: TrajectoryStore,
        files: RolloutFiles,
        rule: CreditRule,
        processes: int = 1,
    ) -> None:
        self._section, self._agent, self._engine, self._report = section, agent, engine, report
        self._tasks, self._seed_of, self._pool = tasks, seed_of, environments.pool()
        self._store, self._files, self._processes = store, files, processes
        self._resumed = False  # whether all iterations since a checkpoint took their rollouts from files
        self._played = False  # whether a rollout was played, from which on the files are those of this process
        self._forest, self._values = Forest.of(section), ForkValues.of(section, rule, processes)

    def load(self, version: int) -> None:
        """Give the learner's weights to the engine."""
        self._engine.load(version)

    def next(self, step: int) -> Played:
        """Play the groups of the next iteration; trajectories are stored as they finish.

        A run that was killed after this rollout had finished takes it from its file.
        """
        section = self._section
        tasks = self._tasks.next(section.groups)
        tick = self._report.counting("rollout", len(tasks) * section.group_size)
        with self._store.iteration(step + 1) as store:

            def finished(trajectory: Trajectory) -> None:
                store(trajectory)
                tick(trajectory)

            stored = self._restored(step, tasks, finished)
            groups, counts = stored or self._play(step, tasks, finished)
        refuse_empty(groups, step)
        if stored is None:  # and can be trained on: one that cannot is played again
            self._files.write(step + 1, groups, counts)
        valued = ValuedTurns()
        if self._values is not None:
            valued = self._values.of_turns(groups, self._agent, self._engine.sampler, self._pool)
        self._engine.rest()
        return Played(
            groups,
            counts,
            step,
            metrics={**({} if self._forest is None else fork_metrics(groups)), **valued.metrics},
            columns=valued.columns,
            forest=self._forest is not None,
            each_path=section.forks.shared == "each",
        )

    def _play(
        self, step: int, tasks: Sequence[str], finished: Callable[[Trajectory], None]
    ) -> tuple[list[Group], RolloutReport]:
        section, counts, seed = self._section, RolloutReport(), self._seed_of(step)
        play = partial(
            rollout,
            self._agent,
            self._engine.sampler,
            make=self._pool,
            size=section.group_size,
            seed=seed,
            concurrency=section.concurrency,
            processes=self._processes,
            replacements=section.replacements,
            on_finish=finished,
            report=counts,
        )
        groups = play(tasks) if self._forest is None else self._forest.grow(tasks, seed, play)
        return groups, counts

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
        """Return the position in the stream of tasks."""
        return {"tasks": self._tasks.state_dict()}

    def load_state(self, state: State) -> None:
        """Continue at a position in the stream of tasks."""
        self._tasks.load_state_dict(state["tasks"])
        self._resumed = True

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()


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
