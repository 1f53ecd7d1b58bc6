"""The learner: it owns the policy's model, tokenizer, optimizer and device, and the reference policy if there is one.

The loop talks to the learner only, and never to torch:

    scores = learner.score(batch)                     log-probabilities and entropies, without gradient
    stats = learner.update(batch, objective, plan)    a fixed number of optimizer steps
    sampler.load(learner.weights(), version=step)     new weights for the sampler
    learner.load_state(learner.state())               the optimizer's state, for checkpoints
"""

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from turnwise.training.batch import Batch
from turnwise.training.gradient import UpdateMeter, UpdatePlan, accumulate
from turnwise.training.logprobs import CausalLM, Scores, TokenScorer
from turnwise.training.objectives.run_objective import Objective


class Learner:
    """The policy and everything that trains it.

    Args:
        model: a causal language model of transformers; it is moved to the device and changed in place.
        tokenizer: its tokenizer.
        device: as torch names it.
        lr: learning rate of AdamW where an update's plan has none.
        weight_decay: of AdamW, for matrices only.
    """

    def __init__(
        self, model: CausalLM, tokenizer: Any, *, device: str = "cpu", lr: float = 3e-4, weight_decay: float = 0.0
    ) -> None:
        self.model = model.to(device)
        self.tokenizer = tokenizer
        self.device = device
        self.optimizer = make_optimizer(self.model, lr=lr, weight_decay=weight_decay)
        self._scorer = TokenScorer(self.model)
        self._reference: TokenScorer | None = None

    @property
    def scorer(self) -> TokenScorer:
        """Scores tokens under the policy, with gradient."""
        return self._scorer

    @property
    def has_reference(self) -> bool:
        """Whether there is a reference policy."""
        return self._reference is not None

    def set_reference(self, model: CausalLM) -> None:
        """Keep a frozen copy of a policy, to measure the divergence from it."""
        self._reference = TokenScorer(model.to(self.device).requires_grad_(False))

    def score(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> Scores:
        """Return log-probabilities and entropies of the batch's tokens under the policy."""
        return self._scorer.score(batch, temperature=temperature, micro_tokens=micro_tokens)

    def score_reference(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> Scores:
        """Return log-probabilities and entropies of the batch's tokens under the reference policy.

        Raises:
            ValueError: there is no reference.
        """
        if self._reference is None:
            raise ValueError("this learner has no reference policy; call set_reference() first")
        return self._reference.score(batch, temperature=temperature, micro_tokens=micro_tokens)

    def update(self, batch: Batch, objective: Objective, plan: UpdatePlan) -> dict[str, float]:
        """Do a fixed number of optimizer steps, each on its mini-batch of trajectories, and return statistics.

        Denominators are those of the whole mini-batch, so that micro-batches do not change the gradient. A mini-batch
        without signal is not stepped on; one whose loss or gradient is not finite is skipped and counted.

        Args:
            batch: from `pack`.
            objective: the loss.
            plan: number of steps, micro-batches, learning rates.

        Returns:
            loss, grad_norm, entropy (nats, over the computed tokens), clip_fraction, ratio, old_kl, kl (nats),
            correction and llds where they are part of the loss, gap (mean |sampled - recomputed| log-probability
            before the first step, nats), gap_max, updates, skipped (mini-batches that were not finite),
            without_signal (mini-batches without an advantage), tokens (computed, without padding), seconds, lr.

        Raises:
            ValueError: the objective needs a reference that the batch lacks.
        """
        started = time.perf_counter()
        self.model.eval()
        meter = UpdateMeter()
        for number, index in enumerate(split_minibatches(batch, plan.updates, plan.seed)):
            if plan.rates is not None:
                set_learning_rate(self.optimizer, plan.rates[number])
            part = batch.rows(index)
            if not (part.mask.any() if objective.needs_all else len(part.rows_with_signal())):
                meter.without_signal += 1
                continue
            norm = accumulate(self._scorer, part, objective, replace(plan, seed=plan.seed + number), meter)
            if math.isfinite(norm) and math.isfinite(meter.loss[-1]):
                self.optimizer.step()
                meter.norms.append(norm)
            else:
                meter.skipped += 1
                meter.loss.pop()
            self.optimizer.zero_grad(set_to_none=True)
        rate = float(self.optimizer.param_groups[0]["lr"])
        return meter.stats() | {"seconds": time.perf_counter() - started, "lr": rate}

    def weights(self) -> CausalLM:
        """Return the policy's weights for a sampler: the model itself, which a sampler in this process shares."""
        return self.model

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint keeps beside the weights, as torch.save can hold it."""
        return {"optimizer": self.optimizer.state_dict()}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned."""
        self.optimizer.load_state_dict(state["optimizer"])


def make_optimizer(
    model: CausalLM, *, lr: float, weight_decay: float = 0.0, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.AdamW:
    """Return AdamW over the model's parameters; weight decay spares vectors (norms, biases)."""
    matrices = [p for p in model.parameters() if p.requires_grad and p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.requires_grad and p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=lr, betas=betas)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of every parameter group."""
    for group in optimizer.param_groups:
        group["lr"] = rate


def learning_rate(step: int, *, total: int, peak: float, schedule: str = "constant", warmup: int = 0) -> float:
    """Return the learning rate of one optimizer step, a pure function of its number.

    It rises linearly from peak / warmup to peak over `warmup` steps. Then it stays at peak, or follows
    peak (1 + cos(pi x)) / 2, where x goes from 0 to 1 over the remaining steps.

    Args:
        step: from 0.
        total: optimizer steps of the whole run.
        peak: maximum learning rate.
        schedule: "constant" or "cosine".
        warmup: optimizer steps.
    """
    if step < warmup:
        return peak * (step + 1) / warmup
    if schedule == "constant":
        return peak
    fraction = min(1.0, (step - warmup) / max(1, total - warmup))
    return peak * 0.5 * (1.0 + math.cos(math.pi * fraction))


def split_minibatches(batch: Batch, parts: int, seed: int) -> list[NDArray[np.int64]]:
    """Split the batch's trajectories into one mini-batch per optimizer step.

    Trajectories with signal are shuffled and dealt out first, then those without, so that both kinds are spread as
    evenly as possible. A trajectory is never divided.

    Args:
        batch: from `pack`.
        parts: number of mini-batches.
        seed: of the shuffle.

    Returns:
        The row numbers of each mini-batch.
    """
    rng = np.random.default_rng(seed)
    with_signal = np.unique(batch.trajectory[batch.rows_with_signal()])
    without_signal = np.setdiff1d(np.unique(batch.trajectory), with_signal)
    order = np.concatenate([rng.permutation(with_signal), rng.permutation(without_signal)])
    return [np.flatnonzero(np.isin(batch.trajectory, order[part::parts])) for part in range(parts)]
