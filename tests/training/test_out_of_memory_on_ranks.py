"""When memory runs out on some of several ranks, all of them compute the step again, with the same result."""

import re
from functools import cache, partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.distributed.fsdp import FSDPModule
from toys.ranks import on_ranks
from toys.training_helpers import plain_descent, play, random_advantages, same, tiny_llama, weights

from turncredit.training.batch.batch import pack
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import NotEnoughMemory
from turncredit.training.imitation.imitation import demonstration_batch, imitate
from turncredit.training.learner.distributed_learner import DistributedLearner
from turncredit.training.learner.gradient import MiniBatch, UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.ranks import Ranks
from turncredit.training.learner.sharding import _AllGather
from turncredit.training.objectives import Objective

torch.set_num_threads(1)

pytestmark = pytest.mark.slow
MOST = 60
"""Tokens of a micro-batch for which there is memory."""
PLAN = UpdatePlan(micro_tokens=400, grad_clip=1e9)
PLACES = {
    "layer 0": {1: "layer 0"},
    "layer 1 of rank 0": {0: "layer 1"},
    "head": {1: "head"},
    "backward": {1: "backward"},
    "after everything": {1: "end"},
    "memory for an exchange": {1: "exchange"},
    "both at once": {0: "layer 1", 1: "layer 1"},
    "different places": {0: "backward", 1: "layer 1"},
}
CASES = {name: {"places": places} for name, places in PLACES.items()} | {
    "tied embeddings": {"places": {1: "backward"}, "model": {"tie_word_embeddings": True}},
    "recomputed layers": {"places": {1: "backward"}, "options": {"recompute_activations": True}},
    "packed rows": {"places": {1: "backward"}, "options": {"packing": True}},
    "shared prefixes": {"places": {1: "backward"}, "options": {"share_prefixes": True}},
    "whole sequences": {"places": {0: "layer 1"}, "objective": "gspo", "merge": False},
    "whole mini-batch": {"places": {1: "backward"}, "objective": "kl_cov"},
    "float32": {"places": {1: "backward"}, "kind": torch.float32},
}


def crowd(learner, places, most=MOST):
    """Let memory run out in a place of some ranks, in the computation of more than `most` tokens."""
    place, model = places.get(learner.ranks.rank), learner.model
    learner.rows_seen, learner.failures = [], 0

    def measure(module, args, kwargs):
        learner.rows_seen.append(kwargs["input_ids"].numel())

    def run_out(*_):
        if learner.rows_seen[-1] > most:
            learner.failures += 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    def run_out_later(module, args, output):
        if torch.is_grad_enabled():
            output.register_hook(run_out)
        else:
            run_out()

    class Gather(_AllGather):
        def allocate(self, size, *, dtype, device):
            if learner.rows_seen:
                run_out()
            return super().allocate(size, dtype=dtype, device=device)

    model.model.register_forward_pre_hook(measure, with_kwargs=True)
    if place == "exchange":
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(Gather(learner.scorer._inside.exchanges))
    if place == "end":
        backward = MiniBatch._backward

        def end(*args):
            result = backward(*args)
            if args[0].scorer is learner.scorer:
                run_out()
            return result

        MiniBatch._backward = end
    if place == "backward":
        model.model.layers[0].register_forward_hook(run_out_later)
    elif place == "head":
        model.lm_head.register_forward_hook(run_out)
    elif place in ("layer 0", "layer 1"):
        model.model.layers[int(place.removeprefix("layer "))].register_forward_hook(run_out)


def counts(learner):
    """What happened on each rank: failures, the last micro-batch, the limit."""
    return learner.ranks.gather((learner.failures, learner.rows_seen[-1], learner.limit.tokens))


def learner_of(make, case, note=None):
    model = tiny_llama(dtype=case.get("kind", torch.float64), **case.get("model", {}))
    return make(model, None, note=note, **case.get("options", {}))


def batch_of(case):
    rng = np.random.default_rng(0)
    groups = play(rng, groups=8, size=4)
    return pack(groups, random_advantages(rng, groups), merge=case.get("merge", True))


def trained(make, case, places=None):
    """Two gradients, of which the second begins after the first, and the statistics."""
    batch, notes = batch_of(case), []
    learner = learner_of(make, case, notes.append)
    learner.on_all_ranks(plain_descent)
    if places:
        learner.on_all_ranks(crowd, places)
    found, seen = [weights(learner)], []
    for _ in range(2):
        stats = learner.update(batch, Objective(name=case.get("objective", "ppo_clip")), PLAN)
        found.append(weights(learner))
        seen.append((stats, learner.on_all_ranks(counts) if places else None, len(notes)))
    gradients = [{name: one[name] - two[name] for name in one} for one, two in pairwise(found)]
    return gradients, seen, notes


def scored(make, places=None):
    learner = learner_of(make, {})
    if places:
        learner.on_all_ranks(crowd, places)
    return learner.score(batch_of({}), micro_tokens=1000).logprobs


def imitated(make, places=None):
    learner, rng = learner_of(make, {}), np.random.default_rng(0)
    batch = demonstration_batch(play(rng, groups=8, size=4), None, context=100)
    if places:
        learner.on_all_ranks(crowd, places)
    learner.on_all_ranks(imitate, batch, ImitationSection(batch_tokens=200), micro_tokens=1000)
    return weights(learner)


@cache
def trained_alone(name):
    return trained(Learner, CASES[name])


@cache
def scored_alone():
    return scored(Learner)


@cache
def imitated_alone():
    return imitated(Learner)


def moved(places, ranks):
    """The places on the last ranks instead of the first two."""
    return {ranks - 1 - rank: place for rank, place in places.items()} if ranks > 2 else places


def everything(leader, ranks):
    make = partial(DistributedLearner, leader=leader)
    return {
        "cases": {name: trained(make, case, moved(case["places"], ranks)) for name, case in CASES.items()},
        "scores": scored(make, {1: "layer 1"}),
        "imitation": imitated(make, {1: "backward"}),
    }


@pytest.fixture(scope="module", params=[(2, 0), (4, 2)], ids=["two", "two copies"])
def found(request):
    ranks, shards = request.param
    return ranks, on_ranks(ranks, everything, ranks, shards=shards)


@pytest.mark.parametrize("name", CASES)
def test_the_step_is_computed_again_with_the_gradient_of_one_process(found, name):
    case, (ranks, results) = CASES[name], found
    gradients, seen, notes = results["cases"][name]
    wanted, plenty, _ = trained_alone(name)
    for one, other in zip(gradients, wanted, strict=True):
        same(one, other, 1e-6)
        assert max(np.abs(array).max() for array in one.values()) > 1e-4
    places = moved(case["places"], ranks)
    for (stats, on_each, _), (other, _, _) in zip(seen, plenty, strict=True):
        for key in ("loss", "grad_norm", "entropy", "gap", "tokens", "updates"):
            assert stats[key] == pytest.approx(other[key], rel=1e-4 if "kind" in case else 1e-7), key
        failures, sizes, limits = zip(*on_each, strict=True)
        assert sum(failures) > 0
        assert all(rank in places for rank, count in enumerate(failures) if count)
        assert max(sizes) <= MOST
        assert len(set(limits)) == 1
    assert seen[0][1] == seen[1][1], "the limit is remembered"
    where = re.match(r"memory ran out on rank (\d) with micro-batches of", notes[0])
    assert where is not None
    assert int(where[1]) in places
    assert len(notes) == seen[1][2] == seen[0][2]


def test_scores_and_imitation_are_computed_again(found):
    _, results = found
    np.testing.assert_allclose(results["scores"], scored_alone(), atol=1e-9)
    same(results["imitation"], imitated_alone(), 1e-6)


def questions(learner):
    """Have a rank count how often it asks the others."""
    asked, ask = [], Ranks.check_memory

    def counted(self, *, ran_out=False):
        asked.append(ran_out)
        return ask(self, ran_out=ran_out)

    Ranks.check_memory, learner.asked = counted, asked


def asked(learner):
    return learner.ranks.gather((len(learner.asked), len(learner.rows_seen)))


def calm(leader):
    learner = learner_of(partial(DistributedLearner, leader=leader), {})
    learner.on_all_ranks(questions)
    learner.on_all_ranks(crowd, {})
    learner.update(batch_of({}), Objective(), PLAN)
    return learner.on_all_ranks(asked)


def test_ranks_ask_each_other_once_a_micro_batch():
    for count, passes in on_ranks(2, calm):
        assert count == passes + 2  # before the sum of the losses, and at the end
        assert passes > 1


def one_sequence(leader):
    learner, batch = DistributedLearner(tiny_llama(), None, leader=leader), batch_of({})
    learner.on_all_ranks(crowd, {1: "layer 1"}, most=1)
    with pytest.raises(NotEnoughMemory) as caught:
        learner.update(batch, Objective(), PLAN)
    return str(caught.value)


def test_one_sequence_that_does_not_fit_ends_the_run_with_a_sentence():
    sentence = on_ranks(2, one_sequence, ends=[0, 1])
    assert sentence.startswith("memory ran out on rank 1 with a single sequence of ")
