"""Imitation (supervised fine-tuning): the loss on a demonstrator's answers and, with less weight, on its observations.

A new small model learns to copy names much sooner when it also predicts the observations, in which names recur.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from turncredit.agents.trajectory import Group
from turncredit.credit.advantages import Advantages
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import NoDemonstrations
from turncredit.training.learner.gradient import clip_gradient
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.optimizers import learning_rate, make_optimizer, set_learning_rate

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


def imitate(
    learner: Learner,
    batch: Batch,
    section: ImitationSection,
    *,
    micro_tokens: int = 16384,
    grad_clip: float = 1.0,
    weight_decay: float = 0.0,
    seed: int = 0,
    on_step: OnStep | None = None,
) -> dict[str, float]:
    """Train on demonstrations: minimise sum(w (-log p)) / sum(w) over the tokens of each optimizer step.

    With the loss "otr", -log p is multiplied by 1.1 p, which has no gradient; what is reported stays -log p. See
    `turncredit.training.objectives.otr`.

    The optimizer is an AdamW of its own with betas (0.9, 1 - 20 / steps), the latter kept within [0.9, 0.999]: its
    second moment averages over a twentieth of the warm start, which may have a few hundred steps or several thousand.

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
        on_step: called after every optimizer step with step, steps, epoch, loss (nats per answer token), lr.

    Returns:
        loss (mean over the last tenth of the steps), steps, skipped (steps that were not finite), tokens (without
        padding), seconds.
    """
    started = time.perf_counter()
    cuts = imitation_steps(batch.lengths, section, seed)
    betas = 0.9, min(0.999, max(0.9, 1.0 - 20.0 / max(1, len(cuts))))
    optimizer = make_optimizer(
        learner.model, lr=section.lr, weight_decay=weight_decay, betas=betas, name=learner.optimizer_name
    )
    losses: list[float] = []
    skipped = tokens = 0
    for step, (epoch, rows) in enumerate(cuts):
        rate = learning_rate(step, total=len(cuts), peak=section.lr, schedule="cosine", warmup=max(1, len(cuts) // 20))
        set_learning_rate(optimizer, rate)
        with interruptible(learner.model):
            loss = _step(
                learner, batch.rows(rows), optimizer, partial(_accumulate, section.loss), micro_tokens, grad_clip
            )
        skipped += not math.isfinite(loss)
        losses.append(loss)
        tokens += int(batch.lengths[rows].sum())
        if on_step is not None:
            on_step({"step": step + 1, "steps": len(cuts), "epoch": epoch + 1, "loss": loss, "lr": rate})
        if _reached(losses, len(cuts) // 20, section.target_loss):
            break
    tail = [loss for loss in losses[-max(1, len(losses) // 10) :] if math.isfinite(loss)]
    return {
        "loss": float(np.mean(tail)) if tail else float("nan"),
        "steps": len(losses),
        "skipped": skipped,
        "tokens": tokens,
        "seconds": time.perf_counter() - started,
    }


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


def _reached(losses: Sequence[float], window: int, target: float) -> bool:
    """Whether the mean loss over the last `window` steps is at most the target."""
    recent = [loss for loss in losses[-max(1, window) :] if math.isfinite(loss)]
    return len(losses) >= window and bool(recent) and sum(recent) / len(recent) <= target


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


def _step(
    learner: Learner,
    batch: Batch,
    optimizer: torch.optim.Optimizer,
    backward: Callable[[Learner, Batch, int], float],
    micro_tokens: int,
    grad_clip: float,
) -> float:
    """Do one optimizer step unless it is not finite; return the mean loss per answer token."""
    answer_tokens = max(1, int((batch.mask & (batch.turn >= 0)).sum()))
    total = learner.scorer.within_memory(partial(backward, learner, batch), batch, micro_tokens)
    trained = [p for p in learner.model.parameters() if p.requires_grad]
    norm = clip_gradient(trained, grad_clip)
    finite = math.isfinite(total) and math.isfinite(norm)
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total / answer_tokens if finite else float("nan")


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
