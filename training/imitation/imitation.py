"""Imitation (supervised fine-tuning): the loss on a demonstrator's answers and, with less weight, on its observations.

A new small model learns to copy names much sooner when it also predicts the observations, in which names recur.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import NoDemonstrations
from turncredit.training.learner.gradient import clip_gradient
from turncredit.training.learner.interruption import uninterrupted
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.optimizers import learning_rate, make_optimizer, set_learning_rate
from turncredit.training.types import State

OnStep = Callable[[dict[str, float]], None]


def demonstration_batch(
    groups: Sequence[Group],
    advantages: Advantages | None,
    *,
    context: int,
    observations: float = 0.0,
    placeholder: int | None = None,
) -> Batch:
    """Return packed demonstrations, in which the advantage of a token is its weight in the loss.

    Args:
        groups: with token ids, which `turncredit.agents.demonstrations.tokens` fills in.
        advantages: `keep` selects the turns to imitate; None: all.
        context: maximum number of tokens in a sequence; longer ones are truncated.
        observations: weight of observation tokens; tokens of imitated answers have 1, those of others 0.
        placeholder: id in whose place vectors of images are put, which has no loss.

    Returns:
        The batch, one row per merged sequence.

    Raises:
        NoDemonstrations: no token is left to learn from.
    """
    batch = pack(groups, advantages)
    if batch.tokens.shape[1] > context:
        batch = replace(batch, lengths=np.minimum(batch.lengths, context)).rows(np.arange(len(batch)))
    batch = batch.rows(np.flatnonzero(batch.mask.any(axis=1)))
    if not len(batch):
        raise NoDemonstrations(f"no demonstration has a token to learn from within a context of {context} tokens")
    if observations:
        seen = (batch.turn < 0) & (np.arange(batch.tokens.shape[1]) < batch.lengths[:, None])
        if placeholder is not None:
            seen &= batch.tokens != placeholder
        seen[:, :1] = False  # nothing precedes it that could predict it
        batch = replace(batch, mask=batch.mask | seen, advantages=np.where(seen, observations, batch.advantages))
    return batch


class ImitationOptions(TypedDict, total=False):
    """Options of `Imitation` that are keys of other sections."""

    micro_tokens: int
    grad_clip: float
    weight_decay: float
    seed: int


class Imitation:
    """The optimizer steps of a warm start. Between two of them it can be saved, and another process can go on with it.

    Each minimises sum(w (-log p)) / sum(w) over its tokens. With the loss "otr", -log p is multiplied by 1.1 p, which
    has no gradient; what is reported stays -log p. See `turncredit.training.objectives.otr`.

    The optimizer is an AdamW of its own with betas (0.9, 1 - 20 / steps), the latter kept within [0.9, 0.999]: its
    second moment averages over a twentieth of the warm start, which may have a few hundred steps or several thousand.
    Until `end` it takes the place of the learner's, so that it is saved and restored as that one is.

    With a target, the warm start ends as soon as the mean loss over the last twentieth of the planned steps reaches it,
    at the learning rate of that moment. A small model learns to copy names suddenly, with some seeds sooner than with
    others: the target lets every seed begin reinforcement learning shortly after that.

    Args:
        learner: its model is changed in place.
        batch: from `demonstration_batch`; its advantages are the weights w.
        section: epochs, lr (peak; 5 % linear warm-up, then cosine to zero), batch (tokens per step), target, loss.
        micro_tokens: tokens per micro-batch, padding included.
        grad_clip: maximum norm of the gradient.
        weight_decay: of AdamW.
        seed: of the order.

    Attributes:
        step: number of finished optimizer steps.
        whole: whether weights, optimizer and counters belong together; an interruption may cut a step in two.
    """

    def __init__(
        self,
        learner: Learner,
        batch: Batch,
        section: ImitationSection,
        *,
        micro_tokens: int = 16384,
        grad_clip: float = 1.0,
        weight_decay: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.learner = learner
        self.step, self.whole = 0, True
        self._batch, self._section, self._micro_tokens, self._grad_clip = batch, section, micro_tokens, grad_clip
        self._cuts = imitation_steps(batch.lengths, section, seed)
        self._losses: list[float] = []  # of the last steps at least, as many as are looked at
        self._skipped = self._tokens = 0
        self._seconds = 0.0
        betas = 0.9, min(0.999, max(0.9, 1.0 - 20.0 / max(1, self.steps)))
        self._later = learner.optimizer
        learner.optimizer = make_optimizer(
            learner.model, lr=section.lr, weight_decay=weight_decay, betas=betas, name=learner.optimizer_name
        )

    @property
    def steps(self) -> int:
        """Number of optimizer steps, if the target is not reached before."""
        return len(self._cuts)

    @property
    def over(self) -> bool:
        """Whether all steps are done, or the target is reached."""
        if self.step >= self.steps:
            return True
        window = self.steps // 20
        recent = [loss for loss in self._losses[-max(1, window) :] if math.isfinite(loss)]
        return self.step >= window and bool(recent) and sum(recent) / len(recent) <= self._section.target_loss

    def losses(self, count: int) -> list[float]:
        """Return the losses of the last `count` steps, at most a tenth of all."""
        return self._losses[max(0, len(self._losses) - count) :]

    def advance(self, steps: int, on_step: OnStep | None = None) -> None:
        """Do the next optimizer steps, as far as the warm start is not over.

        Args:
            steps: how many.
            on_step: called after every one with step, steps, epoch, loss (nats per answer token), lr.
        """
        started, before, last = time.perf_counter(), self._seconds, self.step + steps
        try:
            while self.step < last and not self.over:
                self._advance(on_step or _say_nothing)
        finally:
            self._seconds = before + time.perf_counter() - started

    def _advance(self, on_step: OnStep) -> None:
        """Do one optimizer step, unless it is not finite."""
        learner, (epoch, rows) = self.learner, self._cuts[self.step]
        batch = self._batch.rows(rows)
        rate = learning_rate(
            self.step, total=self.steps, peak=self._section.lr, schedule="cosine", warmup=max(1, self.steps // 20)
        )
        with interruptible(learner.model):
            total = learner.scorer.within_memory(
                partial(_accumulate, self._section.loss, learner, batch), batch, self._micro_tokens
            )
            norm = clip_gradient([p for p in learner.model.parameters() if p.requires_grad], self._grad_clip)
        finite = math.isfinite(total) and math.isfinite(norm)
        loss = total / max(1, int((batch.mask & (batch.turn >= 0)).sum())) if finite else math.nan
        with uninterrupted():  # several ranks are interrupted between two commands
            self.whole = False
            set_learning_rate(learner.optimizer, rate)
            if finite:
                learner.optimizer.step()
            learner.optimizer.zero_grad(set_to_none=True)
            self.step += 1
            self._skipped += not finite
            self._tokens += int(batch.lengths.sum())
            self._losses.append(loss)
            self.whole = True
            on_step({"step": self.step, "steps": self.steps, "epoch": epoch + 1, "loss": loss, "lr": rate})

    def end(self) -> dict[str, float]:
        """Give the learner its own optimizer back, and return the statistics of all steps.

        Returns:
            loss (mean over the last tenth of the steps), steps, skipped (steps that were not finite), tokens (without
            padding), seconds.
        """
        self.learner.optimizer = self._later
        tail = [loss for loss in self._losses[-max(1, self.step // 10) :] if math.isfinite(loss)]
        return {
            "loss": float(np.mean(tail)) if tail else float("nan"),
            "steps": self.step,
            "skipped": self._skipped,
            "tokens": self._tokens,
            "seconds": self._seconds,
        }

    def state(self) -> State:
        """Return what a checkpoint keeps beside weights and learner, as JSON can hold it."""
        return {
            "steps": self.steps,
            "losses": [loss if math.isfinite(loss) else None for loss in self.losses(max(1, self.steps // 10))],
            "skipped": self._skipped,
            "tokens": self._tokens,
            "seconds": self._seconds,
        }

    def load_state(self, step: int, state: State) -> None:
        """Continue after `step` optimizer steps with what `state` returned then; the learner has its state already."""
        self.step = step
        self._losses = [math.nan if loss is None else loss for loss in state["losses"]]
        self._skipped, self._tokens, self._seconds = state["skipped"], state["tokens"], state["seconds"]


def _say_nothing(_: dict[str, float]) -> None:
    """Hear of an optimizer step."""


def imitate(
    learner: Learner,
    batch: Batch,
    section: ImitationSection,
    *,
    on_step: OnStep | None = None,
    **options: Unpack[ImitationOptions],
) -> dict[str, float]:
    """Train on demonstrations from the first optimizer step to the last, and return the statistics of `Imitation.end`.

    Args:
        learner: its model is changed in place.
        batch: batch from `demonstration_batch`.
        section: the `[imitation]` section.
        on_step: see `Imitation.advance`.
        options: further options of `Imitation`.
    """
    imitation = Imitation(learner, batch, section, **options)
    try:
        imitation.advance(imitation.steps, on_step)
    finally:
        stats = imitation.end()
    return stats


def begin_imitation(
    learner: Learner, batch: Batch, section: ImitationSection, **options: Unpack[ImitationOptions]
) -> None:
    """Begin a warm start that several calls of `Learner.on_all_ranks` go on with; see `Imitation`."""
    learner.work = Imitation(learner, batch, section, **options)


def imitation_of(learner: Learner) -> Imitation:
    """Return the warm start that a learner has begun."""
    assert isinstance(learner.work, Imitation), "the learner imitates nothing"
    return learner.work


def continue_imitation(learner: Learner, step: int, state: State) -> None:
    """Go on with a warm start after `step` optimizer steps; see `Imitation.load_state`."""
    imitation_of(learner).load_state(step, state)


def advance_imitation(learner: Learner, steps: int, on_step: OnStep | None = None) -> None:
    """Do the next optimizer steps of a warm start; see `Imitation.advance`."""
    imitation_of(learner).advance(steps, on_step)


def end_imitation(learner: Learner) -> dict[str, float]:
    """End a warm start, and return its statistics; see `Imitation.end`."""
    stats = imitation_of(learner).end()
    learner.work = None
    return stats


@contextmanager
def interruptible(model: torch.nn.Module) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a backward pass within a layer or two.

    Python acts on a signal only between two of its own instructions, and a backward pass of a large model on a CPU has
    none for minutes. Each parameter calls an empty function when its gradient is there, which changes no number.
    """

    def pause(_: torch.Tensor) -> None:
        """Be an instruction of Python's."""

    hooks = [
        parameter.register_post_accumulate_grad_hook(pause)  # type: ignore[no-untyped-call]
        for parameter in model.parameters()
        if parameter.requires_grad
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def imitation_steps(
    lengths: NDArray[np.int64], section: ImitationSection, seed: int
) -> list[tuple[int, NDArray[np.int64]]]:
    """Return epoch and row numbers of every optimizer step of a warm start that does not reach its target before.

    Args:
        lengths: int64 [B], tokens of the rows.
        section: says how many epochs, and how many tokens per step.
        seed: of the order.
    """
    rng = np.random.default_rng(seed)
    return [(epoch, rows) for epoch in range(section.epochs) for rows in _steps(lengths, section.batch_tokens, rng)]


def _steps(lengths: NDArray[np.int64], budget: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Cut a shuffled epoch into optimizer steps of about `budget` tokens each.

    Sequences are not sorted by length. Sorting would save a third of the computation, which is padding, but a step of a
    few episodes would then see only one kind of them, and learning is clearly slower.
    """
    order = rng.permutation(len(lengths))
    step = (np.cumsum(lengths[order]) - 1) // budget
    return np.split(order, np.flatnonzero(np.diff(step)) + 1)


def _accumulate(name: str, learner: Learner, batch: Batch, micro_tokens: int) -> float:
    """Compute the gradient of one optimizer step; return the loss, summed over the tokens of answers."""
    learner.model.zero_grad(set_to_none=True)
    scale, total = 1.0 / float(batch.advantages.sum() or 1.0), 0.0

    def backward(index: NDArray[np.int64]) -> float:
        rows = batch.rows(index)
        if learner.scorer.ranks is None and not rows.mask.any():
            return 0.0
        chosen, _ = learner.scorer(rows)
        weights = torch.from_numpy(rows.advantages[rows.mask]).to(chosen)
        if name == "otr":
            weights = weights * (1.1 * chosen.detach().exp())
        (-scale * (weights * chosen).sum()).backward()  # type: ignore[no-untyped-call]
        return float(chosen.detach()[torch.from_numpy(rows.turn[rows.mask] >= 0).to(chosen.device)].sum())

    for index in learner.scorer.micro_batches(batch, micro_tokens):
        total -= learner.scorer.together(partial(backward, index))
    return float(learner.scorer.total(torch.tensor(total, dtype=torch.float64)))
