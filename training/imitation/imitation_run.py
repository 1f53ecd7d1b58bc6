"""Imitation in a run: it is reported, saved now and then, and continued where it was interrupted."""

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from turncredit.agents.vision.image_reader import reader_of
from turncredit.training.batch.batch import Batch
from turncredit.training.config.agents import MakeAgent
from turncredit.training.config.sections import ImitationSection, TrainSection
from turncredit.training.imitation.demonstrations import Demonstrations
from turncredit.training.imitation.imitation import (
    Imitation,
    advance_imitation,
    begin_imitation,
    continue_imitation,
    demonstration_batch,
    end_imitation,
    imitation_of,
    imitation_steps,
)
from turncredit.training.learner.learner import Learner
from turncredit.training.run_folder.checkpoint import Restored
from turncredit.training.run_folder.events import Reporter
from turncredit.training.run_folder.warm_start_progress import WarmStartProgress
from turncredit.training.run_folder.warm_start_recovery import WarmStartRecovery

EVENTS = 0.02
"""Share of the optimizer steps between two events."""
PACE = 1.0
"""Seconds of optimizer steps between two moments at which a warm start may be saved, and several ranks interrupted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImitationRun:
    """Trains the policy of a run on demonstrations.

    Attributes:
        section: the `[imitation]` section.
        train: the `[train]` section.
        context: maximum number of tokens in a sequence.
        seed: seed of the order of the demonstrations.
        agents: makes the agent for the policy's tokenizer.
        report: receives events and ticks "imitation".
        recovery: keeps finished optimizer steps.
    """

    section: ImitationSection
    train: TrainSection
    context: int
    seed: int
    agents: MakeAgent
    report: Reporter
    recovery: WarmStartRecovery

    def __call__(
        self, learner: Learner, demonstrations: Demonstrations, started: float, restored: Restored | None = None
    ) -> None:
        """Train a learner until the warm start is over.

        Args:
            learner: as it is before imitation, or with the weights of a checkpoint.
            demonstrations: what is imitated.
            started: when the warm start began, as `time.perf_counter` tells it.
            restored: the checkpoint; None: imitation begins.

        Raises:
            NoDemonstrations: no token is left to learn from.
            CheckpointError: the checkpoint belongs to other demonstrations.
        """
        batch = self._batch(learner, demonstrations)
        demonstrated = fingerprint(batch)
        if restored is None:
            self._announce(learner, demonstrations, batch, time.perf_counter() - started)
        else:
            self.recovery.require_same(restored, demonstrated)
        steps = (rows for _, rows in imitation_steps(batch.lengths, self.section, self.seed))
        learner.on_all_ranks(
            begin_imitation,
            learner.dealt(batch, steps),
            self.section,
            micro_tokens=self.train.micro_batch.tokens,
            grad_clip=self.train.optimizer.grad_clip,
            weight_decay=self.train.optimizer.weight_decay,
            seed=self.seed,
        )
        if restored is not None:
            learner.on_all_ranks(continue_imitation, restored.state["step"], restored.state)
            self.recovery.restore(learner, restored)
            for text in restored.skipped:
                self.report.note(text)
            self.report.begin(f"continuing the warm start from {WarmStartProgress.of(restored.state)}")
        self.recovery.begin(imitation_of(learner), demonstrated)
        self._advance(learner)
        self.recovery.end()
        self.report.event("imitation", 0, **learner.on_all_ranks(end_imitation))

    def _batch(self, learner: Learner, demonstrations: Demonstrations) -> Batch:
        self.report.begin(f"tokenizing {len(demonstrations.trajectories):,} demonstrations")
        tokenizer, reader = learner.tokenizer, reader_of(learner.tokenizer)
        groups, advantages = demonstrations.tokenized(self.agents(tokenizer), tokenizer, self.context)
        return demonstration_batch(
            groups,
            advantages,
            context=self.context,
            observations=self.section.observation_weight,
            placeholder=None if reader is None else reader.token,
        )

    def _announce(self, learner: Learner, demonstrations: Demonstrations, batch: Batch, seconds: float) -> None:
        """Report what is imitated by which model."""
        trajectories = demonstrations.trajectories
        self.report.event(
            "imitation",
            0,
            demonstrations=len(trajectories),
            won=sum(trajectory.won for trajectory in trajectories),
            turns=sum(len(trajectory.turns) for trajectory in trajectories) / len(trajectories),
            tokens=batch.size,
            longest=int(batch.lengths.max()),
            vocabulary=len(learner.tokenizer),
            **learner.sizes,
            seconds=seconds,
        )

    def _advance(self, learner: Learner) -> None:
        """Do all optimizer steps that are left, with a checkpoint now and then."""
        imitation, count = imitation_of(learner), 1
        on_step = _step_events(self.report, imitation)
        while not imitation.over:
            started = time.perf_counter()
            learner.on_all_ranks(advance_imitation, count, here={"on_step": on_step})
            count = max(1, min(2 * count, int(count * PACE / (time.perf_counter() - started))))
            self.recovery.save_if_due()


def fingerprint(batch: Batch) -> str:
    """Return 16 hexadecimal digits that are equal for demonstrations which teach the same, from a SHA-256."""
    digest = hashlib.sha256()
    for array in (batch.tokens, batch.lengths, batch.mask, batch.advantages, batch.turn):
        digest.update(f"{array.dtype} {array.shape}".encode("ascii"))
        digest.update(np.ascontiguousarray(array).tobytes())
    for image in (image for row in batch.images or () for image in row):
        digest.update(image.key.encode("ascii"))
    return digest.hexdigest()[:16]


def _step_events(report: Reporter, imitation: Imitation) -> Callable[[dict[str, float]], None]:
    """Return a callback for every optimizer step: it now and then reports the mean loss, and ticks."""
    every = max(1, round(imitation.steps * EVENTS))

    def stepped(event: dict[str, float]) -> None:
        step, steps = int(event["step"]), int(event["steps"])
        if step == steps or step % every == 0:
            finite = [loss for loss in imitation.losses((step - 1) % every + 1) if math.isfinite(loss)]
            loss = sum(finite) / len(finite) if finite else math.nan
            report.event("imitation", 0, step=step, steps=steps, loss=loss, lr=event["lr"])
        report.tick("imitation", step, steps, loss=event["loss"])

    return stepped
