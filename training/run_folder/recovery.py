"""Recovery of a run: checkpoints at the boundaries between iterations, resuming, and Ctrl-C.

A finished iteration is a boundary: weights, optimizer, task sampler, the credit rule's state and the size of the
metrics file belong together there, and only there is anything saved. A warm start has boundaries of its own
(`turncredit.training.run_folder.warm_start_recovery`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from turncredit.agents.files.folder_lock import check_lock
from turncredit.agents.models.lora_folders import read_adapter
from turncredit.training.config.sections import CheckpointsSection, PolicySection
from turncredit.training.errors import TrainingError
from turncredit.training.learner.interruption import uninterrupted
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.make_learner import load_trained
from turncredit.training.learner.policy import vocabulary_fingerprint
from turncredit.training.run_folder.boundaries import SavedWork, start_checkpoint
from turncredit.training.run_folder.checkpoint import Checkpoints, Restored, write_merged
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.trajectory_pruning import prune_trajectories
from turncredit.training.run_folder.warm_start_progress import find_progress
from turncredit.training.run_folder.warm_start_recovery import WarmStartRecovery
from turncredit.training.types import State


class Recoverable(SavedWork, Protocol):
    """What is saved and restored: a training loop."""

    def load_state(self, step: int, state: State) -> None:
        """Continue after `step` iterations with what `state` returned then."""

    def settle(self) -> None:
        """Wait for what has to be complete before a checkpoint."""


@dataclass(frozen=True, slots=True)
class ReferencePolicy:
    """The policy before reinforcement learning, for a run that measures the divergence from it.

    Attributes:
        folder: folder in which it is kept.
        policy: the `[policy]` section, which says how it is loaded.
        needed: whether the run needs it.
    """

    folder: Path
    policy: PolicySection
    needed: bool

    def keep(self, learner: Learner, step: int = 0) -> None:
        """Save the learner's policy after a number of iterations as the reference."""
        if self.needed:
            Checkpoints(self.folder, keep=1).save(step, learner.weights(), learner.tokenizer, None, {})

    def give_to(self, learner: Learner) -> None:
        """Let the learner compute with the reference beside its policy."""
        if not self.needed:
            return
        folder = Checkpoints(self.folder)
        if learner.has_adapter:
            learner.set_reference_adapter(read_adapter(folder.newest_intact()[0]))
            return
        load = partial(load_trained, self.policy)
        learner.set_reference(folder.load(vocabulary=vocabulary_fingerprint(learner.tokenizer), load=load).model)


class Recovery:
    """Saves a training loop at its boundaries.

    Args:
        folder: folder of the run.
        section: the `[checkpoints]` section.
        reference: the policy before training, which is kept where it is needed.
        report: receives the tick "checkpoint", and a note after Ctrl-C.
        iterations: number of iterations of the whole run.
        oldest: maximum age of a turn that is trained on, in updates.
    """

    def __init__(
        self,
        folder: Path,
        section: CheckpointsSection,
        reference: ReferencePolicy,
        report: Reporter,
        *,
        iterations: int,
        oldest: int,
    ) -> None:
        self.folder, self.section, self.reference, self.report = folder, section, reference, report
        self._iterations, self._oldest = iterations, oldest
        self.checkpoints = Checkpoints(folder / "checkpoints", keep=section.keep)
        self.warm_start = WarmStartRecovery(folder, report, keep=section.keep)
        self._loop: Recoverable | None = None
        self._boundary: State | None = None  # None while weights and counters do not belong together
        self._settled = True  # whether all that has to be complete before a checkpoint is
        self._saved: int | None = None
        self._whole: int | None = None  # of a checkpoint that became whole since `save_if_due` last said so

    @property
    def newest(self) -> int | None:
        """The iteration of the newest checkpoint; None if there is none."""
        return max(self.checkpoints.steps(), default=None)

    def begin(self, loop: Recoverable) -> None:
        """Save the policy after the warm start, as the first checkpoint and, where it is needed, as the reference."""
        learner = loop.learner
        with uninterrupted():
            self.reference.keep(learner)
            self._mark(loop)
            self.save(loop)
            self.warm_start.remove()
        self.reference.give_to(learner)

    def resume(self, loop: Recoverable, restored: Restored) -> None:
        """Continue at the boundary that a checkpoint holds."""
        loop.load_state(restored.step, restored.state)
        self._saved = restored.step
        self._mark(loop)
        self.warm_start.remove()
        for text in restored.skipped:
            self.report.event("note", restored.step, text=text)
        self.report.tick("resumed", restored.step, self._iterations)

    def continue_with(self, loop: Recoverable) -> None:
        """Go on with another loop at the same boundary."""
        self._mark(loop)

    @contextmanager
    def update(self, loop: Recoverable) -> Iterator[None]:
        """Enclose an update, from the first change of the weights to the next boundary; Ctrl-C waits for its end."""
        with uninterrupted("the update"):
            self.checkpoints.wait_for_weights()
            self._boundary = None
            yield
            self._mark(loop)
            self._settled = False

    def settle(self, loop: Recoverable) -> None:
        """Wait for what has to be complete before the last boundary may be saved; Ctrl-C cuts it short."""
        if not self._settled:
            loop.settle()
            self._settled = True

    def write_merged(self, learner: Learner) -> None:
        """Write the model of a run that trains an adapter, with the adapter merged, to its folder "final"."""
        write_merged(learner.weights(), learner.tokenizer, self.folder / "final")

    def save_if_due(self, loop: Recoverable, *, now: bool = False) -> int | None:
        """Save the last boundary if the run asks for a checkpoint there.

        Args:
            loop: that has reached it.
            now: save it in any case, and wait until the checkpoint is whole.

        Returns:
            The iteration of a checkpoint that has become whole since the last call; None if there is none. With several
            ranks that may be an earlier one, since theirs are written while the run goes on.
        """
        every = self.section.every
        last = now or loop.step == self._iterations
        if last or bool(every and loop.step % every == 0):
            self.save(loop, wait=last)
        else:
            self._finish(wait=False)
        whole, self._whole = self._whole, None
        return whole

    def save(self, loop: Recoverable, *, wait: bool = True) -> None:
        """Save the last boundary, unless it is saved already.

        Args:
            loop: that has reached it.
            wait: until the checkpoint is whole, also with several ranks.
        """
        check_lock(self.folder)
        with uninterrupted():
            if self._saved != loop.step and self._boundary is not None:
                self._finish()
                start_checkpoint(self.checkpoints, loop, self._boundary)
                self._saved = loop.step
            self._finish(wait=wait)

    def _finish(self, *, wait: bool = True) -> None:
        """Report the checkpoint that is being written, if it is whole."""
        try:
            path = self.checkpoints.finish(wait=wait)
        except Exception:
            self._saved = None
            raise
        if path is None:
            return
        self._whole = int(path.name)
        prune_trajectories(
            self.folder, self.checkpoints.steps(), keep=self.section.keep_trajectories, oldest=self._oldest
        )
        self.report.tick("checkpoint", self._whole, self._iterations, path=str(path))

    def close(self) -> None:
        """Wait for a checkpoint that is being written."""
        self.warm_start.close()
        self.checkpoints.close()

    @contextmanager
    def saved_after(self, *errors: type[Exception]) -> Iterator[None]:
        """Save the last boundary if one of these errors ends the run, such as that of an engine which has failed."""
        try:
            yield
        except errors as error:
            self.stopped(f"stopped by an error ({error})")
            raise

    def stopped(self, reason: str) -> Path | None:
        """Save the last boundary after Ctrl-C or a failed engine, and return the newest checkpoint.

        Half an iteration is dropped. A run whose groups are taken in order first waits for those in play, or what it
        goes on with would not be the same. If a second Ctrl-C cuts this or an update short, there is nothing to save,
        and the last checkpoint is the newest. A warm start is saved after its last optimizer step.
        """
        with uninterrupted():
            self._finish()
        if self._loop is not None:
            try:
                self.settle(self._loop)
            except (KeyboardInterrupt, Exception) as error:
                why = "a second interruption" if isinstance(error, KeyboardInterrupt) else str(error)
                text = f"iteration {self._loop.step} is dropped, since its episodes in play were not finished ({why})"
                self.report.event("note", self._loop.step, text=text)
            else:
                self.save(self._loop)
        step = self.newest
        if step is None:
            self._stopped_warm_start(reason)
            return None
        self.report.event("note", step, text=f"{reason}; --resume continues from iteration {step}")
        return self.checkpoints.path(step)

    def _stopped_warm_start(self, reason: str) -> None:
        """Save the warm start, and report how far it came."""
        lost = ""
        try:
            self.warm_start.save()
        except TrainingError as error:
            lost = f"; its last steps are not saved ({error})"
        progress = find_progress(self.folder)
        ahead = "the warm start was not finished, and --resume starts it again"
        if progress is not None:
            ahead = f"--resume continues the warm start from {progress}"
        self.report.event("note", 0, text=f"{reason}; {ahead}{lost}")

    def _mark(self, loop: Recoverable) -> None:
        """Remember the boundary that the loop has reached."""
        self._loop = loop
        self._boundary = {**loop.state(), "metrics_size": self.report.metrics.tell()}
