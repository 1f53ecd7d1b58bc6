"""On a CUDA device: the same numbers as on the CPU, and a whole run, cut short and taken up again."""

import asyncio
import json

import numpy as np
import pytest
import torch
import toys.corridor
from toys.training_helpers import VOCAB, tiny_llama

from turnwise.agents.prompts.prompt import View
from turnwise.agents.samplers.base import Request
from turnwise.agents.samplers.transformers.sampler import TransformersSampler
from turnwise.training import Run, train

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


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
