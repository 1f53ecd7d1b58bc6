"""The learner: it owns the policy's model, tokenizer, optimizer and device, and the reference policy if there is one.

The loop talks to the learner only, and never to torch:

    scores = learner.score(batch)                     log-probabilities and entropies, without gradient
    stats = learner.update(batch, objective, plan)    a fixed number of optimizer steps
    sampler.load(learner.weights(), version=step)     new weights for the sampler
    learner.load_state(learner.state())               the optimizer's state, for checkpoints
"""

import copy
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import Parameter

from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.models.four_bits import numbers_in
from turncredit.agents.models.weights import has_adapter
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.scores import Scores
from turncredit.training.learner.gradient import UpdateMeter, UpdatePlan, accumulate
from turncredit.training.learner.gradient_forks import UpdateForks
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import FrozenAdapter
from turncredit.training.learner.optimizers import make_optimizer, set_learning_rate
from turncredit.training.learner.out_of_memory import MicroBatchLimit
from turncredit.training.learner.parked_tensors import ParkedOptimizer, ParkedWeights
from turncredit.training.learner.untyped import CausalLM, PolicyTokenizer
from turncredit.training.objectives.run_objective import Objective
from turncredit.training.types import State

if TYPE_CHECKING:
    from turncredit.training.learner.ranks import Ranks

T = TypeVar("T")


class Learner:
    """The policy and everything that trains it.

    Args:
        model: a causal language model of transformers, or a peft model whose adapter is trained; it is moved to the
            device and changed in place.
        tokenizer: its tokenizer.
        device: as torch names it.
        lr: learning rate where an update's plan has none.
        weight_decay: for matrices only.
        optimizer: one of OPTIMIZERS.
        bfloat16: compute in bfloat16 (autocast), while trained weights, their gradients and the optimizer stay as they
            are, in float32.
        recompute_activations: recompute the activations of each layer in the backward pass.
        packing: compute the rows of a micro-batch as one sequence without padding.
        share_prefixes: compute what rows of a micro-batch begin with in common once, if the model can; "flex": with the
            kernels of flex attention.
        ranks: over which weights, optimizer and rows are divided. Each rank has a learner and calls the same methods
            with the same arguments; `DistributedLearner` sees to that. Except on rank 0, the model is a skeleton.
        note: called with a sentence when memory has run out and a step is computed again.
    """

    def __init__(
        self,
        model: CausalLM,
        tokenizer: PolicyTokenizer,
        *,
        device: str = "cpu",
        lr: float = 3e-4,
        weight_decay: float = 0.0,
        optimizer: str = "adamw",
        bfloat16: bool = False,
        recompute_activations: bool = False,
        packing: bool = False,
        share_prefixes: bool | str = False,
        ranks: "Ranks | None" = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.device = device
        self.memory = DeviceMemory(device)
        self._parked: list[ParkedOptimizer | ParkedWeights] = []
        self._kernels = "plain"
        self.ranks = ranks
        self.limit = MicroBatchLimit(note)
        self._make_scorer = partial(
            TokenScorer,
            bfloat16=bfloat16,
            packing=packing,
            share_prefixes=share_prefixes,
            limit=self.limit,
            ranks=ranks,
            tokenizer=tokenizer,
        )
        self._scorer = self._make_scorer(
            model if ranks else model.to(device), recompute_activations=recompute_activations
        )
        if self._scorer.unshared and note is not None:
            note(self._scorer.unshared)
        self.model = self._scorer.model
        self.optimizer_name = optimizer
        self.optimizer = make_optimizer(self.model, lr=lr, weight_decay=weight_decay, name=optimizer)
        self._reference: TokenScorer | FrozenAdapter | None = None
        self.peak = 0.0
        """FLOP/s that the device of one rank can reach, against which mfu is measured; 0: not known."""
        self.work: object | None = None
        """What functions that all ranks call keep from one call to the next; None: nothing is under way."""

    @property
    def scorer(self) -> TokenScorer:
        """Scores tokens under the policy, with gradient."""
        return self._scorer

    @property
    def has_adapter(self) -> bool:
        """Whether an adapter is trained, around frozen weights."""
        return has_adapter(self.model)

    @property
    def sizes(self) -> dict[str, int]:
        """How many parameters the policy has, and how many of them are trained: with LoRA, those of the adapter."""
        sizes = [(numbers_in(parameter), parameter.requires_grad) for parameter in self.model.parameters()]
        return {"parameters": sum(n for n, _ in sizes), "trained": sum(n for n, trained in sizes if trained)}

    @property
    def has_reference(self) -> bool:
        """Whether there is a reference policy."""
        return self._reference is not None

    def offload(self, *, weights: bool = False) -> None:
        """Keep the optimizer's states in main memory from each `make_room` to the next update.

        Args:
            weights: keep the weights there as well, also those of the reference; the next computation fetches
                everything.
        """
        self._parked = [ParkedOptimizer(self.optimizer, self.memory)]
        if weights:
            self._parked.append(ParkedWeights(self._all_weights, self.memory))

    @property
    def parks_weights(self) -> bool:
        """Whether `make_room` moves the weights to main memory."""
        return any(isinstance(parked, ParkedWeights) for parked in self._parked)

    def _all_weights(self) -> Iterator[Parameter]:
        for scorer in (self._scorer, self._reference):
            if isinstance(scorer, TokenScorer):
                yield from scorer.model.parameters()

    def _fetch(self, *, optimizer: bool = False) -> None:
        """Move back to the device what a computation needs: the weights, and the optimizer's states for an update."""
        for parked in self._parked:
            if optimizer or isinstance(parked, ParkedWeights):
                parked.fetch()

    def use_kernels(self, name: str) -> None:
        """Compute with other kernels from here on, also the reference; see `turncredit.training.learner.kernels`.

        Args:
            name: "plain", "compile" or "liger".

        Raises:
            ConfigError: this machine or the model has nothing that they compute, or there are several ranks.
        """
        self._kernels = name
        for scorer in (self._scorer, self._reference):
            if isinstance(scorer, TokenScorer):  # an adapter computes with the policy's
                scorer.use_kernels(name)

    def replay_routing(self) -> None:
        """Compute tokens with the experts that the sampler recorded, where it did; the reference chooses its own.

        Raises:
            ConfigError: experts cannot be prescribed to the model.
        """
        self._scorer.replay_routing()

    def make_room(self) -> None:
        """Leave to other processes what the device's memory holds and nothing needs before the next update."""
        for parked in self._parked:
            parked.park()
        self.memory.release()

    def set_reference(self, model: CausalLM) -> None:
        """Keep a frozen copy of a policy, to measure the divergence from it."""
        frozen = model.requires_grad_(False)
        scorer = self._make_scorer(frozen if self.ranks else frozen.to(self.device))
        scorer.use_kernels(self._kernels)
        self._reference = scorer

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments."""
        self.optimizer.state.clear()

    def set_reference_adapter(self, adapter: Mapping[str, Tensor]) -> None:
        """Measure the divergence from this model with another adapter; the frozen weights are shared.

        Args:
            adapter: from `adapter_tensors`.
        """
        self._reference = FrozenAdapter(self._scorer, adapter)

    def score(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384, mean: bool = False) -> Scores:
        """Return log-probabilities and entropies of the batch's tokens under the policy; see `TokenScorer.score`."""
        self._fetch()
        return self._scorer.score(batch, temperature=temperature, micro_tokens=micro_tokens, mean=mean)

    def score_reference(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> Scores:
        """Return log-probabilities and entropies of the batch's tokens under the reference policy.

        Raises:
            ValueError: there is no reference.
        """
        self._fetch()
        own = batch.without_experts()
        return self.require_reference().score(own, temperature=temperature, micro_tokens=micro_tokens)

    def require_reference(self) -> "TokenScorer | FrozenAdapter":
        """Return what scores tokens under the reference policy.

        Raises:
            ValueError: there is no reference.
        """
        if self._reference is None:
            raise ValueError("this learner has no reference policy; call set_reference() first")
        return self._reference

    def update(self, batch: Batch, objective: Objective, plan: UpdatePlan) -> dict[str, float]:
        """Do a fixed number of optimizer steps, each on its mini-batch of trajectories, and return statistics.

        Denominators are those of the whole mini-batch, so that micro-batches do not change the gradient. A mini-batch
        without signal is not stepped on; one whose loss or gradient is not finite is skipped and counted.

        Args:
            batch: from `pack`.
            objective: the loss.
            plan: number of steps, micro-batches, learning rates.

        Returns:
            loss, grad_norm, entropy (nats), clip_fraction, ratio, old_kl, kl (nats), correction and llds where they are
            part of the loss; the means are over the computed tokens, without rows that have no advantage and
            mini-batches that were skipped;
            computed_share (these tokens, of all in the mask), gap (mean |sampled - recomputed| log-probability before
            the first step, nats, of tokens that these weights sampled) and gap_max where there are such tokens,
            updates, skipped (mini-batches that were not finite), without_signal (mini-batches without an advantage),
            tokens (computed, without padding), shared (where prefixes are shared: the part of these tokens that was
            computed for another row, or is not needed), seconds, lr, flops (model FLOPs), hardware_flops, and mfu and
            hfu where the device's peak is known (see `utilisation`).

        Raises:
            ValueError: the objective needs a reference that the batch lacks.
            ConfigError: a row is longer than the model's position encoding allows.
            NotEnoughMemory: memory runs out even with one sequence per micro-batch.
        """
        started = time.perf_counter()
        self._fetch(optimizer=True)
        self._scorer.check_lengths(batch.lengths)
        self.model.eval()
        meter = UpdateMeter(plan.version)
        cuts = split_minibatches(batch, plan.optimizer_steps, plan.seed, groups=objective.whole_groups)
        parts = [batch.rows(index) for index in cuts]
        with UpdateForks(self._scorer, parts, objective, plan.processes) as forks:
            for number, part in enumerate(parts):
                if plan.rates is not None:
                    set_learning_rate(self.optimizer, plan.rates[number])
                if not (part.mask.any() if objective.needs_all else len(part.rows_with_signal())):
                    meter.without_signal += 1
                    continue
                part_plan, before = replace(plan, seed=plan.seed + number), copy.deepcopy(meter)
                norm = accumulate(self._scorer, part, objective, part_plan, meter, partial(forks.accumulate, number))
                if math.isfinite(norm) and math.isfinite(meter.loss[-1]):
                    self.optimizer.step()
                    meter.norms.append(norm)
                else:
                    meter.skip(before)
                self.optimizer.zero_grad(set_to_none=True)
        if self.ranks is not None:
            own, *others = self.ranks.gather(meter)
            for other in others:
                own.include(other)
            meter = own
        rate = float(self.optimizer.param_groups[0]["lr"])
        share = meter.sums.get("tokens", 0.0) / max(1, int(batch.mask.sum()))
        stats = meter.stats() | {"computed_share": share, "seconds": time.perf_counter() - started, "lr": rate}
        return stats | self.utilisation(stats)

    def utilisation(self, stats: Mapping[str, float]) -> dict[str, float]:
        """Return which share of the device's peak some computation reached; nothing where the peak is not known.

        Args:
            stats: flops, hardware_flops and seconds; with several ranks, the sums over all of them.

        Returns:
            mfu = flops / (seconds x peak), and hfu, the same with hardware_flops.
        """
        most = self.peak * (1 if self.ranks is None else self.ranks.size) * stats["seconds"]
        return {"mfu": stats["flops"] / most, "hfu": stats["hardware_flops"] / most} if most else {}

    def dealt(self, batch: Batch, steps: Iterable[NDArray[np.int64]]) -> object:
        """Return a batch as an argument of `on_all_ranks`: other ranks receive the contents of rows that they compute.

        Args:
            batch: the whole.
            steps: row numbers of every optimizer step; with one process they are not looked at.
        """
        return batch

    def on_all_ranks(
        self, function: Callable[..., T], *args: Any, here: Mapping[str, object] | None = None, **kwargs: Any
    ) -> T:
        """Return `function(self, *args, **kwargs, **here)`, which trains the model; with several ranks each calls it.

        Args:
            function: of a module.
            args: its arguments after the learner; see `dealt`.
            here: further arguments, which only this rank has, such as callbacks.
            kwargs: further arguments.
        """
        self._fetch(optimizer=True)
        return function(self, *args, **kwargs, **(here or {}))

    def weights(self) -> CausalLM:
        """Return the policy's weights for a sampler: the model itself, which a sampler in this process shares.

        With an adapter it is the peft model; `turncredit.agents.models.weights.named_tensors` merges it.
        """
        return self.model

    def state(self) -> State:
        """Return what a checkpoint keeps beside the weights, as torch.save can hold it."""
        limit = {} if self.limit.tokens is None else {"micro_tokens": self.limit.tokens}
        return limit if self.ranks else {"optimizer": self.optimizer.state_dict(), **limit}

    def save_shards(self, folder: Path) -> Callable[[], None]:
        """Begin to write what `state` leaves out because each rank holds a part of it: the optimizer's state.

        Args:
            folder: of a checkpoint that is being written; all ranks must see it. One process writes nothing.

        Returns:
            A function that returns when everything is written, and raises OSError if a rank cannot. The learner may go
            on meanwhile.
        """
        if self.ranks is None:
            return _nothing
        from turncredit.training.learner.optimizer_shards import save_optimizer

        return save_optimizer(self.model, self.optimizer, folder, self.ranks.writers)

    def load_state(self, state: State, folder: Path | None = None) -> None:
        """Restore what `state` returned and `save_shards` wrote, with any number of ranks.

        Args:
            state: from `state`.
            folder: that `save_shards` wrote to.
        """
        if "optimizer" not in state:
            from turncredit.training.learner.optimizer_shards import load_optimizer

            assert folder is not None, "the optimizer's state is neither in the state nor in a folder"
            load_optimizer(self.model, self.optimizer, folder)
        elif self.ranks is None:
            self.optimizer.load_state_dict(state["optimizer"])
        else:
            from turncredit.training.learner.optimizer_shards import spread_optimizer

            spread_optimizer(self.optimizer, state["optimizer"])
        self.limit.tokens = state.get("micro_tokens")


def _nothing() -> None:
    """Return at once: nothing is being written."""


def split_minibatches(batch: Batch, parts: int, seed: int, *, groups: bool = False) -> list[NDArray[np.int64]]:
    """Split the batch's trajectories into one mini-batch per optimizer step.

    Trajectories with signal are shuffled and dealt out first, then those without, so that both kinds are spread as
    evenly as possible. A trajectory is never divided.

    Args:
        batch: from `pack`.
        parts: number of mini-batches.
        seed: of the shuffle.
        groups: deal out groups instead of trajectories, so that no group is divided either.

    Returns:
        The row numbers of each mini-batch.
    """
    rng = np.random.default_rng(seed)
    owner = batch.episodes.group[batch.trajectory] if groups else batch.trajectory
    with_signal = np.unique(owner[batch.rows_with_signal()])
    without_signal = np.setdiff1d(np.unique(owner), with_signal)
    order = np.concatenate([rng.permutation(with_signal), rng.permutation(without_signal)])
    return [np.flatnonzero(np.isin(owner, order[part::parts])) for part in range(parts)]
