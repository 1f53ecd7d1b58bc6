"""A learner with an engine on its GPU: it makes room before the engine starts and wakes, and loses nothing by it."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import toys.corridor
from toys.gpus import GIB, FakeMemory
from toys.ranks import on_ranks
from toys.training_helpers import play, random_advantages, tiny_llama, weights

from turncredit.agents.models.model_folder import load_model
from turncredit.engines.base import SamplerSettings
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.engines.vllm.gpu_memory import EngineMemory
from turncredit.training import Run, train, training_run
from turncredit.training.batch.batch import pack
from turncredit.training.errors import EngineMismatch, NotEnoughMemory
from turncredit.training.hardware.card_layout import CardLayout, LearnerMemory
from turncredit.training.learner import learner as learners
from turncredit.training.learner.distributed_learner import DistributedLearner
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.optimizers import make_optimizer
from turncredit.training.learner.parked_tensors import ParkedOptimizer
from turncredit.training.objectives import Objective
from turncredit.training.preflight import effects, shared_card
from turncredit.training.run_folder.checkpoint import Checkpoints

torch.set_num_threads(1)

TABLE = {
    "threads": 1,
    "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
    "agent": {"max_turns": 6, "max_tokens": 8},
    "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 1, "heads": 1}, "context": 400},
    "imitation": {"episodes": 10, "epochs": 1, "lr": 5e-3, "batch_tokens": 600},
    "sampler": {"engine": f"{__name__}:Beside"},
    "train": {"iterations": 3, "groups": 2, "group_size": 3, "optimizer_steps": 2},
    "checkpoints": {"every": 1, "keep": 9},
    "evaluation": {"episodes": 0},
}
ENGINE = EngineMemory(weights=GIB, adapters=0, cache=3 * GIB, activations=0, graphs=0, libraries=0, sequence=GIB)
LAYOUT = CardLayout(ENGINE, LearnerMemory(0, 0, 0), sleeps=True, total=8 * GIB, available=8 * GIB, utilization=0.5)

# -- the optimizer --


def steps(optimizer, model, numbers, between=lambda: None):
    """Take some steps along gradients that follow from their numbers."""
    for number in numbers:
        generator = torch.Generator().manual_seed(number)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
        optimizer.step()
        between()


@pytest.mark.parametrize("name", ["adamw", "adamw_fused"])
def test_parked_states_come_back_bit_by_bit(name):
    plain, model = tiny_llama(), tiny_llama()
    untouched = make_optimizer(plain, lr=1e-2, name=name)
    optimizer, memory = make_optimizer(model, lr=1e-2, name=name), FakeMemory()
    parked = ParkedOptimizer(optimizer, memory)
    parked.park()  # nothing is there yet
    parked.fetch()
    assert memory.events == []

    def between():
        parked.park()
        parked.park()  # a second call moves nothing twice
        parked.fetch()
        parked.fetch()

    steps(untouched, plain, range(4))
    steps(optimizer, model, range(4), between)
    parameters = len(list(model.parameters()))
    assert memory.events.count("to host") == memory.events.count("from host") == 4 * 2 * parameters
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.equal(one, other)
    parked.park()
    for one, other in zip(untouched.state.values(), optimizer.state.values(), strict=True):
        assert all(torch.equal(one[key], other[key]) for key in one)  # a checkpoint of parked states is the same


def count_moves(learner):
    """Have a rank's memory be one that is counted."""
    learner.memory = FakeMemory()


def moves(learner):
    """How many tensors each rank has moved there and back, how many it has, and how many of them are away now."""
    states = [value for state in learner.optimizer.state.values() for value in state.values() if value.ndim]
    here = [value for value in states if learner.memory.holds(value.to_local())]
    events = learner.memory.events
    return learner.ranks.gather((events.count("to host"), events.count("from host"), len(states), len(here)))


def parked_on_ranks(leader, folder):
    """The weights after two updates and after a third, with and without parking, and what was moved meanwhile."""
    results = {}
    for name in ("plain", "parked", "all"):
        learner = DistributedLearner(tiny_llama(), None, leader=leader, lr=1e-2)
        learner.set_reference(tiny_llama(seed=1))
        if name != "plain":
            learner.on_all_ranks(count_moves)
            learner.offload(weights=name == "all")
        for step in range(3):
            learner.update(small_batch(), Objective(), UpdatePlan())
            if step == 1:
                learner.make_room()
                (folder / name).mkdir()
                learner.save_shards(folder / name)()  # in a rollout, after Ctrl-C
                learner.make_room()  # a second time
                results[f"{name} bytes"] = seen(leader, learner, bytes_here)
                if name == "parked":
                    results["moved"] = seen(leader, learner, moves)
                results[f"{name} early"] = weights(learner)
                results[f"{name} scores"] = [score(small_batch()).logprobs for score in scorers(learner)]
        results[name] = weights(learner)
        if name == "parked":
            results["moved back"] = seen(leader, learner, moves)
    return results


def scorers(learner):
    return learner.score, learner.score_reference


def seen(leader, learner, function):
    """What a function sees of all ranks; a command of the learner would fetch what is away."""
    with leader.command(function):
        return function(learner)


def bytes_here(learner):
    """Bytes of the policy's and the reference's weights that each rank has on its device."""
    weights = learner._all_weights()
    return learner.ranks.gather(sum(weight.to_local().untyped_storage().nbytes() for weight in weights))


def small_batch():
    rng = np.random.default_rng(0)
    groups = play(rng, groups=2, size=3)
    return pack(groups, random_advantages(rng, groups))


@pytest.mark.slow
@pytest.mark.parametrize("shards", [2, 1])
def test_each_rank_parks_its_part_of_the_states_and_weights(tmp_path, shards):
    results = on_ranks(2, parked_on_ranks, tmp_path, shards=shards)
    for name in ("parked", "all"):
        assert same_bits(results["plain"], results[name])
        assert same_bits(results["plain early"], results[f"{name} early"])
        assert np.array_equal(results["plain scores"], results[f"{name} scores"])
    assert not same_bits(results["plain"], results["plain early"])
    assert results["plain bytes"] == results["parked bytes"]
    assert min(results["plain bytes"]) > 0
    assert results["all bytes"] == [0, 0]
    for (there, back, states, here), (_, at_last, _, here_again) in zip(
        results["moved"], results["moved back"], strict=True
    ):
        assert (there, back, here) == (states, 0, 0)
        assert (at_last, here_again) == (states, states)
    alone = []
    for name in ("plain", "parked", "all"):  # a checkpoint of parked states is the same, also for one process
        learner = Learner(tiny_llama(), None, lr=1e-2)
        learner.load_state({}, tmp_path / name)
        learner.update(small_batch(), Objective(), UpdatePlan())
        alone.append(weights(learner))
    assert same_bits(*alone[:2])
    assert same_bits(*alone[1:])


def test_parked_weights_can_be_read_and_are_fetched_by_what_computes():
    plain, learner = (Learner(tiny_llama(), None, lr=1e-2) for _ in range(2))
    learner.memory = FakeMemory()
    learner.offload(weights=True)
    for one in (plain, learner):
        one.set_reference(tiny_llama(seed=1))
        one.update(small_batch(), Objective(), UpdatePlan())
        one.make_room()
    count = 2 * len(list(plain.model.parameters())) + sum(
        v.ndim > 0 for s in plain.optimizer.state.values() for v in s.values()
    )
    assert learner.memory.events == ["to host"] * count + ["release"]
    assert not any(learner.memory.holds(weight) for weight in learner.weights().parameters())
    assert same_bits(weights(plain), weights(learner))
    assert learner.memory.events.count("from host") == 0
    for mine, theirs in zip(scorers(learner), scorers(plain), strict=True):
        assert np.array_equal(mine(small_batch()).logprobs, theirs(small_batch()).logprobs)
    assert all(learner.memory.holds(weight) for weight in learner.weights().parameters())
    for one in (plain, learner):
        one.update(small_batch(), Objective(), UpdatePlan())
    assert same_bits(weights(plain), weights(learner))


def same_bits(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


def test_states_that_are_loaded_while_others_are_parked_are_the_ones_that_count():
    model, memory = tiny_llama(), FakeMemory()
    optimizer = make_optimizer(model, lr=1e-2)
    parked = ParkedOptimizer(optimizer, memory)
    steps(optimizer, model, [0])
    early = copy.deepcopy(optimizer.state_dict())
    steps(optimizer, model, [1])
    parked.park()
    optimizer.load_state_dict(early)
    parked.fetch()
    for key, state in optimizer.state_dict()["state"].items():
        assert all(torch.equal(state[name], early["state"][key][name]) for name in state)


# -- the run --


class Beside:
    """A sampler with a copy of the policy, which keeps what it was made with and what happened before."""

    made: SamplerSettings
    events: list[str]
    context = 400

    def __init__(self, settings: SamplerSettings) -> None:
        type(self).made = settings
        self.events.append("engine starts")
        self.inner = TransformersSampler(load_model(settings.model), settings.tokenizer, context=self.context)
        self.tokenizer = settings.tokenizer

    @property
    def version(self):
        return self.inner.version

    async def sample(self, request):
        return await self.inner.sample(request)

    def forget(self, episode):
        self.inner.forget(episode)

    async def load(self, weights, version):
        self.events.append("engine loads")
        await self.inner.load(weights, version)

    async def sleep(self):
        self.events.append("engine sleeps")

    def close(self):
        self.inner.close()


@pytest.fixture
def card(monkeypatch):
    """A GPU that engine and learner share, and the events on it."""
    memory = FakeMemory()
    monkeypatch.setattr(training_run, "lay_out_card", lambda run, needs, gpu: LAYOUT)
    monkeypatch.setattr(learners, "DeviceMemory", lambda name: memory)
    monkeypatch.setattr(Beside, "events", memory.events, raising=False)
    return memory


def weights_at(folder, step):
    return load_model(Checkpoints(folder / "checkpoints").path(step)).state_dict()


def test_the_engine_starts_with_the_numbers_of_the_layout_and_the_learner_makes_room(tmp_path, card):
    assert train(Run.parse(TABLE, [f'output="{tmp_path / "run"}"'])).finished
    assert Beside.made.kv_cache_gib == 3.0
    assert Beside.made.utilization == 0.5
    iteration = ["release", "engine loads", "engine sleeps"]
    assert card.events == ["release", "engine starts", *3 * iteration, "release", "engine loads"]


def test_without_a_shared_gpu_the_learner_keeps_what_it_has(tmp_path, card, monkeypatch):
    monkeypatch.setattr(training_run, "lay_out_card", lambda run, needs, gpu: None)
    assert train(Run.parse(TABLE, [f'output="{tmp_path / "run"}"', "train.iterations=1"])).finished
    assert "release" not in card.events
    assert Beside.made.utilization == Beside.made.kv_cache_gib == 0


def test_a_run_with_spare_groups_makes_room_as_well(tmp_path, card):
    words = ["train.staleness.spare_groups=1", "train.iterations=2", f'output="{tmp_path / "run"}"']
    assert train(Run.parse(TABLE, words)).finished
    loads = [number for number, event in enumerate(card.events) if event == "engine loads"]
    assert len(loads) == 3
    assert all(card.events[number - 1] == "release" for number in loads)


def test_a_run_whose_optimizer_is_parked_has_the_same_bits_also_resumed(tmp_path, card, monkeypatch):
    monkeypatch.delitem(effects.NEEDS, "train.optimizer.offload")  # it is for vLLM's engine
    train(Run.parse(TABLE, [f'output="{tmp_path / "plain"}"']))
    for offload in ("true", "all"):
        word = f"train.optimizer.offload={offload}"
        card.events.clear()
        train(Run.parse(TABLE, [f'output="{tmp_path / offload}"', word]))
        moved = card.events.count("to host")
        assert moved == card.events.count("from host") + len(card._hosts) > 0
        card._hosts.clear()
        stopped = [f'output="{tmp_path / "resumed"}-{offload}"', word]
        train(Run.parse(TABLE, [*stopped, "train.iterations=1"]))
        train(Run.parse(TABLE, stopped), resume=True)
        card._hosts.clear()
        for step in (1, 3):
            expected = weights_at(tmp_path / "plain", step)
            for name in (offload, f"resumed-{offload}"):
                found = weights_at(tmp_path / name, step)
                assert all(torch.equal(found[key], expected[key]) for key in expected)


class Deaf(Beside):
    """An engine that takes no new weights after the first."""

    async def load(self, weights, version):
        await super().load(weights if version == 0 else load_model(self.made.model), version)


def test_an_engine_is_compared_with_parked_weights_once_it_sleeps(tmp_path, card, monkeypatch):
    monkeypatch.delitem(effects.NEEDS, "train.optimizer.offload")
    words = ["train.optimizer.offload=all", "sampler.gap_limit=0.001", "train.lr=0.03"]
    run = Run.parse(TABLE, [f'output="{tmp_path / "run"}"', f'sampler.engine="{__name__}:Deaf"', *words])
    with pytest.raises(EngineMismatch, match="did not take the weights of version 1"):
        train(run)
    *_, playing, compared = " ".join(card.events).split("engine ")
    assert playing == "loads ", "nothing comes back while the engine is awake"
    assert compared.startswith("sleeps from host")


def test_what_does_not_fit_is_refused_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(training_run, "DeviceMemory", lambda name: FakeMemory(free=GIB, total=24 * GIB))
    monkeypatch.setattr(shared_card, "shares_card", lambda run, device: True)
    with pytest.raises(NotEnoughMemory, match=r"engine and the learner do not fit on the GPU cuda: .* 1\.0 GiB are"):
        train(Run.parse(TABLE, [f'output="{tmp_path / "run"}"']))
    assert not (tmp_path / "run/metrics.jsonl").exists()
