"""The update: a fixed number of optimiser steps on a batch, computed in micro-batches of tokens.

Log-probabilities are computed only where a token carries loss: hidden states are picked before the vocabulary
projection. Rows without any advantage still count in the denominators; they are not computed, having no gradient
(unless divergence or entropy is part of the loss). Dropout stays off, so that the ratio starts at 1.

Left out on purpose: mixed precision, several processes, and learning rates that depend on what happened.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.training.batch import Batch, micro_batches
from turnwise.training.objectives.ppo import Objective, token_objective

Model = Any  # a causal language model of transformers, which has no types


@dataclass(frozen=True, slots=True)
class Plan:
    """How a batch is turned into optimiser steps.

    Attributes:
        parts: optimiser steps; the trajectories are dealt out to them.
        micro_tokens: tokens, padding included, that are computed at a time.
        grad_clip: highest norm of the gradient.
        temperature: of the distribution that was sampled from.
        seed: of the order in which trajectories are dealt out.
    """

    parts: int = 1
    micro_tokens: int = 16384
    grad_clip: float = 1.0
    temperature: float = 1.0
    seed: int = 0


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


def token_scores(
    model: Model, batch: Batch, *, temperature: float = 1.0, entropy: bool = False
) -> tuple[Tensor, Tensor]:
    """Compute the log-probability of every token in the mask, and the entropy of its distribution.

    log p = log softmax(logits / temperature)[token], logits of the position before the token.

    Args:
        model: a causal language model of transformers, right-padded input.
        batch: its mask says which tokens; row-major order.
        temperature: above 0.
        entropy: whether the entropy carries gradient.

    Returns:
        float [M] each, nats.
    """
    device = next(model.parameters()).device
    rows, columns = np.nonzero(batch.mask)
    tokens = torch.from_numpy(batch.tokens).to(device)
    positions = torch.from_numpy(rows).to(device), torch.from_numpy(columns - 1).to(device)
    logits = _logits_at(model, tokens, positions).float() if _low(model) else _logits_at(model, tokens, positions)
    normalised = torch.log_softmax(logits if temperature == 1.0 else logits / temperature, dim=-1)
    targets = tokens[torch.from_numpy(rows).to(device), torch.from_numpy(columns).to(device)]
    chosen = normalised.gather(-1, targets[:, None])[:, 0]
    with torch.set_grad_enabled(entropy and torch.is_grad_enabled()):
        source = normalised if entropy else normalised.detach()
        spread = -(source.exp() * source).sum(-1)
    return chosen, spread


def _low(model: Model) -> bool:
    return next(model.parameters()).dtype in {torch.bfloat16, torch.float16}


def _logits_at(model: Model, tokens: Tensor, positions: tuple[Tensor, Tensor]) -> Tensor:
    """Give the logits [M, V] at some positions; the projection is done only there where that is the same."""
    if _plain_head(model):
        hidden = model.base_model(input_ids=tokens, use_cache=False).last_hidden_state
        projected: Tensor = model.get_output_embeddings()(hidden[positions])
        return projected
    logits: Tensor = model(input_ids=tokens, use_cache=False).logits
    return logits[positions]


def _plain_head(model: Model) -> bool:
    """Whether logits are the output embedding of the last hidden state and nothing else; tried once on two tokens."""
    known = getattr(model, "_turnwise_plain_head", None)
    if known is not None:
        return bool(known)
    plain = False
    head: Any = model.get_output_embeddings()
    body: Any = getattr(model, "base_model", model)
    if head is not None and body is not model:
        with torch.no_grad():
            probe = torch.tensor([[1, 2]], device=next(model.parameters()).device)
            whole = model(input_ids=probe, use_cache=False).logits
            plain = torch.allclose(head(body(input_ids=probe, use_cache=False).last_hidden_state), whole, atol=1e-4)
    model._turnwise_plain_head = plain
    return plain


@torch.no_grad()
def score(model: Model, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> NDArray[np.float64]:
    """Compute the log-probability of every token in the mask under a policy.

    Args:
        model: the policy.
        batch: what it scores.
        temperature: of the distribution.
        micro_tokens: tokens, padding included, that are computed at a time.

    Returns:
        float64 [B, L], nats; 0 outside the mask.
    """
    model.eval()
    result = np.zeros(batch.mask.shape)
    for index in micro_batches(batch.lengths, micro_tokens):
        rows = batch.rows(index)
        chosen, _ = token_scores(model, rows, temperature=temperature)
        block = np.zeros(rows.mask.shape)
        block[rows.mask] = chosen.double().cpu().numpy()
        result[index, : rows.mask.shape[1]] = block
    return result


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
        loss, grad_norm, entropy (nats, over the computed tokens), clip_fraction, ratio, old_kl, kl (nats), gap (mean
        |sampled - recomputed| log-probability before the first step, nats), gap_max, updates, skipped (shares that
        were not finite), silent (shares without signal), tokens (computed, without padding), seconds, lr.

    Raises:
        ValueError: there are not as many rates as parts, or the objective needs a reference that the batch lacks.
    """
    if rates is not None and len(rates) != plan.parts:
        raise ValueError(f"{len(rates)} learning rates came for {plan.parts} optimiser steps")
    started = time.perf_counter()
    model.eval()
    meter = _Meter()
    for number, index in enumerate(deal(batch, plan.parts, plan.seed)):
        if rates is not None:
            for group in optimizer.param_groups:
                group["lr"] = rates[number]
        part = batch.rows(index)
        if not (part.mask.any() if objective.needs_all else len(part.signalled())):
            meter.silent += 1
            continue
        norm = _gradient(model, part, objective, plan, meter)
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


def _gradient(model: Model, part: Batch, objective: Objective, plan: Plan, meter: "_Meter") -> float:
    """Accumulate the gradient of one share of the batch; give its norm, and leave it clipped."""
    weights = part.weights(objective.aggregation, objective.norm)
    if not objective.needs_all:
        part = part.without_tail()
        part = replace(part, mask=part.mask & (np.arange(part.mask.shape[1]) < part.lengths[:, None]))
    total = 0.0
    for index in micro_batches(part.lengths, plan.micro_tokens):
        rows = part.rows(index)
        if not rows.mask.any():
            continue
        total += meter.add(model, rows, weights[index, : rows.mask.shape[1]], objective, plan)
    meter.loss.append(total)
    parameters = [p for p in model.parameters() if p.grad is not None]
    return float(torch.nn.utils.clip_grad_norm_(parameters, plan.grad_clip))


class _Meter:
    """Sums over micro-batches."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.loss: list[float] = []
        self.norms: list[float] = []
        self.silent = self.skipped = self.computed = 0
        self.gap = self.gap_max = 0.0
        self.gap_tokens = 0

    def add(self, model: Model, rows: Batch, weights: NDArray[np.float64], objective: Objective, plan: Plan) -> float:
        """Compute one micro-batch's loss and gradient, and add its sums."""
        chosen, spread = token_scores(model, rows, temperature=plan.temperature, entropy=objective.entropy != 0)
        pick = _picker(rows.mask, chosen)
        old = pick(rows.old)
        loss, stats = token_objective(
            objective,
            chosen,
            old,
            pick(rows.advantages),
            pick(weights),
            reference=None if rows.reference is None else pick(rows.reference),
            entropy=spread,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        if not self.norms:  # the weights are still those that sampled
            difference = (chosen.detach() - old).abs()
            self.gap += float(difference.sum())
            self.gap_max = max(self.gap_max, float(difference.max()))
            self.gap_tokens += difference.numel()
        self.computed += rows.size
        for name, value in stats.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value)
        return float(loss.detach())

    def stats(self) -> dict[str, float]:
        """Give means and counts."""
        tokens = max(1.0, self.sums.get("tokens", 0.0))
        names = {"clipped": "clip_fraction", "ratio": "ratio", "old_kl": "old_kl", "entropy": "entropy", "kl": "kl"}
        result = {new: self.sums[old] / tokens for old, new in names.items() if old in self.sums}
        result |= {
            "loss": float(np.mean(self.loss)) if self.loss else 0.0,
            "grad_norm": float(np.mean(self.norms)) if self.norms else 0.0,
            "gap": self.gap / max(1, self.gap_tokens),
            "gap_max": self.gap_max,
            "updates": len(self.norms),
            "skipped": self.skipped,
            "silent": self.silent,
            "tokens": self.computed,
        }
        return result


def _picker(mask: NDArray[np.bool_], like: Tensor) -> Callable[[NDArray[np.float64]], Tensor]:
    """Give the function that turns [B, L] numbers into the tensor [M] of those in the mask."""
    return lambda array: torch.from_numpy(array[mask]).to(device=like.device, dtype=like.dtype)
