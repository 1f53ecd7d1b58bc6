"""Trajectories of a run on disk: one file for each iteration."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from turnwise.agents.files.background_writer import BackgroundWriter
from turnwise.agents.files.folder_lock import check_lock
from turnwise.agents.trajectory import Trajectory


@dataclass(frozen=True, slots=True)
class TrajectoryStore:
    """Stores the trajectories that iterations train on.

    Attributes:
        folder: folder of the run.
        format: ending of the files; empty: trajectories are not stored.
    """

    folder: Path
    format: str

    @contextmanager
    def iteration(self, number: int) -> Iterator[Callable[[Trajectory], None]]:
        """Give a function that stores a trajectory of an iteration; at the end of the block all are stored."""
        if not self.format:
            yield lambda _: None
            return
        check_lock(self.folder)
        path = self.folder / "trajectories" / f"{number:06d}{self.format}"
        path.parent.mkdir(exist_ok=True)
        with BackgroundWriter(path) as writer:
            yield writer.write
