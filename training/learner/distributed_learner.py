"""The learner of several ranks, as rank 0 has it: each method is done by all ranks, each on its part.

Beside its part of the divided model, rank 0 holds a whole one, in main memory unless the sampler computes with it. It
is brought up to date when somebody asks for `weights`: the sampler, a checkpoint.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from turncredit.agents.vision.image_reader import reader_of
from turncredit.training.batch.batch import Batch
from turncredit.training.batch.scores import Scores
from turncredit.training.learner.dealt_batch import DealtBatch
from turncredit.training.learner.gradient import UpdatePlan, with_gradient
from turncredit.training.learner.learner import Learner, split_minibatches
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import FrozenAdapter
from turncredit.training.learner.optimizer_shards import meta_state
from turncredit.training.learner.rank_commands import Leader
from turncredit.training.learner.sharding import collect, skeleton
from turncredit.training.learner.untyped import CausalLM, PolicyTokenizer
from turncredit.training.objectives.run_objective import Objective
from turncredit.training.types import State

T = TypeVar("T")


class DistributedLearner(Learner):
    """The policy and everything that trains it, divided over the ranks.

    Args:
        model: the whole model, which stays where it is; see `Learner`.
        tokenizer: its tokenizer.
        leader: commands the other ranks.
        note: called on rank 0 alone; see `Learner`.
        options: further options of `Learner`, which every rank gets.
    """

    def __init__(
        self,
        model: CausalLM,
        tokenizer: PolicyTokenizer,
        *,
        leader: Leader,
        note: Callable[[str], None] | None = None,
        **options: Any,
    ) -> None:
        self._whole, self._leader = model, leader
        self._stale = False
        ranks = leader.ranks
        # The others get the shape of the model and none of its weights, which they receive part by part when the model
        # is divided; a whole one for each of them would not fit where it has to be divided. They need a tokenizer only
        # to read images.
        seeing = None if reader_of(tokenizer) is None else tokenizer
        with leader.command(Learner, skeleton(model), seeing, **options):
            super().__init__(model, tokenizer, device=ranks.device, ranks=ranks, note=note, **options)

    def offload(self, *, weights: bool = False) -> None:
        """Let each rank keep its part of the optimizer's states in main memory between updates.

        Args:
            weights: and its part of the weights.
        """
        with self._leader.command(Learner.offload, weights=weights):
            super().offload(weights=weights)

    def replay_routing(self) -> None:
        """Let each rank compute tokens with the experts that the sampler recorded."""
        with self._leader.command(Learner.replay_routing):
            super().replay_routing()

    def make_room(self) -> None:
        """Leave to other processes what the devices' memory holds and nothing needs before the next update."""
        with self._leader.command(Learner.make_room):
            super().make_room()

    def set_reference(self, model: CausalLM) -> None:
        """Keep a frozen copy of a policy, divided as the policy is."""
        with self._leader.command(Learner.set_reference, skeleton(model)):
            super().set_reference(model)

    def reset_optimizer(self) -> None:
        """Forget the optimizer's moments."""
        with self._leader.command(Learner.reset_optimizer):
            super().reset_optimizer()

    def set_reference_adapter(self, adapter: Mapping[str, Tensor]) -> None:
        """Measure the divergence from this model with another adapter."""
        with self._leader.command(Learner.set_reference_adapter, dict(adapter)):
            super().set_reference_adapter(adapter)

    def score(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384, mean: bool = False) -> Scores:
        """Return log-probabilities and entropies of the batch's tokens under the policy; see `TokenScorer.score`."""
        dealt = self._whole_batch(batch, self._scorer)
        with self._leader.command(Learner.score, dealt, temperature=temperature, micro_tokens=micro_tokens, mean=mean):
            return super().score(batch, temperature=temperature, micro_tokens=micro_tokens, mean=mean)

    def score_reference(self, batch: Batch, *, temperature: float = 1.0, micro_tokens: int = 16384) -> Scores:
        """Return log-probabilities and entropies of the batch's tokens under the reference policy."""
        batch = batch.without_experts()
        dealt = self._whole_batch(batch, self.require_reference())
        with self._leader.command(Learner.score_reference, dealt, temperature=temperature, micro_tokens=micro_tokens):
            return super().score_reference(batch, temperature=temperature, micro_tokens=micro_tokens)

    def update(self, batch: Batch, objective: Objective, plan: UpdatePlan) -> dict[str, float]:
        """Do a fixed number of optimizer steps, and return statistics of all ranks."""
        cuts = split_minibatches(batch, plan.optimizer_steps, plan.seed, groups=objective.whole_groups)
        parts = [(index, with_gradient(batch.rows(index), objective)) for index in cuts]
        dealt = DealtBatch.of(batch, parts, self._scorer.cutting, self._leader.ranks.size)
        with self._leader.command(Learner.update, dealt, objective, plan):
            self._stale = True  # before the update: one that is cut short may have changed the weights
            return super().update(batch, objective, plan)

    def _whole_batch(self, batch: Batch, scorer: TokenScorer | FrozenAdapter) -> DealtBatch:
        """Return a batch whose rows are computed together."""
        return DealtBatch.of(batch, [(np.arange(len(batch)), batch)], scorer.cutting, self._leader.ranks.size)

    def dealt(self, batch: Batch, steps: Iterable[NDArray[np.int64]]) -> DealtBatch:
        """Return a batch of which each rank receives the contents of the rows that it computes in any of the steps."""
        parts = [(index, batch.rows(index)) for index in steps]
        return DealtBatch.of(batch, parts, self._scorer.cutting, self._leader.ranks.size)

    def on_all_ranks(
        self, function: Callable[..., T], *args: Any, here: Mapping[str, object] | None = None, **kwargs: Any
    ) -> T:
        """Return `function(self, *args, **kwargs, **here)`; the other ranks call it without `here`."""
        whole = [argument.batch if isinstance(argument, DealtBatch) else argument for argument in args]
        with self._leader.command(function, *args, **kwargs):
            self._stale = True
            return super().on_all_ranks(function, *whole, here=here, **kwargs)

    def weights(self) -> CausalLM:
        """Return the whole model, with the policy's weights."""
        # Gathering costs the size of the model once over the network, so it waits for somebody who asks, and is done
        # once for several who do between two updates.
        if self._stale:
            with self._leader.command(_give_weights):
                self._fetch()
                collect(self.model, self._whole)
                self._stale = False
        return self._whole

    def save_shards(self, folder: Path) -> Callable[[], None]:
        """Let each rank begin to write its part of the optimizer's state; return what waits for all of them."""
        with self._leader.command(Learner.save_shards, folder):
            wait = super().save_shards(folder)
        return partial(self._leader.reach, wait)

    def load_state(self, state: State, folder: Path | None = None) -> None:
        """Restore what `state` returned and `save_shards` wrote, or the state of a learner of one process."""
        sent = {name: value for name, value in state.items() if name in ("optimizer", "micro_tokens")}
        # A checkpoint of one process holds the whole optimizer. Only its shapes are sent; each rank then receives its
        # own part of every moment, as it does with the weights.
        if "optimizer" in sent:
            sent["optimizer"] = meta_state(sent["optimizer"])
        with self._leader.command(Learner.load_state, sent, folder):
            super().load_state(state, folder)


def _give_weights(learner: Learner) -> None:
    learner._fetch()
    collect(learner.model, None)
