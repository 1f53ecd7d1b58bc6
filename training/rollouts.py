"""Rollouts of the training loop: finished before each update, or concurrent with it.

`SynchronousRollouts` plays exactly the groups of one iteration with the newest weights;
`turnwise.training.asynchronous` has the concurrent ones. Both write the trajectories that an iteration trains on to one
file.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from turnwise.agents.agent import Agent
from turnwise.agents.files.background_writer import BackgroundWriter
from turnwise.agents.files.folder_lock import check_lock
from turnwise.agents.rollouts.rollout import RolloutReport, rollout
from turnwise.agents.trajectory import Group, Trajectory
from turnwise.training.config.run import Run
from turnwise.training.engine import RunEngine
from turnwise.training.errors import TrainingError
from turnwise.training.events import Reporter
from turnwise.training.setup import PreparedRun
from turnwise.training.tasks import TaskSampler


@dataclass(frozen=True, slots=True)
class Played:
    """The groups of one iteration.

    Attributes:
        groups: to train on.
        report: counts of what was played for them, or meanwhile.
        metrics: further numbers of the rollouts.
    """

    groups: list[Group]
    report: RolloutReport
    metrics: Mapping[str, float] = field(default_factory=dict)


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

    def saved(self) -> None:
        """Learn that a checkpoint now holds everything that was trained on so far."""

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, as JSON can hold it."""

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue where `state` was taken."""

    def close(self) -> None:
        """End what is in play, and close the environments."""


class SynchronousRollouts:
    """Plays the groups of one iteration at a time, while the learner waits.

    Args:
        prepared: the run.
        agent: plays.
        engine: samples.
        report: receives ticks.
    """

    def __init__(self, prepared: PreparedRun, agent: Agent, engine: RunEngine, report: Reporter) -> None:
        self._prepared, self._agent, self._engine, self._report = prepared, agent, engine, report
        self._tasks = TaskSampler(prepared.tasks, prepared.seed_for("tasks"))
        self._pool = prepared.env_pool()

    def load(self, version: int) -> None:
        """Give the learner's weights to the engine."""
        self._engine.load(version)

    def next(self, step: int) -> Played:
        """Play the groups of the next iteration; trajectories are stored as they finish."""
        run, played = self._prepared.run, RolloutReport()
        tasks = self._tasks.next(run.train.groups)
        tick = self._report.counting("rollout", len(tasks) * run.train.group_size)
        with stored_trajectories(run, step) as store:

            def finished(trajectory: Trajectory) -> None:
                store(trajectory)
                tick(trajectory)

            groups = rollout(
                self._agent,
                self._engine.sampler,
                tasks,
                make=self._pool,
                size=run.train.group_size,
                seed=self._prepared.seed_for("rollout", step),
                concurrency=run.train.concurrency,
                processes=run.processes,
                repairs=run.train.replacements,
                on_finish=finished,
                report=played,
            )
        refuse_empty(groups, step)
        self._engine.rest()
        return Played(groups, played)

    def settle(self) -> None:
        """Do nothing: nothing is in play."""

    def saved(self) -> None:
        """Do nothing: all that was played is trained on."""

    def state(self) -> dict[str, Any]:
        """Return the position in the stream of tasks."""
        return {"tasks": self._tasks.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Continue at a position in the stream of tasks."""
        self._tasks.load_state_dict(state["tasks"])

    def close(self) -> None:
        """Close the environments."""
        self._pool.close()


@contextmanager
def stored_trajectories(run: Run, step: int) -> Iterator[Callable[[Trajectory], None]]:
    """Give a function that stores a trajectory of iteration `step` + 1; at the end of the block all are stored."""
    if not run.trajectory_format:
        yield lambda _: None
        return
    check_lock(run.folder)
    path = run.folder / "trajectories" / f"{step + 1:06d}{run.trajectory_format}"
    path.parent.mkdir(exist_ok=True)
    with BackgroundWriter(path) as writer:
        yield writer.write


def refuse_empty(groups: Sequence[Group], step: int) -> None:
    """Refuse groups without a single turn to train on.

    Raises:
        TrainingError: every episode failed, or ended before its first turn.
    """
    if any(one.turns for group in groups for one in group.finished):
        return
    everyone = [one for group in groups for one in group.trajectories]
    reason = Counter(one.error for one in everyone).most_common(1)[0][0] if everyone else "their tasks fail"
    what = "failed" if all(not one.finished for one in everyone) else "ended before its first turn"
    raise TrainingError(
        f"every episode of iteration {step + 1} {what} ({reason}); the iterations before it are saved, and --resume "
        "continues from there"
    )
