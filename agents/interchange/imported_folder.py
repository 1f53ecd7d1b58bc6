"""The folder of an import: trajectories as a run stores them, and where they come from.

FOLDER/trajectories/000001.jsonl.gz    the episodes, by iteration if they say so
FOLDER/import.json                     their format, their file, and what was left out
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from turncredit.agents.files.json_files import write_json
from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.interchange.conversations import IMITATED, Demonstration
from turncredit.agents.trajectory import Trajectory

__all__ = ["IMITATED", "IMPORT_FILE", "ImportedFolder", "mistakes_of"]

IMPORT_FILE: Final = "import.json"


class ImportedFolder:
    """Writes the episodes of an import; a context manager."""

    def __init__(self, path: Path) -> None:
        """Name the folder, which must not exist."""
        self.path = path
        self._ids: dict[int, dict[str, int]] = {}
        self._writer: tuple[int, TrajectoryWriter] | None = None

    def write(self, demonstration: Demonstration) -> None:
        """Write an episode; an id that its iteration has already gets a number.

        Raises:
            OSError: it cannot be written.
        """
        trajectory = _marked(demonstration)
        times = self._ids.setdefault(demonstration.iteration, {})
        times[trajectory.id] = count = times.get(trajectory.id, 0) + 1
        if count > 1:
            trajectory = replace(trajectory, id=f"{trajectory.id}/{count}")
        self._open(demonstration.iteration).write(trajectory)

    def describe(self, format: str, source: str, notes: Sequence[str]) -> None:
        """Write down where the episodes come from.

        Args:
            format: name of the format.
            source: name of the file or folder.
            notes: sentences about what was left out.
        """
        episodes = sum(sum(times.values()) for times in self._ids.values())
        content = {"version": 1, "format": format, "source": source, "episodes": episodes, "notes": list(notes)}
        write_json(self.path / IMPORT_FILE, content)

    def close(self) -> None:
        """Close the file that is open."""
        if self._writer is not None:
            self._writer[1].close()
            self._writer = None

    def __enter__(self) -> ImportedFolder:
        """Return the folder itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file that is open."""
        self.close()

    def _open(self, iteration: int) -> TrajectoryWriter:
        if self._writer is None or self._writer[0] != iteration:
            self.close()
            file = self.path / "trajectories" / f"{iteration:06d}.jsonl.gz"
            self._writer = iteration, TrajectoryWriter(file, append=file.exists())
        return self._writer[1]


def _marked(demonstration: Demonstration) -> Trajectory:
    """Return the trajectory of a demonstration; the turns of another program say whether they are imitated."""
    trajectory = demonstration.trajectory
    if demonstration.stored:
        return trajectory
    turns = tuple(
        replace(turn, extras={**turn.extras, IMITATED: int(number not in demonstration.mistakes)})
        for number, turn in enumerate(trajectory.turns)
    )
    return replace(trajectory, turns=turns)


def mistakes_of(trajectory: Trajectory) -> frozenset[int]:
    """Return the numbers of the turns that are not to be imitated."""
    return frozenset(number for number, turn in enumerate(trajectory.turns) if turn.extras.get(IMITATED) == 0)
