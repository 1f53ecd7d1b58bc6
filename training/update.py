"""The update: a fixed number of optimiser steps on a batch.

Left out on purpose: mixed precision, several processes, and learning rates that depend on what happened.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from turnwise.training.batch import Batch
from turnwise.training.gradient import Meter, Plan, accumulate
from turnwise.training.objectives.chosen import Objective
from turnwise.training.scores import Model, score, score_both, token_scores

__all__ = ["Plan", "deal", "learning_rate", "make_optimizer", "score", "score_both", "token_scores", "update"]


def learning_rate(step: int, *, total: int, peak: float, schedule: str = "constant", warmup: int = 0) -> float:
    """Give the learning rate of one optimiser step, a pure function of its number.

    Linear from peak / warmup to peak over `warmup` steps; then peak, or peak (1 + cos(pi x)) / 2 with x going from
    0 to 1 over the rest.

    Args:
        step: from 0.
        total: optimiser steps of the whole run.
        peak: highest learning rate.
        schedule: "constant" or "cosine".
        warmup: optimiser steps.

    Returns:
        The learning rate.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    fraction = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak * 0.5 * (1.0 + math.cos(math.pi * fraction))


def make_optimizer(
    model: Model, *, lr: float, weight_decay: float = 0.0, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.AdamW:
    """Give AdamW in which weight decay spares vectors: norms, biases."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=lr, betas=betas)


def deal(batch: Batch, parts: int, seed: int) -> list[NDArray[np.int64]]:
    """Deal the batch's trajectories out to optimiser steps, those with signal first, each kind shuffled.

    Args:
        batch: its rows are dealt out by trajectory: a trajectory is never cut.
        parts: optimiser steps.
        seed: of the shuffle.

    Returns:
        One array of rows for each step; as even as may be, in trajectories and in those with signal.
    """
    rng = np.random.default_rng(seed)
    everyone = np.unique(batch.trajectory)
    loud = np.unique(batch.trajectory[batch.signalled()])
    silent = np.setdiff1d(everyone, loud)
    order = np.concatenate([rng.permutation(loud), rng.permutation(silent)])
    return [np.flatnonzero(np.isin(batch.trajectory, order[part::parts])) for part in range(parts)]


def update(
    model: Model,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    objective: Objective,
    plan: Plan,
    rates: Sequence[float] | None = None,
) -> dict[str, float]:
    """Do a fixed number of optimiser steps on a batch, each on its share of the trajectories.

    Denominators are those of the whole share: micro-batches do not change the gradient. A share without signal is
    not stepped on; a share whose loss or gradient is not finite is left out and counted.

    Args:
        model: the policy, changed in place.
        optimizer: over the model's parameters.
        batch: from pack.
        objective: the loss.
        plan: how many steps, and in which pieces.
        rates: learning rate of each step; None leaves the optimizer's own.

    Returns:
        loss, grad_norm, entropy (nats, over the computed tokens), clip_fraction, ratio, old_kl, kl (nats), correction
        and llds where they are part of the loss, gap (mean |sampled - recomputed| log-probability before the first
        step, nats), gap_max, updates, skipped (shares that were not finite), silent (shares without signal), tokens
        (computed, without padding), seconds, lr.

    Raises:
        ValueError: there are not as many rates as parts, or the objective needs a reference that the batch lacks.
    """
    if rates is not None and len(rates) != plan.parts:
        raise ValueError(f"{len(rates)} learning rates came for {plan.parts} optimiser steps")
    started = time.perf_counter()
    model.eval()
    meter = Meter()
    for number, index in enumerate(deal(batch, plan.parts, plan.seed)):
        if rates is not None:
            for group in optimizer.param_groups:
                group["lr"] = rates[number]
        part = batch.rows(index)
        if not (part.mask.any() if objective.needs_all else len(part.signalled())):
            meter.silent += 1
            continue
        norm = accumulate(model, part, objective, replace(plan, seed=plan.seed + number), meter)
        if math.isfinite(norm) and math.isfinite(meter.loss[-1]):
            optimizer.step()
            meter.norms.append(norm)
        else:
            meter.skipped += 1
            meter.loss.pop()
        optimizer.zero_grad(set_to_none=True)
    stats = meter.stats()
    stats["seconds"] = time.perf_counter() - started
    stats["lr"] = float(optimizer.param_groups[0]["lr"])
    return stats
