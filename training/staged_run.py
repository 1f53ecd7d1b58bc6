"""The loop of a run, stage after stage: the same learner, with parts for the settings of each stage."""

from contextlib import ExitStack
from dataclasses import replace

from turncredit.agents.errors import AgentError
from turncredit.training.config.stage_runs import Stages, run_in_stage
from turncredit.training.errors import ConfigError, EngineMismatch, VocabularyMismatch
from turncredit.training.learner.learner import Learner
from turncredit.training.loop import TrainingLoop
from turncredit.training.parts import RunParts, prepare
from turncredit.training.run_folder.checkpoint import Restored
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.recovery import Recovery

__all__ = ["train_stages"]


def train_stages(
    parts: RunParts, learner: Learner, report: Reporter, recovery: Recovery, restored: Restored | None, stack: ExitStack
) -> TrainingLoop:
    """Train until the run is finished, and return its last loop.

    Args:
        parts: of the run.
        learner: the policy to train.
        report: receives events.
        recovery: saves finished iterations.
        restored: the checkpoint that the run continues from; None: it begins.
        stack: closes what is opened; not before an interrupted run is saved.
    """
    stages = Stages.of(parts.run, None if restored is None else restored.state.get("stages"))
    whole, last = parts.run, None
    while True:
        if stages.sections:
            parts = replace(
                prepare(run_in_stage(whole, stages.number), parts.leader), card=parts.card, evaluated=parts.evaluated
            )
        opened = stack.enter_context(ExitStack())
        loop = opened.enter_context(parts.loop(learner, report, recovery, stages))
        if last is not None:
            loop.load_state(last.step, stages.begun(last.state()))
            recovery.continue_with(loop)
        elif restored is not None:
            fresh = stages.number and stages.began == restored.step
            state = stages.begun(restored.state) if fresh else restored.state
            recovery.resume(loop, replace(restored, state=state))
        else:
            recovery.begin(loop)
        if stages.number and stages.began == loop.step:
            _reset(stages, learner, recovery)
            report.note(f"stage {stages.number + 1} of {len(stages.sections)} begins")
        with recovery.saved_after(AgentError, EngineMismatch, ConfigError, VocabularyMismatch):
            loop.run()
        if not stages.over:
            return loop
        stages.over, last = False, loop
        opened.close()


def _reset(stages: Stages, learner: Learner, recovery: Recovery) -> None:
    """Begin anew with what a stage says; the checkpoint of its beginning is saved already."""
    if "optimizer" in stages.resets:
        learner.reset_optimizer()
    if "reference" in stages.resets:
        recovery.reference.keep(learner, stages.began)
        recovery.reference.give_to(learner)
