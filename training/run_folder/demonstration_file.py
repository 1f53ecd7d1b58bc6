"""Demonstrations of a run on disk, each as soon as it is played: a resumed run plays only those that are missing.

    FOLDER/demonstrations.jsonl    the episodes; turns that must not be imitated say so
    FOLDER/demonstrations.json     written when nothing more is played

The file of episodes is one that `imitation.demonstrator` of another run may name.
"""

import os
import warnings
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from turncredit.agents.files.json_files import write_json
from turncredit.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories
from turncredit.agents.interchange.imported_folder import IMITATED, mistakes_of
from turncredit.agents.trajectory import Trajectory
from turncredit.tools.bounded_input import open_file
from turncredit.training.run_folder.warm_start_progress import DEMONSTRATIONS


class DemonstrationFile:
    """The demonstrations that a run has played; a context manager, inside of which it can be read and written.

    Args:
        folder: it is made for the first demonstration.

    Attributes:
        trajectories: those of before this process, by their ids.
        mistakes: (trajectory id, turn) of the turns in them that must not be imitated.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / DEMONSTRATIONS
        self._end = folder / "demonstrations.json"
        self._writer: TrajectoryWriter | None = None
        self.trajectories: dict[str, Trajectory] = {}
        self.mistakes: set[tuple[str, int]] = set()

    @property
    def complete(self) -> bool:
        """Whether nothing more is played, not even in place of what failed."""
        return self._end.is_file() and self.path.is_file()

    def write(self, trajectory: Trajectory, mistakes: Collection[int]) -> None:
        """Store a finished demonstration.

        Args:
            trajectory: finished or failed.
            mistakes: numbers of its turns that must not be imitated.
        """
        if self._writer is None:
            self._writer = TrajectoryWriter(self.path, append=True)
        turns = [
            replace(turn, extras={**turn.extras, IMITATED: 0}) if number in mistakes else turn
            for number, turn in enumerate(trajectory.turns)
        ]
        self._writer.write(replace(trajectory, turns=tuple(turns)))

    def finish(self) -> None:
        """Write down that nothing more is played."""
        if not self.complete:
            with open_file(self.path) as file:
                os.fsync(file.fileno())
            write_json(self._end, {"version": 1, "complete": True})

    def __enter__(self) -> "DemonstrationFile":
        """Read what is there; what failed before the demonstrations were complete is removed, to be played again."""
        stored = self._read()
        usable = [item for item in stored if self.complete or item.finished]
        if len(usable) < len(stored):
            part = self.path.with_name(f".part-{self.path.name}")
            with TrajectoryWriter(part) as writer:
                for trajectory in usable:
                    writer.write(trajectory)
            os.replace(part, self.path)
        self.trajectories = {item.id: _unmarked(item) for item in usable}
        self.mistakes = {(item.id, turn) for item in usable for turn in mistakes_of(item)}
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _read(self) -> list[Trajectory]:
        """Return the stored demonstrations, and remove an incomplete last line."""
        if not self.path.exists():
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TornLine)  # its writer was killed, and the episode is played again
            with TrajectoryWriter(self.path, append=True):
                return list(read_trajectories(self.path))


def _unmarked(trajectory: Trajectory) -> Trajectory:
    """Return a stored demonstration as it was played."""
    turns = [
        replace(turn, extras={name: value for name, value in turn.extras.items() if name != IMITATED})
        if turn.extras.get(IMITATED) == 0
        else turn
        for turn in trajectory.turns
    ]
    return replace(trajectory, turns=tuple(turns))
