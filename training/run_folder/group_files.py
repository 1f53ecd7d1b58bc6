"""Groups on disk that are played and not yet trained on: one file of trajectories for each, by number.

Every member is written as it finishes, so that a process that is killed loses none. A file is removed once a checkpoint
holds the update that used its group.
"""

import warnings
from pathlib import Path

from turnwise.agents.files.trajectory_files import TornLine, TrajectoryWriter, read_trajectories, to_json
from turnwise.agents.trajectory import Trajectory

SUFFIX = ".jsonl"


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
