"""On a CUDA device: the same numbers as on the CPU, and a whole run, cut short and taken up again."""

import asyncio
import json

import numpy as np
import pytest
import torch
import toys.corridor
from toys.training_helpers import VOCAB, forked, random_advantages, tiny_llama

from turncredit.agents.device_memory import DeviceMemory
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Request
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training import Run, train
from turncredit.training.batch.batch import pack
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.optimizers import make_optimizer
from turncredit.training.objectives import Objective

pytestmark = pytest.mark.gpu


class Numbers:
    """Ids are written as they are; none ends a response."""

    eos_token_id = VOCAB - 1

    def encode(self, text):
        return [int(word) for word in text.split()]

    def decode(self, ids):
        return " ".join(map(str, ids))


def sampled(device, temperature, turns=3, episodes=12):
    """Several turns of several episodes at once, each prompt going on from the answer before."""
    sampler = TransformersSampler(tiny_llama(), Numbers(), device=device, concurrency=8)

    async def play(number):
        prompt, said = [number, 3, 5], []
        for turn in range(turns):
            view = View(start="", observation="", admissible=None, turn=turn)
            request = Request(
                prompt=tuple(prompt),
                seed=number,
                episode=f"e{number}",
                turn=turn,
                temperature=temperature,
                top_p=1.0,
                max_tokens=6,
                view=view,
                messages=(),
            )
            completion = await sampler.sample(request)
            said.append(completion)
            prompt += [*completion.tokens, 7]
        return said

    async def all_of_them():
        return await asyncio.gather(*(play(number) for number in range(episodes)))

    return [one for said in asyncio.run(all_of_them()) for one in said]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_same_tokens_are_drawn_as_on_the_cpu(temperature):
    here, there = sampled("cpu", temperature), sampled("cuda", temperature)
    assert [one.tokens for one in here] == [one.tokens for one in there]
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


def make_run(folder, device, steps):
    table = {
        "threads": 1,
        "output": str(folder),
        "trajectory_format": ".jsonl",
        "env": {"id": f"toys.corridor:{toys.corridor.ID}", "kwargs": {"lengths": [3, 4]}},
        "agent": {"max_turns": 6, "max_tokens": 8},
        "policy": {"new": {"vocab": 280, "hidden": 32, "layers": 2, "heads": 2}, "context": 400, "device": device},
        "imitation": {"episodes": 10, "epochs": 3, "lr": 5e-3, "batch_tokens": 600, "demonstrator": {"noise": 0.2}},
        "train": {"iterations": steps, "groups": 4, "group_size": 4, "optimizer_steps": 2, "lr": 1e-3},
        "checkpoints": {"every": 1},
        "evaluation": {"episodes": 4},
    }
    return Run.parse(table, [])


def lines(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_a_run_imitates_as_on_the_cpu_and_goes_on_after_its_end(tmp_path):
    losses = []
    for name, device in (("here", "cpu"), ("there", "cuda")):
        outcome = train(make_run(tmp_path / name, device, 2))
        assert (outcome.finished, outcome.step) == (True, 2)
        told = [line for line in lines(tmp_path / name) if line["phase"] == "imitation"]
        losses.append([line["loss"] for line in told if "loss" in line])
    assert losses[0]
    np.testing.assert_allclose(losses[1], losses[0], rtol=0.02)
    again = train(make_run(tmp_path / "there", "cuda", 4), resume=True)
    assert (again.finished, again.step) == (True, 4)


# -- the learner --


def batch_of(seed=0, **sizes):
    rng = np.random.default_rng(seed)
    groups = forked(rng, **sizes)
    return pack(groups, random_advantages(rng, groups, 0.2))


def after_updates(batch, *, micro_tokens=64, count=3, **options):
    """The parameters after some updates on the GPU, and the statistics of the last one."""
    learner = Learner(tiny_llama(), None, device="cuda", lr=1e-2, **options)
    for _ in range(count):
        stats = learner.update(batch, Objective(), UpdatePlan(micro_tokens=micro_tokens))
    return torch.cat([weight.detach().flatten().cpu() for weight in learner.model.parameters()]), stats


@pytest.mark.parametrize(
    "options",
    [
        {"packing": True},
        {"recompute_activations": True},
        {"share_prefixes": True},
        {"share_prefixes": "flex"},
        {"share_prefixes": True, "recompute_activations": True},
    ],
)
def test_ways_to_compute_an_update_give_the_same_weights(options):
    batch = batch_of()
    plain, _ = after_updates(batch)
    other, stats = after_updates(batch, **options)
    assert stats["updates"] == 1
    torch.testing.assert_close(other, plain, atol=2e-4, rtol=2e-3)


def test_an_update_whose_memory_runs_out_is_computed_again_with_smaller_micro_batches():
    batch, notes, sizes = batch_of(), [], []
    plain, _ = after_updates(batch, count=1)
    held = torch.cuda.memory_allocated()
    learner = Learner(tiny_llama(), None, device="cuda", lr=1e-2, note=notes.append)

    def take(module, args, kwargs):
        """Want more memory than the GPU has where a pass has many tokens."""
        sizes.append(kwargs["input_ids"].numel())
        if sizes[-1] > 40:
            torch.empty(1 << 40, device="cuda")

    learner.model.model.register_forward_pre_hook(take, with_kwargs=True)
    stats = learner.update(batch, Objective(), UpdatePlan(micro_tokens=4096))
    assert "memory ran out" in notes[0]
    assert max(sizes) > 40 >= sizes[-1]
    assert stats["updates"] == 1
    weights = torch.cat([weight.detach().flatten().cpu() for weight in learner.model.parameters()])
    torch.testing.assert_close(weights, plain, atol=2e-4, rtol=2e-3)
    assert torch.cuda.memory_allocated() < held + 2**26


def test_a_parked_optimizer_leaves_the_gpu_and_changes_no_bit():
    batch = batch_of()
    learners = [Learner(tiny_llama(), None, device="cuda", lr=1e-2) for _ in range(2)]
    learners[1].offload()
    for _ in range(3):
        for learner in learners:
            learner.update(batch, Objective(), UpdatePlan(micro_tokens=64))
        before = torch.cuda.memory_allocated()
        learners[1].make_room()
        states = [value for state in learners[1].optimizer.state.values() for value in state.values()]
        assert not any(value.is_cuda for value in states if value.ndim)
        assert torch.cuda.memory_allocated() < before
    for mine, other in zip(*(learner.model.parameters() for learner in learners), strict=True):
        assert torch.equal(mine, other)


def test_a_step_of_the_optimizer_needs_no_copy_of_the_weights():
    model = torch.nn.Linear(4096, 4096, device="cuda")
    optimizer = make_optimizer(model, lr=1e-3)
    for _ in range(2):
        model(torch.ones(1, 4096, device="cuda")).sum().backward()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        optimizer.step()
    assert torch.cuda.max_memory_allocated() < before + 2**20


def test_what_the_learner_keeps_for_later_can_be_given_back():
    memory = DeviceMemory("cuda")
    tensor = torch.empty(1 << 28, dtype=torch.uint8, device="cuda")
    free, total = memory.free_and_total()
    del tensor
    assert memory.free_and_total()[0] < free + 2**20
    memory.release()
    assert memory.free_and_total()[0] >= free + (1 << 28) - 2**22
    assert total == memory.total()


def test_the_metrics_of_a_run_have_memory_and_utilisation(tmp_path):
    assert train(make_run(tmp_path / "run", "cuda", 1)).finished
    (step,) = [line for line in lines(tmp_path / "run") if line["phase"] == "train"]
    assert step["device_memory"] > 0
    assert 0 < step["mfu"] <= step["hfu"] < 1
