"""The gradient of one optimizer step, accumulated over micro-batches of tokens; it does not depend on how they are cut.

Rows without any advantage count in the denominators and are not computed, since they have no gradient (unless a KL or
entropy term is part of the loss). Dropout stays off, so that the importance ratio starts at 1.

An objective that needs whole sequences, whole groups, or the whole mini-batch, where a micro-batch would cut them, is
computed in two passes: first all log-probabilities without gradient, the loss and its derivative with respect to each
of them; then the model's gradient, micro-batch by micro-batch, as the gradient of sum(derivative * log-probability).

With several ranks each computes its share of the rows, and the gradients are summed. Weights of tokens, the norm, and
whether a step is skipped are those of the whole mini-batch, on every rank.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from turncredit.training.batch.batch import Batch
from turncredit.training.learner.flops import Work, training_flops
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives.run_objective import Objective
from turncredit.training.objectives.tokens import Tokens


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """How one batch becomes optimizer steps.

    Attributes:
        optimizer_steps: number of optimizer steps; the trajectories are split among them.
        micro_tokens: tokens per micro-batch, with padding if there is any; it does not change the gradient.
        grad_clip: maximum norm of the gradient.
        temperature: of the distribution that the batch was sampled from.
        seed: of the split into mini-batches.
        rates: learning rate of each step; None keeps the optimizer's.
        processes: that share the micro-batches of a step: this one and forks of it.
        version: of the weights that are updated; the gap is that of the tokens which they sampled. None: of all tokens.
    """

    optimizer_steps: int = 1
    micro_tokens: int = 16384
    grad_clip: float = 1.0
    temperature: float = 1.0
    seed: int = 0
    rates: Sequence[float] | None = None
    processes: int = 1
    version: int | None = None

    def __post_init__(self) -> None:
        """Check that there is one learning rate per step."""
        if self.rates is not None and len(self.rates) != self.optimizer_steps:
            raise ValueError(
                f"expected {self.optimizer_steps} learning rates, one per optimizer step, got {len(self.rates)}"
            )


Backward = Callable[["MiniBatch"], None]
"""Accumulates the gradient of a mini-batch, and adds its loss and sums to the meter."""


def accumulate(
    scorer: TokenScorer,
    part: Batch,
    objective: Objective,
    plan: UpdatePlan,
    meter: "UpdateMeter",
    backward: Backward | None = None,
) -> float:
    """Accumulate the gradient of one mini-batch, clip it, and return its norm before clipping.

    Args:
        scorer: of the policy; gradients are added to those of its parameters.
        part: the trajectories of one optimizer step.
        objective: the loss.
        plan: micro-batches, temperature, and maximum norm.
        meter: receives the loss and the sums over tokens.
        backward: runs backward over the mini-batch; None: in this process.
    """

    def compute(micro_tokens: int) -> UpdateMeter:
        # Where memory ran out, half of the gradient and of the sums is there already. Both begin again: the gradient at
        # nothing, the sums at a copy of those of the steps before.
        scorer.model.zero_grad(set_to_none=True)
        whole = mini_batch(scorer, part, objective, replace(plan, micro_tokens=micro_tokens), copy.deepcopy(meter))
        if backward is None:
            whole.accumulate()
        else:
            backward(whole)
        return whole.meter

    meter.become(scorer.within_memory(compute, with_gradient(part, objective), plan.micro_tokens))
    parameters = [p for p in scorer.model.parameters() if p.grad is not None]
    return clip_gradient(parameters, plan.grad_clip)


def mini_batch(
    scorer: TokenScorer, part: Batch, objective: Objective, plan: UpdatePlan, meter: "UpdateMeter"
) -> "MiniBatch":
    """Return the mini-batch of one optimizer step without what certainly has no gradient; see `accumulate`."""
    return MiniBatch(scorer, with_gradient(part, objective), part.weights(objective.mode, objective.norm), objective,
                     plan, meter)  # fmt: skip


def clip_gradient(parameters: Sequence[Tensor], most: float) -> float:
    """Clip the norm of the whole gradient, also where it is divided over ranks; return the norm before clipping."""
    norm = torch.nn.utils.clip_grad_norm_(parameters, most)
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)


class MiniBatch:
    """One mini-batch while its gradient is accumulated; weights [B, L] are those of all its tokens."""

    def __init__(
        self,
        scorer: TokenScorer,
        part: Batch,
        weights: NDArray[np.float64],
        objective: Objective,
        plan: UpdatePlan,
        meter: "UpdateMeter",
    ) -> None:
        self.scorer, self.objective, self.plan, self.meter = scorer, objective, plan, meter
        self.part, self.weights = part, weights
        cuts = scorer.micro_batches(part, plan.micro_tokens)
        # One process leaves out what has no token. Ranks must not: each takes part in every exchange of weights, so all
        # of them compute the same number of micro-batches, some of which are empty.
        self.cuts = [index for index in map(self._with_tokens, cuts) if len(index) or scorer.ranks is not None]

    @property
    def divisible(self) -> bool:
        """Whether the gradient is the sum of those of its rows, each computed alone."""
        return not _divides_sequences(self.part, self.objective)

    def share(self, rows: NDArray[np.int64]) -> "MiniBatch":
        """Return the same mini-batch, of which only some rows will be computed."""
        other = copy.copy(self)
        cuts = self.scorer.micro_batches(self.part.rows(rows), self.plan.micro_tokens)
        other.cuts = [index for index in (self._with_tokens(rows[cut]) for cut in cuts) if len(index)]
        return other

    def _with_tokens(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        return index if self.part.mask[index].any() else index[:0]

    def accumulate(self) -> None:
        """Run backward over all micro-batches."""
        if self.scorer.cutting.shares(self.part):
            self.meter.distinct += sum(self.scorer.cutting.tokens(self.part, cut) for cut in self.cuts)
        several = len(self.cuts) > 1 or self.scorer.ranks is not None
        # A single micro-batch holds every sequence whole, so the loss needs no second pass. The losses of several add
        # up, since the weight of each token already has the denominator of the whole mini-batch.
        if several and _divides_sequences(self.part, self.objective):
            self.meter.loss.append(self._in_two_passes())
        else:
            own = sum(self.scorer.together(partial(self._directly, index)) for index in self.cuts)
            self.meter.loss.append(float(self.scorer.total(torch.tensor(own, dtype=torch.float64))))

    def _directly(self, index: NDArray[np.int64]) -> float:
        """Accumulate the gradient of one micro-batch; return its loss."""
        rows = self.part.rows(index)
        columns = self._score(index, entropy=self.objective.needs_spread)
        if not len(index):
            # no row of this rank: the placeholder that was computed has a zero gradient, and its backward pass meets
            # those of the other ranks
            columns[0].sum().backward()  # type: ignore[no-untyped-call]
            return 0.0
        loss, tokens, stats = self._backward(rows, index, columns)
        self._count(rows, tokens, stats)
        return loss

    def _in_two_passes(self) -> float:
        """Accumulate the gradient of a mini-batch whose loss cannot be cut; return its loss.

        By the chain rule, dL/dw = sum over tokens of (dL / d log p) (d log p / dw). The first factors need all tokens
        at once, but only a few numbers of each; the second need the model, but only one micro-batch at a time.
        """
        with torch.no_grad():  # first pass: the numbers alone, so that no activation is held
            scores = [self.scorer.together(partial(self._score, index)) for index in self.cuts]
        before, index, columns = self._of_all_ranks(scores)
        # leaves of a graph of their own, at which the backward pass of the loss ends, before it reaches the model
        leaves = [column.requires_grad_() for column in columns[:2]]
        rows = self.part.rows(index)
        loss, tokens, stats = self._backward(rows, index, [*leaves, *columns[2:]])
        if self.scorer.ranks is None or self.scorer.ranks.leads:  # every rank computed the loss of all tokens
            self._count(rows, tokens, stats)
        derivatives = [torch.zeros_like(tensor) if tensor.grad is None else tensor.grad for tensor in leaves]
        sizes = [len(columns[0]) for columns in scores]
        split = [torch.split(derivative[before : before + sum(sizes)], sizes) for derivative in derivatives]
        for cut, of_chosen, of_spread in zip(self.cuts, *split, strict=True):
            self.scorer.together(partial(self._along, cut, of_chosen, of_spread))
        return loss

    def _along(self, index: NDArray[np.int64], of_chosen: Tensor, of_spread: Tensor) -> None:
        """Accumulate the gradient of one micro-batch, given the derivatives of the loss for its scores."""
        bonus = self.objective.needs_spread
        # Second pass: the surrogate has the value of nothing, but its gradient is that of the loss. Dropout is off, so
        # the same log-probabilities come out, and the derivatives belong to them.
        again = self._score(index, entropy=bonus)
        surrogate = (of_chosen * again[0]).sum()
        if bonus:
            surrogate = surrogate + (of_spread * again[1]).sum()
        surrogate.backward()  # type: ignore[no-untyped-call]

    def _of_all_ranks(self, scores: list[tuple[Tensor, ...]]) -> tuple[int, NDArray[np.int64], list[Tensor]]:
        """Return where this rank's tokens begin among those of all ranks, and the rows and scores of all of them."""
        index, ranks = np.concatenate(self.cuts), self.scorer.ranks
        columns = [torch.cat(column) for column in zip(*scores, strict=True)]
        if ranks is None:
            return 0, index, columns
        ranks.check_memory()  # before the exchange: a rank without memory would let the others wait in it
        shares = ranks.gather((index, [column.cpu() for column in columns]))
        before = sum(len(columns[0]) for _, columns in shares[: ranks.rank])
        alike = zip(*(columns for _, columns in shares), strict=True)
        gathered = [torch.cat(column).to(self.scorer.device) for column in alike]
        return before, np.concatenate([index for index, _ in shares]), gathered

    def _score(self, index: NDArray[np.int64], *, entropy: bool = False) -> tuple[Tensor, ...]:
        rows, gradient = self.part.rows(index), torch.is_grad_enabled()
        begun, lengths = self.scorer.cutting.spans(rows)
        self.meter.hardware_flops += self.scorer.cost.flops(
            lengths, int(rows.mask.sum()), gradient=gradient, begun=begun
        )
        mean = self.objective.needs_mean
        return self.scorer(rows, temperature=self.plan.temperature, entropy=entropy, mean=mean)

    def _count(self, rows: Batch, tokens: Tokens, stats: Mapping[str, Tensor]) -> None:
        shape = self.scorer.cost.shape
        self.meter.add(rows, tokens, stats)
        self.meter.flops += training_flops(shape, Work.of(shape, rows.lengths, int(rows.mask.sum())))

    def _backward(
        self, rows: Batch, index: NDArray[np.int64], scores: Sequence[Tensor]
    ) -> tuple[float, Tokens, Mapping[str, Tensor]]:
        """Compute the loss of some rows, run backward, and return the loss, the tokens and the statistics."""
        tokens = _tokens(rows, scores, self.objective, self.plan.seed)
        loss, stats = self.objective.loss(tokens, _pick(self.weights[index, : rows.mask.shape[1]], rows, scores[0]))
        loss.backward()  # type: ignore[no-untyped-call]
        return float(loss.detach()), tokens, stats


def with_gradient(part: Batch, objective: Objective) -> Batch:
    """Return the mini-batch without the rows and tails that certainly have no gradient."""
    if objective.needs_all or objective.together in ("group", "batch"):
        return part
    if objective.together == "token":
        part = part.without_tail()
    else:
        with_signal = np.isin(part.trajectory, part.trajectory[part.rows_with_signal()])
        part = replace(part, lengths=np.where(with_signal, part.lengths, 0))
    return replace(part, mask=part.mask & (np.arange(part.mask.shape[1]) < part.lengths[:, None]))


def _divides_sequences(part: Batch, objective: Objective) -> bool:
    """Whether cutting between rows separates tokens that must be computed together."""
    if objective.together == "sequence":
        return bool((np.unique(part.trajectory[part.lengths > 0], return_counts=True)[1] > 1).any())
    return objective.together in ("group", "batch")


def _pick(array: NDArray[np.float64], rows: Batch, like: Tensor) -> Tensor:
    """Return the numbers [B, L] of the tokens in the mask as a tensor [M]."""
    return torch.from_numpy(array[rows.mask]).to(device=like.device, dtype=like.dtype)


def _tokens(rows: Batch, scores: Sequence[Tensor], objective: Objective, seed: int) -> Tokens:
    """Return the tokens of some rows in the form that objectives read."""
    chosen, spread, *means = scores
    trajectory = np.broadcast_to(rows.trajectory[:, None], rows.mask.shape)[rows.mask]
    owner = rows.turn[rows.mask] if objective.sequence == "turn" else trajectory
    names, first, code = np.unique(owner, return_index=True, return_inverse=True)
    episodes = rows.episodes.take(trajectory[first])
    reference, rollout, old_mean = (
        None if column is None else _pick(column, rows, chosen)
        for column in (rows.reference, rows.rollout, rows.mean_logprob)
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
        mean_logprob=means[0] if means else None,
        old_mean_logprob=old_mean,
        seed=seed,
        outcome=torch.from_numpy(episodes.outcome).to(chosen),
        group=torch.from_numpy(np.unique(episodes.group, return_inverse=True)[1]).to(chosen.device),
        source=torch.from_numpy(episodes.source).to(chosen.device),
    )


class UpdateMeter:
    """Sums over the micro-batches and steps of one update."""

    def __init__(self, version: int | None = None) -> None:
        self.version = version  # of the weights before the first step
        self.sums: dict[str, float] = {}
        self.loss: list[float] = []
        self.norms: list[float] = []
        self.without_signal = self.skipped = self.computed = 0
        self.flops = self.hardware_flops = 0
        self.distinct = 0  # tokens in trees, where prefixes are shared
        self.gap = self.gap_max = 0.0
        self.gap_tokens = 0

    def add(self, rows: Batch, tokens: Tokens, stats: Mapping[str, Tensor]) -> None:
        """Add the sums of some rows."""
        if not self.norms:
            self._measure_gap(rows, tokens)
        self.computed += rows.size
        for name, value in stats.items():
            self.sums[name] = self.sums.get(name, 0.0) + float(value)

    def _measure_gap(self, rows: Batch, tokens: Tokens) -> None:
        """Compare log-probabilities of the same weights: those before the first step, and those that sampled."""
        difference = (tokens.new.detach() - (tokens.old if tokens.rollout is None else tokens.rollout)).abs()
        if self.version is not None:
            difference = difference[torch.from_numpy(rows.version[rows.mask] == self.version).to(difference.device)]
        self.gap += float(difference.sum())
        self.gap_max = max(self.gap_max, float(difference.max())) if len(difference) else self.gap_max
        self.gap_tokens += len(difference)

    def include(self, other: "UpdateMeter") -> None:
        """Add the sums over the rows of another rank; loss, norms and counts of steps are those of all ranks."""
        for name, value in other.sums.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.gap += other.gap
        self.gap_max = max(self.gap_max, other.gap_max)
        self.gap_tokens += other.gap_tokens
        self.computed += other.computed
        self.flops += other.flops
        self.hardware_flops += other.hardware_flops
        self.distinct += other.distinct

    def skip(self, before: "UpdateMeter") -> None:
        """Count a mini-batch that is not finite, and take back what it added to means; what it cost stays.

        Args:
            before: the meter before the mini-batch.
        """
        self.skipped += 1
        for name in ("loss", "sums", "gap", "gap_max", "gap_tokens"):
            setattr(self, name, getattr(before, name))

    def become(self, other: "UpdateMeter") -> None:
        """Take over the sums of another meter."""
        self.__dict__.update(other.__dict__)

    def stats(self) -> dict[str, float]:
        """Return means and counts; see `Learner.update`."""
        tokens = max(1.0, self.sums.get("tokens", 0.0))
        names = {name: name for name in self.sums if name != "tokens"} | {"clipped": "clip_fraction"}
        result = {new: self.sums[old] / tokens for old, new in names.items() if old in self.sums}
        result |= {
            "loss": float(np.mean(self.loss)) if self.loss else 0.0,
            "grad_norm": float(np.mean(self.norms)) if self.norms else 0.0,
            "updates": len(self.norms),
            "skipped": self.skipped,
            "without_signal": self.without_signal,
            "tokens": self.computed,
            "flops": self.flops,
            "hardware_flops": self.hardware_flops,
        }
        if self.distinct:
            result["shared"] = 1.0 - self.distinct / max(1, self.computed)
        if self.gap_tokens or not self.computed:
            result |= {"gap": self.gap / max(1, self.gap_tokens), "gap_max": self.gap_max}
        return result
