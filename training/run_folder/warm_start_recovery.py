"""Recovery of a warm start: its demonstrations as they are played, and checkpoints between two of its optimizer steps.

    RUN/imitation/000120/                 a checkpoint as those of iterations, after 120 optimizer steps
    RUN/imitation/demonstrations.jsonl    see the module demonstration_file

The folder is removed once the first checkpoint of the run is whole, which holds the policy after the warm start.
"""

import shutil
import time
from pathlib import Path
from typing import Protocol

from turncredit.agents.files.folder_lock import check_lock
from turncredit.training.errors import CheckpointError
from turncredit.training.learner.interruption import uninterrupted
from turncredit.training.learner.learner import Learner
from turncredit.training.run_folder.boundaries import SavedWork, start_checkpoint
from turncredit.training.run_folder.checkpoint import Checkpoints, Restored, restore_random_states
from turncredit.training.run_folder.demonstration_file import DemonstrationFile
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.warm_start_progress import FOLDER
from turncredit.training.types import State

INTERVAL = 60.0
"""Seconds between two checkpoints, at least."""
SHARE = 0.05
"""Share of the time that writing them may take."""


class WarmStartWork(SavedWork, Protocol):
    """A warm start under way."""

    whole: bool
    """Whether weights and counters belong together."""

    @property
    def steps(self) -> int:
        """Number of optimizer steps."""


class WarmStartRecovery:
    """Saves a warm start.

    Args:
        folder: folder of the run.
        report: its metrics are cut, when the run resumes, to what they were at the checkpoint.
        keep: how many of the newest checkpoints are kept.

    Attributes:
        demonstrations: those that the run has played.
    """

    def __init__(self, folder: Path, report: Reporter, *, keep: int) -> None:
        self.demonstrations = DemonstrationFile(folder / FOLDER)
        self._run, self._report = folder, report
        self._checkpoints = Checkpoints(folder / FOLDER, keep=keep)
        self._work: WarmStartWork | None = None
        self._facts: State = {}
        self._last: State | None = None  # the boundary after the last optimizer step
        self._saved: int | None = None
        self._due = 0.0

    def begin(self, work: WarmStartWork, demonstrations: str) -> None:
        """Save from here on.

        Args:
            work: before its first optimizer step, or restored.
            demonstrations: fingerprint of what is imitated.
        """
        self._work, self._facts = work, {"demonstrations": demonstrations}
        self._saved = work.step
        self._due = time.monotonic() + INTERVAL

    def require_same(self, restored: Restored, demonstrations: str) -> None:
        """Check that a checkpoint belongs to some demonstrations.

        Args:
            restored: from `turncredit.training.run_folder.restart.find_warm_start`.
            demonstrations: fingerprint of what is imitated.

        Raises:
            CheckpointError: it belongs to others.
        """
        if restored.state.get("demonstrations") != demonstrations:
            raise CheckpointError(
                f"the warm start in {restored.folder.parent} was begun with other demonstrations than there are now; "
                "give it those of its beginning, or begin again in another output"
            )

    def restore(self, learner: Learner, restored: Restored) -> None:
        """Restore the optimizer, and the random states of that moment; the learner has the weights already."""
        learner.load_state(restored.trainer, restored.folder)
        restore_random_states(restored.trainer)

    def save_if_due(self) -> None:
        """Save the warm start now and then: once a minute, and less often where that would take much of the time."""
        start = time.monotonic()
        if start >= self._due:
            self.save(wait=False)
            end = time.monotonic()
            self._due = end + max(INTERVAL, (end - start) / SHARE)

    def save(self, *, wait: bool = True) -> None:
        """Save the warm start, if one is under way, unless it is saved already.

        Args:
            wait: until the checkpoint is whole, also with several ranks.
        """
        work = self._work
        check_lock(self._run)
        with uninterrupted():
            if work is not None and work.whole and self._saved != work.step:
                self._finish()
                start_checkpoint(self._checkpoints, work, self._last or self._boundary(work))
                self._saved = work.step
            self._finish(wait=wait)

    def _finish(self, *, wait: bool = True) -> None:
        try:
            self._checkpoints.finish(wait=wait)
        except Exception:
            self._saved = None
            raise

    def end(self) -> None:
        """Remember the boundary after the last optimizer step, before anything more is reported."""
        assert self._work is not None, "no warm start is under way"
        self._last = self._boundary(self._work)
        self._finish()  # a checkpoint of several ranks needs their copy of the weights until then

    def _boundary(self, work: SavedWork) -> State:
        return {**work.state(), **self._facts, "metrics_size": self._report.metrics.tell()}

    def close(self) -> None:
        """Wait for a checkpoint that is being written."""
        self._checkpoints.close()

    def remove(self) -> None:
        """Remove what was kept: the warm start is finished, and the run has a checkpoint of it."""
        self.close()
        self._work = None
        shutil.rmtree(self._run / FOLDER, ignore_errors=True)
