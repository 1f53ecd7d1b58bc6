"""What a resumed run continues: a checkpoint of its iterations or of its warm start, and the metrics until then."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from turncredit.training.config.run import Run
from turncredit.training.config.sections import PolicySection
from turncredit.training.errors import CheckpointError
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.make_learner import LearnerFactory, load_trained
from turncredit.training.run_folder.checkpoint import Checkpoints, Restored, restore_random_states
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
from turncredit.training.run_folder.recovery import ReferencePolicy
from turncredit.training.run_folder.warm_start_progress import FOLDER


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


def find_warm_start(folder: Path, policy: PolicySection) -> Restored | None:
    """Return the newest intact checkpoint of an unfinished warm start; None if there is none.

    Args:
        folder: folder of the run.
        policy: the `[policy]` section, which says how the model of a checkpoint is loaded.

    Returns:
        The checkpoint, with 0 finished iterations; `state` has the number of optimizer steps as "step", of "steps".

    Raises:
        CheckpointError: there are some, and none is intact, or it was written by another version.
    """
    checkpoints = Checkpoints(folder / FOLDER)
    if not checkpoints.steps():
        return None
    return replace(checkpoints.load(load=partial(load_trained, policy)), step=0)


def _lost_events(path: Path, restored: Restored) -> str:
    """Return what is wrong with the metrics that a checkpoint continues; empty if they are whole."""
    events, problems = stored_events(path)
    if path.is_file() and path.stat().st_size >= restored.state["metrics_size"]:
        problems = []  # they are of lines after the checkpoint, which go anyway
    lost, _ = missing_iterations(events, restored.step)
    if lost:
        problems.append(f"{METRICS} lacks {lost} of the {restored.step} iterations before the checkpoint")
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
