"""Recovery of a run: checkpoints at the boundaries between iterations, resuming, and Ctrl-C.

A finished iteration is a boundary: weights, optimizer, task sampler, the credit rule's state and the size of the
metrics file belong together there, and only there is anything saved. A warm start has boundaries of its own
(`turncredit.training.run_folder.warm_start_recovery`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

from turncredit.agents.files.folder_lock import check_lock
from turncredit.agents.models.lora_folders import read_adapter
from turncredit.training.config.run import Run
from turncredit.training.config.sections import CheckpointsSection, PolicySection
from turncredit.training.errors import CheckpointError, TrainingError
from turncredit.training.learner.interruption import uninterrupted
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.make_learner import LearnerFactory, load_trained
from turncredit.training.learner.policy import vocabulary_fingerprint
from turncredit.training.run_folder.boundaries import Work, start_checkpoint
from turncredit.training.run_folder.checkpoint import Checkpoints, Restored, restore_random_states, write_merged
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.loggers import Logger, open_loggers
from turncredit.training.run_folder.metrics import (
    METRICS,
    MetricsWriter,
    event_numbers,
    missing_iterations,
    read_events,
    size_until,
    stored_events,
)
from turncredit.training.run_folder.trajectory_pruning import prune_trajectories
from turncredit.training.run_folder.warm_start_recovery import WarmStartRecovery, find_progress
from turncredit.training.states import State


class Recoverable(Work, Protocol):
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
        begins = "the warm start was not finished, and --resume starts it again"
        kept = begins if progress is None else f"--resume continues the warm start from {progress}"
        self.report.event("note", 0, text=f"{reason}; {kept}{lost}")

    def _mark(self, loop: Recoverable) -> None:
        """Remember the boundary that the loop has reached."""
        self._loop = loop
        self._boundary = {**loop.state(), "metrics_size": self.report.metrics.tell()}


def find_restart(folder: Path, policy: PolicySection, steps: int) -> Restored | None:
    """Return the newest complete checkpoint, and remove what was written after it; None if there is none yet.

    Args:
        folder: folder of the run.
        policy: the `[policy]` section, which says how the model of a checkpoint is loaded.
        steps: number of iterations of the whole run.

    Raises:
        CheckpointError: no checkpoint is complete, or it was written by another version.
    """
    checkpoints = Checkpoints(folder / "checkpoints")
    if not checkpoints.steps():
        return None  # the run ended during the warm start
    restored = checkpoints.load(load=partial(load_trained, policy))
    missing = {"tasks", "metrics_size"} - restored.state.keys()
    if missing:
        raise CheckpointError(
            f"{restored.folder} was written by another version of turncredit: it lacks {min(missing)}"
        )
    if not _complete(folder, restored.step, steps):
        numbers = {"trajectories": restored.step, "sampling": restored.step, "evaluations": restored.step - 1}
        for name, last in numbers.items():
            for path in (folder / name).glob("*"):
                number = path.name.partition(".")[0]
                if number.isdecimal() and int(number) > last:
                    path.unlink()
        if lost := _lost_events(folder / METRICS, restored):
            restored = replace(restored, skipped=(*restored.skipped, lost))
    return restored


def _lost_events(path: Path, restored: Restored) -> str:
    """Return what is wrong with the metrics that a checkpoint continues; empty if they are whole."""
    events, problems = stored_events(path)
    if path.is_file() and path.stat().st_size >= restored.state["metrics_size"]:
        problems = []  # they are of lines after the checkpoint, which go anyway
    if lost := missing_iterations(events, restored.step):
        problems.append(f"{METRICS} lacks {len(lost)} of the {restored.step} iterations before the checkpoint")
    return "; ".join(problems)


def open_metrics(run: Run, restored: Restored | None) -> MetricsWriter:
    """Return the writer of the metrics, which are cut to their size at the checkpoint."""
    size: int | None = 0
    purge: int | None = 0
    if restored is not None and _complete(run.folder, restored.step, run.train.iterations):
        size = purge = None
    elif restored is not None:
        size, purge = restored.state["metrics_size"], restored.step + 1
    path = run.folder / METRICS
    if size and restored is not None and path.is_file() and path.stat().st_size < size:  # a part was lost
        size = size_until(path, restored.step)
    loggers = _open_loggers(run, path, purge) if run.loggers.names else ()
    return MetricsWriter(path, size=size, loggers=loggers)


def _open_loggers(run: Run, metrics: Path, purge: int | None) -> list[Logger]:
    sent = {(name, event["iteration"]) for event in read_events(metrics) for name in event_numbers(event)}
    return open_loggers(
        run.loggers.names,
        run.folder,
        name=run.name,
        project=run.loggers.project,
        config=run.model_dump(),
        purge=purge,
        sent=frozenset(sent),
    )


def restore_learner(restored: Restored, make_learner: LearnerFactory, reference: ReferencePolicy) -> Learner:
    """Return the learner that a checkpoint holds, with the random states of that moment."""
    learner = make_learner(restored.model, restored.tokenizer)
    learner.load_state(restored.trainer, restored.folder)
    restore_random_states(restored.trainer)
    reference.give_to(learner)
    return learner


def _complete(folder: Path, step: int, steps: int) -> bool:
    """Whether a run of `steps` iterations is finished, its last evaluation included."""
    return step >= steps and (folder / "after.json").exists()
