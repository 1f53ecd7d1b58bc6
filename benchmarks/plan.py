"""The shares of this machine's speed that an update and decoding reach: the assumptions of `turncredit plan`.

First the speed that matrix products and reading memory reach alone is measured, on matrices of the model's size. The
plan is made with these two numbers and full efficiency; then an update and a rollout's decoding are timed. The planned
time divided by the measured one is the efficiency that `turncredit plan` would need to be right. Shares that are alike
for models of different sizes mean that the plan's arithmetic holds. Processor time on the CPU; other devices reach
other shares.

    python benchmarks/plan.py [--threads 1] [--rounds 3] [--hidden 256 512] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Request
from turncredit.engines.transformers.sampler import TransformersSampler
from turncredit.training import Run
from turncredit.training.batch.batch import Batch
from turncredit.training.hardware.plan import EpisodeLengths, Gpu, rollout_seconds, update_seconds
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_policy
from turncredit.training.objectives import Objective

SIZES = {"vocab": 2048, "layers": 8, "heads": 8, "context": 512}
EPISODES, PROMPT, ANSWER = 16, 64, 64


def best(rounds: int, do: Callable[[], object]) -> float:
    """Return the shortest time of a call in seconds of processor time, since other load only makes it longer."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        do()
        times.append(time.process_time() - started)
    return min(times)


def device(rounds: int, hidden: int) -> Gpu:
    """Return the operations and bytes per second that this machine reaches in products of a model's size."""
    wide, weights = torch.randn(1024, hidden), torch.randn(hidden, 4 * hidden)
    seconds = best(5 * rounds, lambda: wide @ weights)
    flops = 2 * wide.shape[0] * weights.numel() / seconds
    many = torch.randn(64_000_000)
    bandwidth = many.numel() * 4 / best(rounds, lambda: many.sum())
    return Gpu(memory=2**34, flops=flops, bandwidth=bandwidth, learner_efficiency=1.0, engine_efficiency=1.0)


def random_batch(rows: int, length: int, vocabulary: int) -> Batch:
    rng = np.random.default_rng(0)
    mask = np.ones((rows, length), dtype=bool)
    mask[:, 0] = False
    return Batch(
        tokens=rng.integers(0, vocabulary, mask.shape),
        lengths=np.full(rows, length),
        mask=mask,
        old=np.where(mask, -np.log(vocabulary), 0.0),
        advantages=np.where(mask, rng.normal(size=(rows, 1)), 0.0),
        trajectory=np.arange(rows),
        turn=np.where(mask, np.arange(rows)[:, None], -1),
        version=np.where(mask, 0, -1),
        turns=tuple((str(row), 0) for row in range(rows)),
    )


async def sample_all(sampler: TransformersSampler, vocabulary: int, number: int) -> None:
    rng = np.random.default_rng(number)
    requests = [
        Request(
            episode=f"{number}-{k}",
            turn=0,
            prompt=tuple(rng.integers(0, vocabulary, PROMPT).tolist()),
            messages=(),
            seed=k,
            view=View("", "", None, 0),
            max_tokens=ANSWER,
        )
        for k in range(EPISODES)
    ]
    await asyncio.gather(*(sampler.sample(request) for request in requests))
    for request in requests:
        sampler.forget(request.episode)


def measure(hidden: int, rounds: int) -> dict[str, Any]:
    """Return the speed of this machine, and planned and measured seconds for a model of one size."""
    here, sizes = device(rounds, hidden), {**SIZES, "hidden": hidden}
    model, tokenizer = build_policy(["a b c d"] * 9, **sizes)
    parameters, vocabulary = model.num_parameters(), int(model.get_input_embeddings().weight.shape[0])
    lengths = EpisodeLengths(EPISODES, EPISODES * ANSWER, EPISODES * (PROMPT + ANSWER), PROMPT + ANSWER, 1.0)
    run = Run.parse({"policy": sizes, "imitation": {"episodes": 1}, "train": {"concurrency": EPISODES}})
    learner, batch = Learner(model, tokenizer), random_batch(EPISODES, PROMPT + ANSWER, vocabulary)
    update = best(rounds, lambda: learner.update(batch, Objective(), UpdatePlan()))
    sampler = TransformersSampler(model, tokenizer, concurrency=EPISODES)
    sampler._ends = frozenset()  # answers have their full length
    numbers = iter(range(10**6))
    decoding = best(rounds, lambda: asyncio.run(sample_all(sampler, vocabulary, next(numbers))))
    planned = {
        "update": update_seconds(run, parameters, 1, here, lengths),
        "rollout": rollout_seconds(run, model.config, parameters, 1, here, lengths),
    }
    measured = {"update": update, "rollout": decoding}
    return {
        "parameters": parameters,
        "flops": here.flops,
        "bandwidth": here.bandwidth,
        "phases": {
            name: {"full_speed": planned[name], "measured": measured[name], "share": planned[name] / measured[name]}
            for name in planned
        },
    }


def main() -> None:
    """Measure, plan, time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 512])
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    found = {hidden: measure(hidden, options.rounds) for hidden in options.hidden}
    table = Table("parameters", "GFLOP/s", "GB/s", "phase", "at full speed", "measured", "share")
    for one in found.values():
        speed = f"{one['parameters'] / 1e6:.0f}M", f"{one['flops'] / 1e9:.0f}", f"{one['bandwidth'] / 1e9:.1f}"
        for name, phase in one["phases"].items():
            times = f"{phase['full_speed']:.2f} s", f"{phase['measured']:.2f} s"
            table.add_row(*speed, name, *times, f"{phase['share']:.2f}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
