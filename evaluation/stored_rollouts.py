"""Groups that are played without training: a file of trajectories, and beside it a record of how they were played.

The record of `groups.jsonl` is `groups.rollout.json`. It says which tasks, how many episodes of each, and who plays. A
rollout that was stopped goes on from it, and forks of its episodes have the same player and environment.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from turncredit.agents.agent import Agent
from turncredit.agents.errors import EvaluationError
from turncredit.agents.files.json_files import read_json, validated, write_json
from turncredit.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories
from turncredit.agents.rollouts.env_pool import EnvPool, MakeEnv
from turncredit.agents.rollouts.rollout import RolloutReport, rollout
from turncredit.agents.rollouts.rollout_stream import GroupSpec
from turncredit.agents.trajectory import Group, Trajectory
from turncredit.engines.base import Samples
from turncredit.evaluation.panels import VERSION, Panel

__all__ = ["RolloutRecord", "earlier_episodes", "play_groups", "record_file"]

REPLACEMENTS = 1
"""How many failed episodes of a group are played again."""


def record_file(trajectories: Path) -> Path:
    """Return where it is recorded how a file of trajectories was played.

    >>> record_file(Path("runs/groups.jsonl.gz")).name
    'groups.rollout.json'
    """
    return trajectories.with_name(trajectories.name.partition(".jsonl")[0] + ".rollout.json")


@dataclass(frozen=True)
class RolloutRecord:
    """How groups are played."""

    panel: Panel
    """The environment, the tasks, and the seed that all episodes of a group share."""
    player: str
    """As it was named on the command line."""
    size: int
    """Episodes of each task."""
    agent: Mapping[str, object] = field(default_factory=dict)
    """Options of the agent that were set."""
    sampler: Mapping[str, object] = field(default_factory=dict)
    """Options of the sampler that were set."""

    def save(self, trajectories: Path) -> None:
        """Write the record beside its trajectories.

        Raises:
            OSError: the file cannot be written.
        """
        write_json(record_file(trajectories), {"version": VERSION, **asdict(self)})

    @classmethod
    def of(cls, trajectories: Path) -> RolloutRecord | None:
        """Return the record of a file of trajectories; None if it has none.

        Raises:
            EvaluationError: the file of the record holds something else.
            OSError: it cannot be read.
        """
        path = record_file(trajectories)
        if not path.is_file():
            return None
        return validated(
            cls, read_json(path, "the record of a rollout", "panel", VERSION), f"{path} is not the record of a rollout"
        )

    def require_same(self, stored: RolloutRecord, path: Path) -> None:
        """Check that a rollout goes on as it was begun; its groups may become larger.

        Args:
            stored: how it was begun.
            path: the file of the record, for the message.

        Raises:
            EvaluationError: something differs.
        """
        mine, theirs = (_flat(record) for record in (self, stored))
        for name in dict.fromkeys((*theirs, *mine)):
            if mine.get(name) != theirs.get(name):
                raise EvaluationError(
                    f"{path} says that the rollout was begun with {name} = {theirs.get(name)!r}, got "
                    f"{mine.get(name)!r}; go on as it was begun, or name another file"
                )
        if self.size < stored.size:
            raise EvaluationError(f"the rollout was begun with groups of {stored.size}, got {self.size}; they can grow")


def _flat(record: RolloutRecord) -> dict[str, object]:
    """Return what has to be equal, by names as the command line has them."""
    panel = record.panel
    return {
        "player": record.player,
        "environment": panel.env,
        **panel.kwargs,
        "seed": panel.seed,
        "number of tasks": len(panel.tasks),
        "tasks": panel.tasks,
        **{f"agent.{name}": value for name, value in record.agent.items()},
        **{f"sampler.{name}": value for name, value in record.sampler.items()},
    }


def earlier_episodes(file: Path) -> list[Trajectory]:
    """Return the whole episodes of a file that may not exist yet; a torn last line is left out, as a writer removes it.

    Raises:
        StoreError: the file is damaged before its last line.
        OSError: it cannot be read.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TornLine)
        return list(read_trajectories(file)) if file.exists() else []


def play_groups(
    agent: Agent,
    sampler: Samples,
    record: RolloutRecord,
    file: Path,
    make: MakeEnv | EnvPool,
    *,
    earlier: Iterable[Trajectory] = (),
    concurrency: int = 64,
    on_finish: Callable[[Trajectory], None] | None = None,
    report: RolloutReport | None = None,
) -> list[Group]:
    """Return the groups of a record, in the order of its tasks; earlier episodes are not played again.

    All episodes of a group begin in the same state, as in training. Each is appended to the file as it finishes.

    Args:
        agent: prompts, parser, limits, temperature.
        sampler: the model.
        record: the tasks, the size of the groups, the seed.
        file: file of the trajectories; its record is written beside it.
        make: makes an environment of the panel; or an `EnvPool` of them.
        earlier: what the file holds already, from `earlier_episodes`.
        concurrency: maximum number of episodes at once.
        on_finish: called with every trajectory as it finishes.
        report: receives the counts.

    Raises:
        EvaluationError: the file was begun in another way.
        StoreError: the file is damaged before its last line.
        Interrupted: Ctrl-C; what was finished is in the file.
    """
    stored = RolloutRecord.of(file)
    if stored is not None:
        record.require_same(stored, record_file(file))
    played: dict[str, list[Trajectory]] = {}
    for trajectory in earlier:
        played.setdefault(trajectory.task, []).append(trajectory)
    seed = record.panel.seed
    specs = [GroupSpec(task, seed, record.size, played=tuple(played.get(task, ()))) for task in record.panel.tasks]
    with TrajectoryWriter(file, append=True) as writer:
        record.save(file)

        def finished(trajectory: Trajectory) -> None:
            writer.write(trajectory)
            if on_finish is not None:
                on_finish(trajectory)

        return rollout(
            agent,
            sampler,
            specs,
            make=make,
            concurrency=concurrency,
            replacements=REPLACEMENTS,
            on_finish=finished,
            report=report,
        )
