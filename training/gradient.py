"""The gradient of one optimiser step, computed in micro-batches of tokens; it does not depend on how they are cut.

Rows without any advantage still count in the denominators; they are not computed, having no gradient (unless
divergence or entropy is part of the loss). Dropout stays off, so that the ratio starts at 1.

An objective that must see whole sequences, or the whole batch of an optimiser step, and does not within a micro-batch,
is computed in two passes: log-probabilities of everything without gradient, the loss and its slope in each of them,
and then the model's gradient micro-batch by micro-batch, as that of sum(slope * log-probability).

Left out on purpose: mixed precision, several processes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turnwise.training.batch import Batch, micro_batches
from turnwise.training.objectives.chosen import Objective
from turnwise.training.objectives.tokens import Tokens
from turnwise.training.scores import Model, token_scores


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


def accumulate(model: Model, part: Batch, objective: Objective, plan: Plan, meter: "Meter") -> float:
    """Accumulate the gradient of one share of the batch, clipped; give its norm before.

    Args:
        model: the policy; what its parameters have as gradient is added to.
        part: the trajectories of one optimiser step.
        objective: the loss.
        plan: pieces, temperature, and highest norm.
        meter: gets the loss and the sums over tokens.
    """
    weights = part.weights(objective.mode, objective.norm)
    part = _with_gradient(part, objective)
    cuts = [index for index in micro_batches(part.lengths, plan.micro_tokens) if part.mask[index].any()]
    if len(cuts) > 1 and _torn(part, objective):
        meter.loss.append(_in_two_passes(model, part, weights, cuts, objective, plan, meter))
    else:
        meter.loss.append(sum(_directly(model, part, weights, index, objective, plan, meter) for index in cuts))
    parameters = [p for p in model.parameters() if p.grad is not None]
    return float(torch.nn.utils.clip_grad_norm_(parameters, plan.grad_clip))


def _with_gradient(part: Batch, objective: Objective) -> Batch:
    """Leave out of a share what is certain to have no gradient and is needed for none."""
    if objective.needs_all or objective.together == "batch":
        return part
    if objective.together == "token":
        part = part.without_tail()
    else:
        loud = np.isin(part.trajectory, part.trajectory[part.signalled()])
        part = replace(part, lengths=np.where(loud, part.lengths, 0))
    return replace(part, mask=part.mask & (np.arange(part.mask.shape[1]) < part.lengths[:, None]))


def _torn(part: Batch, objective: Objective) -> bool:
    """Whether a cut between rows parts what must be computed together."""
    if objective.together == "sequence":
        return bool((np.unique(part.trajectory[part.lengths > 0], return_counts=True)[1] > 1).any())
    return objective.together == "batch"


def _directly(
    model: Model,
    part: Batch,
    weights: NDArray[np.float64],
    index: NDArray[np.int64],
    objective: Objective,
    plan: Plan,
    meter: "Meter",
) -> float:
    """Accumulate the gradient of one micro-batch; give its loss."""
    rows = part.rows(index)
    chosen, spread = token_scores(model, rows, temperature=plan.temperature, entropy=objective.entropy != 0)
    tokens = _tokens(rows, chosen, spread, objective, plan.seed)
    loss, stats = objective.loss(tokens, _pick(weights[index, : rows.mask.shape[1]], rows, chosen))
    loss.backward()  # type: ignore[no-untyped-call]
    meter.add(rows, tokens, stats)
    return float(loss.detach())


def _in_two_passes(
    model: Model,
    part: Batch,
    weights: NDArray[np.float64],
    cuts: Sequence[NDArray[np.int64]],
    objective: Objective,
    plan: Plan,
    meter: "Meter",
) -> float:
    """Accumulate the gradient of a whole share whose loss cannot be taken apart; give its loss."""
    bonus = objective.entropy != 0
    with torch.no_grad():
        pairs = [token_scores(model, part.rows(index), temperature=plan.temperature) for index in cuts]
    chosen, spread = (torch.cat(column).requires_grad_() for column in zip(*pairs, strict=True))
    index = np.concatenate(cuts)
    rows = part.rows(index)
    tokens = _tokens(rows, chosen, spread, objective, plan.seed)
    loss, stats = objective.loss(tokens, _pick(weights[index, : rows.mask.shape[1]], rows, chosen))
    slopes = torch.autograd.grad(loss, [chosen, spread], allow_unused=True, materialize_grads=True)
    sizes = [len(pair[0]) for pair in pairs]
    shares = [torch.split(slope, sizes) for slope in slopes]
    for cut, of_chosen, of_spread in zip(cuts, *shares, strict=True):
        again = token_scores(model, part.rows(cut), temperature=plan.temperature, entropy=bonus)
        surrogate = (of_chosen * again[0]).sum()
        if bonus:
            surrogate = surrogate + (of_spread * again[1]).sum()
        surrogate.backward()
    meter.add(rows, tokens, stats)
    return float(loss.detach())


def _pick(array: NDArray[np.float64], rows: Batch, like: Tensor) -> Tensor:
    """Turn [B, L] numbers into the tensor [M] of those in the mask."""
    return torch.from_numpy(array[rows.mask]).to(device=like.device, dtype=like.dtype)


def _tokens(rows: Batch, chosen: Tensor, spread: Tensor, objective: Objective, seed: int) -> Tokens:
    """Give the tokens of some rows as objectives read them."""
    owner = rows.turn if objective.sequence == "turn" else np.broadcast_to(rows.trajectory[:, None], rows.mask.shape)
    names, code = np.unique(owner[rows.mask], return_inverse=True)
    reference, rollout = (
        None if column is None else _pick(column, rows, chosen) for column in (rows.reference, rows.rollout)
    )
    return Tokens(
        new=chosen,
        old=_pick(rows.old, rows, chosen),
        advantages=_pick(rows.advantages, rows, chosen),
        sequence=torch.from_numpy(code).to(chosen.device),
        turn=torch.from_numpy(rows.turn[rows.mask]).to(chosen.device),
        sequences=len(names),
        ref=reference,
        rollout=rollout,
        entropy=spread,
        seed=seed,
    )


class Meter:
    """Sums over micro-batches."""

    def __init__(self) -> None:
        self.sums: dict[str, float] = {}
        self.loss: list[float] = []
        self.norms: list[float] = []
        self.silent = self.skipped = self.computed = 0
        self.gap = self.gap_max = 0.0
        self.gap_tokens = 0

    def add(self, rows: Batch, tokens: Tokens, stats: Mapping[str, Tensor]) -> None:
        """Add the sums of some rows."""
        if not self.norms:  # the weights are still those that sampled
            sampled = tokens.old if tokens.rollout is None else tokens.rollout
            difference = (tokens.new.detach() - sampled).abs()
            self.gap += float(difference.sum())
            self.gap_max = max(self.gap_max, float(difference.max()))
            self.gap_tokens += difference.numel()
        self.computed += rows.size
        for name, value in stats.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def stats(self) -> dict[str, float]:
        """Give means and counts."""
        tokens = max(1.0, self.sums.get("tokens", 0.0))
        names = {name: name for name in self.sums if name != "tokens"} | {"clipped": "clip_fraction"}
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
