"""Trajectories written on a thread, so that long ones are compressed while other episodes go on."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future

from turncredit.agents.files.trajectory_files import TrajectoryWriter
from turncredit.agents.trajectory import Trajectory
from turncredit.processes.deadlines import WorkerThread

__all__ = ["BackgroundWriter"]


class BackgroundWriter:
    """Writes trajectories to a new file, in the order in which they are given; a context manager.

    A process that is killed loses those that are not written yet. Where every finished episode has to be on disk at
    once, use `TrajectoryWriter`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open the file; see `TrajectoryWriter`. The thread starts with the first trajectory, after any fork."""
        self._writer = TrajectoryWriter(path)
        self._thread: WorkerThread | None = None
        self._pending: deque[Future[None]] = deque()

    def write(self, trajectory: Trajectory) -> None:
        """Write a trajectory soon.

        Raises:
            OSError: an earlier one could not be written.
        """
        while self._pending and self._pending[0].done():
            self._pending.popleft().result()
        if self._thread is None:
            self._thread = WorkerThread("turncredit-trajectories")
        self._pending.append(self._thread.submit(self._writer.write, trajectory))

    def close(self) -> None:
        """Wait until everything is written, and close the file.

        Raises:
            OSError: a trajectory could not be written.
        """
        try:
            if self._thread is not None:
                self._thread.stop()
                self._thread.thread.join()
            while self._pending:
                self._pending.popleft().result()
        finally:
            self._writer.close()

    def __enter__(self) -> BackgroundWriter:
        """Return the writer itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Close the file; an error in closing does not replace an earlier one."""
        try:
            self.close()
        except OSError:
            if kind is None:
                raise
