"""Warm start: supervised training on what a demonstrator said and, with less weight, on what it saw.

A new small model learns to copy names much sooner when it also predicts the observations, in which names recur.

Left out on purpose: preference losses, and gathering of new demonstrations while the policy plays.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from turnwise.agents.trajectory import Group
from turnwise.credit.advantages import Advantages
from turnwise.training.batch import Batch, micro_batches, pack
from turnwise.training.errors import NoDemonstrations
from turnwise.training.update import learning_rate, make_optimizer, token_scores

Model = Any
OnStep = Callable[[dict[str, float]], None]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How demonstrations are imitated.

    Attributes:
        epochs: passes over the demonstrations.
        lr: highest learning rate; 5 % linear warm-up, then cosine to zero.
        batch: tokens in one optimiser step, padding not counted.
        micro_tokens: tokens, padding included, that are computed at a time.
        grad_clip: highest norm of the gradient.
        weight_decay: of AdamW.
        seed: of the order.
        target: mean loss, in nats a token that was said, at which to end early; 0 for never.
    """

    epochs: int = 1
    lr: float = 1e-3
    batch: int = 8192
    micro_tokens: int = 16384
    grad_clip: float = 1.0
    weight_decay: float = 0.0
    seed: int = 0
    target: float = 0.0


def demonstration_batch(
    groups: Sequence[Group], advantages: Advantages | None, *, context: int, observations: float = 0.0
) -> Batch:
    """Pack demonstrations; the advantage of a token is its weight in the loss.

    Args:
        groups: with token ids (turnwise.agents.tokens fills them in).
        advantages: its keep says which turns are imitated; None: all.
        context: most tokens of a sequence; what is beyond is cut off.
        observations: weight of a token that was seen; one that was said and is imitated has 1, one that is not has 0.

    Returns:
        The batch, one row a merged sequence.

    Raises:
        NoDemonstrations: nothing is left to learn from.
    """
    batch = pack(groups, advantages)
    if batch.tokens.shape[1] > context:
        batch = replace(batch, lengths=np.minimum(batch.lengths, context)).rows(np.arange(len(batch)))
    batch = batch.rows(np.flatnonzero(batch.mask.any(axis=1)))
    if not len(batch):
        raise NoDemonstrations(f"no demonstration has a token to learn from within a context of {context} tokens")
    if observations:
        seen = (batch.turn < 0) & (np.arange(batch.tokens.shape[1]) < batch.lengths[:, None])
        seen[:, :1] = False  # nothing stands before it that could predict it
        batch = replace(batch, mask=batch.mask | seen, advantages=np.where(seen, observations, batch.advantages))
    return batch


def imitate(model: Model, batch: Batch, recipe: Recipe, on_step: OnStep | None = None) -> dict[str, float]:
    """Train on demonstrations: minimise sum(w (-log p)) / sum(w) over the tokens of each optimiser step.

    AdamW with betas (0.9, 1 - 20 / steps), the latter from 0.9 to 0.999: its memory of squares is a twentieth of the
    warm start, which may be some hundred steps, too few for the usual 0.999, or some thousand.

    With a target the warm start is over as soon as the mean loss of the last twentieth of the planned steps is down to
    it, at the learning rate of that moment. A small model learns to copy names all at once, sooner with one seed than
    with another: the target lets every seed begin reinforcement learning when it is past that, and not far past it.

    Args:
        model: changed in place.
        batch: from demonstration_batch; its advantages are the weights w.
        recipe: how.
        on_step: called after every optimiser step with step, steps, epoch, loss (nats a token that was said), lr.

    Returns:
        loss (mean of the last tenth of the steps), steps, skipped (steps that were not finite), tokens (trained on,
        padding not counted), seconds.
    """
    started = time.perf_counter()
    model.eval()
    rng = np.random.default_rng(recipe.seed)
    cuts = [(epoch, rows) for epoch in range(recipe.epochs) for rows in _steps(batch.lengths, recipe.batch, rng)]
    betas = 0.9, min(0.999, max(0.9, 1.0 - 20.0 / max(1, len(cuts))))
    optimizer = make_optimizer(model, lr=recipe.lr, weight_decay=recipe.weight_decay, betas=betas)
    losses: list[float] = []
    skipped = tokens = 0
    for step, (epoch, rows) in enumerate(cuts):
        rate = learning_rate(step, total=len(cuts), peak=recipe.lr, schedule="cosine", warmup=max(1, len(cuts) // 20))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = _step(model, batch.rows(rows), optimizer, recipe)
        skipped += not math.isfinite(loss)
        losses.append(loss)
        tokens += int(batch.lengths[rows].sum())
        if on_step is not None:
            on_step({"step": step + 1, "steps": len(cuts), "epoch": epoch + 1, "loss": loss, "lr": rate})
        if _arrived(losses, len(cuts) // 20, recipe.target):
            break
    tail = [loss for loss in losses[-max(1, len(losses) // 10) :] if math.isfinite(loss)]
    return {
        "loss": float(np.mean(tail)) if tail else float("nan"),
        "steps": len(losses),
        "skipped": skipped,
        "tokens": tokens,
        "seconds": time.perf_counter() - started,
    }


def _arrived(losses: Sequence[float], window: int, target: float) -> bool:
    """Whether the mean loss over a window of steps is down to the target."""
    recent = [loss for loss in losses[-max(1, window) :] if math.isfinite(loss)]
    return len(losses) >= window and bool(recent) and sum(recent) / len(recent) <= target


def _steps(lengths: NDArray[np.int64], budget: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Cut a shuffled epoch into optimiser steps of about `budget` tokens each.

    Sequences of one length are not gathered: that would save a third of the computation, which is padding, but it
    costs more than it saves, since an optimiser step of a few episodes then sees one kind of them only.
    """
    order = rng.permutation(len(lengths))
    step = (np.cumsum(lengths[order]) - 1) // budget
    return np.split(order, np.flatnonzero(np.diff(step)) + 1)


def _step(model: Model, batch: Batch, optimizer: torch.optim.Optimizer, recipe: Recipe) -> float:
    """Do one optimiser step unless it is not finite; give the mean loss a token that was said."""
    scale = 1.0 / float(batch.advantages.sum() or 1.0)
    total, said = 0.0, max(1, int((batch.mask & (batch.turn >= 0)).sum()))
    for index in micro_batches(batch.lengths, recipe.micro_tokens):
        rows = batch.rows(index)
        if not rows.mask.any():
            continue
        chosen, _ = token_scores(model, rows)
        weights = torch.from_numpy(rows.advantages[rows.mask]).to(chosen)
        (-scale * (weights * chosen).sum()).backward()  # type: ignore[no-untyped-call]
        total -= float(chosen.detach()[torch.from_numpy(rows.turn[rows.mask] >= 0).to(chosen.device)].sum())
    norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.grad_clip))
    finite = math.isfinite(total) and math.isfinite(norm)
    if finite:
        optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total / said if finite else float("nan")
