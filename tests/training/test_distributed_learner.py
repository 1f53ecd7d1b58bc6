"""Several ranks train as one process does: gradients, weights, statistics, scores, checkpoints."""

import copy
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from toys.mixtures import by_prefix, mixture, shape_of, with_experts
from toys.ranks import on_ranks
from toys.training_helpers import forked, plain_descent, play, random_advantages, same, tiny_llama, weights

from turncredit.agents.models.lora_folders import adapter_tensors
from turncredit.training.batch.batch import deal, pack
from turncredit.training.config.run import Run
from turncredit.training.config.sections import ImitationSection
from turncredit.training.errors import ConfigError
from turncredit.training.imitation.imitation import demonstration_batch, imitate, imitation_steps
from turncredit.training.learner.distributed_learner import DistributedLearner
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.ranks import _shards
from turncredit.training.objectives import Objective
from turncredit.training.parts import prepare

torch.set_num_threads(1)

CASES = {
    "sequence mean": {"objective": {"aggregation": "seq-mean-token-mean"}, "kind": torch.float32},
    "token mean": {"objective": {"aggregation": "token-mean"}, "kind": torch.float32},
    "divergence and entropy": {"objective": {"kl": 0.1, "entropy": 0.01}},
    "whole sequences": {"objective": {"name": "gspo"}, "merge": False},
    "whole mini-batch": {"objective": {"name": "kl_cov"}, "kind": torch.float32},
    "whole mini-batch with entropy": {"objective": {"name": "kl_cov", "entropy": 0.01}},
    "whole groups": {"objective": {"name": "reg_grpo", "kl": 0.1}},
    "outcomes and sources": {"objective": {"name": "grao"}, "merge": False},
    "means over the vocabulary": {"objective": {"name": "rover"}, "merge": False},
    "gradient through the entropy": {"objective": {"name": "ter"}},
    "recomputed layers": {"options": {"recompute_activations": True}},
    "packed rows": {"options": {"packing": True}},
    "shared prefixes": {"options": {"share_prefixes": True}, "forked": True},
    "shared prefixes of whole sequences": {
        "options": {"share_prefixes": True, "recompute_activations": True},
        "forked": True,
        "merge": False,
        "objective": {"name": "gspo", "entropy": 0.01},
    },
    "adapter": {"lora": True, "objective": {"kl": 0.1}},
    "adapter with recomputed layers": {"lora": True, "options": {"recompute_activations": True}},
    "few rows": {"groups": 1, "size": 2, "most": 1, "objective": {"name": "gspo"}},
    "tied embeddings": {"model": {"tie_word_embeddings": True}},
    "not finite": {"broken": True, "updates": 4},
    "recorded experts": {"mixture": "Qwen 3 MoE", "objective": {"kl": 0.1, "entropy": 0.01}},
    "recorded experts and shared prefixes": {
        "mixture": "GPT-OSS",  # whose router computes in float64
        "options": {"share_prefixes": True},
        "forked": True,
        "objective": {"name": "gspo"},
        "merge": False,
    },
}
PLAN = UpdatePlan(optimizer_steps=2, micro_tokens=40, grad_clip=0.5, seed=3)


def model_of(case):
    if "mixture" in case:
        return mixture(case["mixture"])
    model = tiny_llama(dtype=case.get("kind", torch.float64), **case.get("model", {}))
    if case.get("lora"):
        model = add_adapter(model, LoraOptions(rank=2, alpha=4))
        torch.manual_seed(3)
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                torch.nn.init.normal_(parameter, std=0.1)
    return model


def batch_of(case):
    rng = np.random.default_rng(5)
    groups = play(rng, groups=case.get("groups", 3), size=case.get("size", 3), most=case.get("most", 4))
    if case.get("forked"):
        groups = forked(rng, groups=3)
    if "mixture" in case:
        groups = with_experts(groups, by_prefix(shape_of(model_of(case))))
    names = [member.id for group in groups for member in group.trajectories]
    outcomes, sources = ({name: number % period for number, name in enumerate(names)} for period in (2, 3))
    merge = case.get("merge", True)
    batch = pack(groups, random_advantages(rng, groups), merge=merge, outcomes=outcomes, sources=sources)
    if case.get("broken"):
        batch = replace(batch, old=np.where(batch.trajectory[:, None] == 0, np.nan, batch.old))
    return batch


def outcome(make, case):
    """What a learner computes in one case: scores, two updates with AdamW, and then its gradient."""
    learner, batch = make(model_of(case), None, lr=1e-3, **case.get("options", {})), batch_of(case)
    if "mixture" in case:
        learner.replay_routing()
        learner.set_reference(mixture(case["mixture"], seed=1))
    elif case.get("lora"):
        learner.set_reference_adapter({k: v.detach() * 0.5 for k, v in adapter_tensors(learner.weights()).items()})
    else:
        learner.set_reference(tiny_llama(seed=1, dtype=case.get("kind", torch.float64)))
    scores = learner.score(batch, temperature=0.7, micro_tokens=40, mean=True)
    batch = replace(
        batch, mean_logprob=scores.mean_logprob, reference=learner.score_reference(batch, micro_tokens=40).logprobs
    )
    objective, plan = Objective(**case.get("objective", {})), replace(PLAN, optimizer_steps=case.get("updates", 2))
    stats = [learner.update(batch, objective, plan) for _ in range(2)]
    trained = weights(learner)
    learner.on_all_ranks(plain_descent)
    stats.append(learner.update(batch, objective, replace(plan, optimizer_steps=case.get("updates", 1), grad_clip=1e9)))
    after = weights(learner)
    arrays = {"scores": scores.logprobs, "entropy": scores.entropy, "reference": batch.reference}
    arrays["mean"] = scores.mean_logprob
    return arrays, stats, trained, {name: trained[name] - after[name] for name in trained}


def imitated(make):
    rng = np.random.default_rng(1)
    batch = demonstration_batch(play(rng, groups=3, size=4), None, context=100, observations=0.1)
    learner, steps = make(tiny_llama(), None), []
    section = ImitationSection(batch_tokens=120, epochs=2)
    dealt = learner.dealt(batch, [rows for _, rows in imitation_steps(batch.lengths, section, seed=0)])
    stats = learner.on_all_ranks(imitate, dealt, section, micro_tokens=40, here={"on_step": steps.append})
    return stats, [step["loss"] for step in steps], weights(learner)


def in_bfloat16(make):
    learner = make(tiny_llama(dtype=torch.float32), None, lr=1e-3, bfloat16=True)
    stats = learner.update(batch_of({}), Objective(), PLAN)
    return stats, {str(one.dtype) for one in learner.model.parameters()}, learner.state()


def continued(make, state, folder):
    """The weights after an update that goes on from a saved state."""
    learner = make(tiny_llama(), None, lr=1e-2)
    learner.load_state(state, folder)
    learner.update(batch_of({}), Objective(), PLAN)
    return weights(learner)


def saved(make, folder):
    """Two updates, between which the state is saved; the model goes back to the start, as `continued` has it."""
    learner = make(tiny_llama(), None, lr=1e-2)
    learner.update(batch_of({}), Objective(), PLAN)
    state, wait = copy.deepcopy(learner.state()), learner.save_shards(folder)
    learner.update(batch_of({}), Objective(), PLAN)  # while the parts are written
    wait()
    return state


@cache
def alone(name):
    """What one process computes in a case, whose rows it computes apart."""
    case = CASES[name]
    options = {key: value for key, value in case.get("options", {}).items() if key != "share_prefixes"}
    return outcome(Learner, {**case, "options": options})


@cache
def imitated_alone():
    return imitated(Learner)


def everything(leader, folders, state):
    def make(*args, **options):
        return DistributedLearner(*args, leader=leader, **options)

    cases = {name: outcome(make, case) for name, case in CASES.items()}
    into, other = folders
    return {
        "cases": cases,
        "imitation": imitated(make),
        "bfloat16": in_bfloat16(make),
        "folder": into,
        "saved": saved(make, into),
        "from one process": continued(make, copy.deepcopy(state), None),
        "from other ranks": None if other is None else continued(make, {}, other),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def state():
    """The state of a learner of one process after an update."""
    return saved(Learner, None)


@pytest.fixture(scope="module")
def two(folder, state):
    return on_ranks(2, everything, (folder / "2", None), state)


@pytest.fixture(scope="module")
def four(folder, state, two):
    return on_ranks(4, everything, (folder / "4", folder / "2"), state)


@pytest.fixture(scope="module")
def grid(folder, state, two):
    """Two copies of the weights, each divided over two ranks."""
    return on_ranks(4, everything, (folder / "grid", folder / "2"), state, shards=2)


@pytest.fixture(scope="module")
def copies(folder, state, two):
    """A copy of the weights on each of two ranks."""
    return on_ranks(2, everything, (folder / "copies", folder / "2"), state, shards=1)


@pytest.fixture(params=["two", "four", "grid", "copies"])
def found(request):
    return request.getfixturevalue(request.param)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_several_ranks_compute_what_one_process_does(found, name):
    arrays, stats, trained, gradient = found["cases"][name]
    wanted = alone(name)
    exact = "kind" not in CASES[name]
    same(gradient, wanted[3], 1e-9 if exact else 1e-6)
    if exact:  # where a gradient is nearly zero, AdamW makes a whole step of its rounding error
        same(trained, wanted[2], 1e-6)
    same(arrays, wanted[0], 1e-9 if exact else 1e-5)
    for one, other in zip(stats, wanted[1], strict=True):
        assert one.keys() - {"shared"} == other.keys()
        for key in other.keys() - {"seconds", "hardware_flops"}:  # ranks pad apart
            assert one[key] == pytest.approx(other[key], rel=1e-6 if exact else 1e-4, abs=1e-6, nan_ok=True), key


@pytest.mark.slow
def test_gradients_are_there_to_compare(two):
    for name, (_, stats, _, gradient) in two["cases"].items():
        assert max(np.abs(one).max() for one in gradient.values()) > 1e-4, name
        assert stats[0]["updates"] + stats[0]["skipped"] == CASES[name].get("updates", 2), name
    assert two["cases"]["not finite"][1][0]["skipped"] == 1


@pytest.mark.slow
def test_imitation_is_that_of_one_process(found):
    stats, losses, trained = found["imitation"]
    wanted = imitated_alone()
    np.testing.assert_allclose(losses, wanted[1], rtol=1e-6)
    assert stats["tokens"] == wanted[0]["tokens"]
    same(trained, wanted[2], 1e-6)


@pytest.mark.slow
def test_bfloat16_computes_and_float32_is_kept(found):
    stats, kinds, state = found["bfloat16"]
    wanted = Learner(tiny_llama(dtype=torch.float32), None, lr=1e-3).update(batch_of({}), Objective(), PLAN)
    assert kinds == {"torch.float32"}
    assert state == {}
    assert stats["grad_norm"] == pytest.approx(wanted["grad_norm"], rel=0.1)
    assert stats["grad_norm"] != pytest.approx(wanted["grad_norm"], rel=1e-5)


@pytest.mark.slow
def test_a_state_goes_from_any_number_of_ranks_to_any_other(found, state, folder, two):
    wanted = continued(Learner, copy.deepcopy(state), None)
    same(found["from one process"], wanted, 1e-6)
    same(continued(Learner, found["saved"], folder / "2"), wanted, 1e-6)
    if found is not two:
        same(found["from other ranks"], wanted, 1e-6)
        same(continued(Learner, found["saved"], found["folder"]), wanted, 1e-6)
    fresh = Learner(tiny_llama(), None, lr=1e-2)
    fresh.update(batch_of({}), Objective(), PLAN)
    assert max(np.abs(weights(fresh)[name] - one).max() for name, one in wanted.items()) > 1e-4


@given(st.lists(st.integers(0, 400), max_size=40), st.integers(1, 8))
def test_rows_are_dealt_evenly(lengths, ranks):
    lengths = np.array(lengths, dtype=np.int64)
    shares = deal(lengths, ranks)
    dealt = sorted(np.concatenate(shares).tolist())
    assert dealt == [row for row in range(len(lengths)) if ranks == 1 or lengths[row] > 0]
    loads = [int(lengths[share].sum()) for share in shares]
    # whoever got a row had least before
    assert max(loads) - min(loads) <= max(lengths.tolist(), default=0)


@pytest.mark.parametrize(
    ("choice", "local", "parts"),
    [
        (0, [8] * 8, 8),
        (0, [4] * 8, 4),
        (0, [1] * 8, 8),  # actors, which do not know their neighbours
        (0, [4] * 4 + [2] * 4, 8),
        (2, [4] * 8, 2),
        (8, [4] * 8, 8),
        (1, [4] * 8, 1),
    ],
)
def test_a_machine_has_a_copy_of_the_weights_unless_the_run_says_otherwise(choice, local, parts):
    ranks = SimpleNamespace(size=8, gather=lambda own: local)
    assert _shards(choice, ranks) == parts


def test_shards_that_do_not_fit_are_refused():
    ranks = SimpleNamespace(size=8, gather=lambda own: [8] * 8)
    with pytest.raises(
        ConfigError, match=r"policy.shards = 3 does not divide the 8 ranks evenly; .* 0 or one of 1, 2,"
    ):
        _shards(3, ranks)
    with pytest.raises(
        ConfigError, match=r"policy\.shards = 2 divides the weights over several ranks, and one process"
    ):
        prepare(Run.parse({"policy": {"shards": 2}}))
