"""Trajectories of a run on disk: one file for each iteration, and one for each group in play.

Every member of a group in play is written as it finishes, so that a process that is killed loses none. The file is
removed once a checkpoint holds the update that used its group.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from turnwise.agents.files.background_writer import BackgroundWriter
from turnwise.agents.files.folder_lock import check_lock
from turnwise.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories, to_json
from turnwise.agents.trajectory import Trajectory

SUFFIX = ".jsonl"


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


class GroupFiles:
    """The files of a folder, by the number of their group.

    Args:
        folder: it is made when the first trajectory is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, number: int, trajectory: Trajectory) -> None:
        """Append a finished member to the file of its group."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._path(number).open("ab") as file:  # nothing is read: it is done while episodes are played
            file.write(to_json(trajectory).encode("ascii") + b"\n")

    def read(self, number: int) -> tuple[Trajectory, ...]:
        """Return the members of a group that were written, and remove an incomplete last line; none without a file."""
        path = self._path(number)
        if not path.exists():
            return ()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TornLine)  # its writer was killed, and the member is played again
            with TrajectoryWriter(path, append=True):
                return tuple(read_trajectories(path))

    def numbers(self) -> list[int]:
        """Return the numbers of the groups that have a file, sorted."""
        return sorted(int(path.stem) for path in self.folder.glob(f"*{SUFFIX}") if path.stem.isdecimal())

    def remove(self, number: int) -> None:
        """Remove the file of a group, if there is one."""
        self._path(number).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}{SUFFIX}"
