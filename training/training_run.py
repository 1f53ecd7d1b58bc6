"""A run from its configuration to its end: begin or resume, warm start, loop, and how it ended."""

import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.files.folder_lock import locked
from turncredit.agents.models.model_folder import ModelFolder
from turncredit.processes import endings, tracing
from turncredit.training.config.run import Run
from turncredit.training.config.template_date import with_date
from turncredit.training.learner.policy import find_policy
from turncredit.training.monitor.progress import no_progress
from turncredit.training.parts import RunParts, prepare
from turncredit.training.preflight.run_start import begin, check_resumable
from turncredit.training.preflight.shared_card import lay_out_card
from turncredit.training.run_folder.events import OnEvent, Reporter
from turncredit.training.run_folder.paths import with_checkpoint
from turncredit.training.run_folder.restart import find_restart, find_warm_start, open_metrics, restore_learner
from turncredit.training.staged_run import train_stages

if TYPE_CHECKING:
    from turncredit.training.learner.rank_commands import Leader


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """How a call of `train` ended.

    Attributes:
        folder: folder of the run.
        step: number of finished iterations.
        finished: False after Ctrl-C.
        checkpoint: the newest one; None if the warm start was not finished.
    """

    folder: Path
    step: int
    finished: bool
    checkpoint: Path | None


def train(
    run: Run,
    *,
    resume: bool = False,
    on_event: OnEvent | None = None,
    leader: "Leader | None" = None,
    evaluated: Path | None = None,
) -> TrainingResult:
    """Train as the run describes: warm start, iterations, evaluations. Everything is written to run.folder.

    Events are dicts with a "phase": "setup", "imitation" (one with "step" about every 2 % of the warm start), "train",
    "evaluation", "note" and "warning" (with "text"), "done". They are written to metrics.jsonl. A "tick" (what, done,
    total) is for progress bars and is not written: "demonstrations", "imitation", "rollout", "evaluation", and
    "checkpoint" and "resumed", whose done is the iteration. Neither is a "begin", whose "text" says what begins.

    Args:
        run: the configuration.
        resume: continue from the last checkpoint in run.folder, or from what there is of its warm start.
        on_event: called with every event, on this thread.
        leader: commands the other ranks if several train the policy (`turncredit.training.learner.rank_commands`).
        evaluated: folder of evaluations before training that this run shares with others
            (`turncredit.training.monitor.shared_evaluations`); None: it makes its own.

    Returns:
        How it ended. Ctrl-C ends a run at the last finished iteration, or optimizer step of its warm start, with a
        checkpoint.

    Raises:
        TrainingError: the configuration, the folder, a checkpoint or the demonstrations cannot be used.
        EnvError, AgentError, CreditError: from the parts.
    """
    if leader is None and run.cluster.address and run.cluster.learners > 1:
        from turncredit.training.learner.cluster_ranks import cluster_ranks  # it imports FSDP, which takes a while

        with cluster_ranks(run) as leader:
            return train(run, resume=resume, on_event=on_event, leader=leader, evaluated=evaluated)
    run = with_checkpoint(run, resume=resume)
    policy = None if resume else find_policy(run.policy)
    run = with_date(run, None if policy is None else policy.path)
    parts = prepare(run, leader)
    parts = replace(parts, card=lay_out_card(run, parts.memory_needs, DeviceMemory(parts.device)), evaluated=evaluated)
    started = time.perf_counter()
    with locked(run.folder, "training in"), ExitStack() as stack:
        if resume:
            check_resumable(run.folder, run)
        else:
            begin(run.folder, run, policy)
        restored = find_restart(run.folder, run.policy, run.train.iterations) if resume else None
        unfinished = resume and restored is None and run.imitation.episodes
        warm = find_warm_start(run.folder, run.policy) if unfinished else None
        report = Reporter(stack.enter_context(open_metrics(run, restored or warm)), on_event)
        stack.enter_context(tracing.span(f"train {run.name}", {"turncredit.resumed": resume}))
        recovery = parts.recovery(report)
        stack.callback(recovery.close)
        try:
            if restored is None:
                if warm is None:
                    _announce(parts, report, policy)
                learner = parts.warm_start(report, recovery.warm_start).learner(warm)
                report.event("model", 0, **learner.sizes)
            else:
                learner = restore_learner(restored, parts.learner_factory(report), parts.reference)
            loop = train_stages(parts, learner, report, recovery, restored, stack)
        except KeyboardInterrupt:
            endings.interruption_seen()
            checkpoint = recovery.stopped("interrupted")
            return TrainingResult(run.folder, recovery.newest or 0, False, checkpoint)
        if (sentence := no_progress(run)) is not None:
            report.event("warning", loop.step, text=sentence)
        report.event("done", loop.step, seconds=time.perf_counter() - started)
        return TrainingResult(run.folder, loop.step, True, recovery.checkpoints.path(loop.step))


def _announce(parts: RunParts, report: Reporter, policy: ModelFolder | None) -> None:
    """Report what is about to be trained, with remarks on settings that are probably not meant."""
    run = parts.run
    report.event(
        "setup",
        0,
        name=run.name,
        folder=str(run.folder),
        device=parts.device,
        model=run.policy.model or f"new, {run.policy.new.layers} layers of {run.policy.new.hidden}",
        **({"revision": policy.revision} if policy and policy.revision else {}),
        steps=run.train.iterations,
        tasks=len(parts.environments.tasks),
        panel=len(parts.panel.tasks) if parts.panel else 0,
    )
    for text in parts.remarks():
        report.note(text)
