"""The seconds of an update and of decoding that `turnwise plan` predicts, beside what they take on this machine.

First the speed that matrix products and reading memory reach here is measured, on matrices of the model's size. The
plan is made with these two numbers; then an update and a rollout's decoding are timed. Ratios above 1 are what the plan
does not count: attention, Python, small matrices. It runs on the CPU; other devices have other ratios.

    python benchmarks/plan.py [--threads 1] [--rounds 3] [--json PATH]
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

from turnwise.agents.prompt import View
from turnwise.agents.samplers.base import Request
from turnwise.agents.samplers.transformers.sampler import TransformersSampler
from turnwise.training import Run
from turnwise.training.batch import Batch
from turnwise.training.gradient import UpdatePlan
from turnwise.training.learner import Learner
from turnwise.training.objectives import Objective
from turnwise.training.plan import EpisodeLengths, Gpu, rollout_seconds, update_seconds
from turnwise.training.policy import build_policy

SIZES = {"vocab": 2048, "hidden": 512, "layers": 8, "heads": 8, "context": 512}
EPISODES, PROMPT, ANSWER = 16, 64, 64


def best(rounds: int, do: Callable[[], object]) -> float:
    """Return the shortest time of a call in seconds of processor time, since other load only makes it longer."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        do()
        times.append(time.process_time() - started)
    return min(times)


def device(rounds: int) -> Gpu:
    """Return the operations and bytes per second that this machine reaches."""
    wide, weights = torch.randn(1024, SIZES["hidden"]), torch.randn(SIZES["hidden"], 4 * SIZES["hidden"])
    seconds = best(5 * rounds, lambda: wide @ weights)
    flops = 2 * wide.shape[0] * weights.numel() / seconds
    many = torch.randn(64_000_000)
    bandwidth = many.numel() * 4 / best(rounds, lambda: many.sum())
    return Gpu(memory=2**34, flops=flops, bandwidth=bandwidth)


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


def main() -> None:
    """Measure, plan, time, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    here = device(options.rounds)
    model, tokenizer = build_policy(["a b c d"] * 9, **SIZES)
    parameters, vocabulary = model.num_parameters(), int(model.get_input_embeddings().weight.shape[0])
    lengths = EpisodeLengths(EPISODES, EPISODES * ANSWER, EPISODES * (PROMPT + ANSWER), PROMPT + ANSWER, 1.0)
    run = Run.parse({"policy": SIZES, "imitation": {"episodes": 1}, "train": {"concurrency": EPISODES}})
    learner, batch = Learner(model, tokenizer), random_batch(EPISODES, PROMPT + ANSWER, vocabulary)
    update = best(options.rounds, lambda: learner.update(batch, Objective(), UpdatePlan()))
    sampler = TransformersSampler(model, tokenizer, concurrency=EPISODES)
    sampler._ends = frozenset()  # answers have their full length
    numbers = iter(range(10**6))
    decoding = best(options.rounds, lambda: asyncio.run(sample_all(sampler, vocabulary, next(numbers))))
    found: dict[str, Any] = {
        "update": {"planned": update_seconds(run, parameters, 1, here, lengths), "measured": update},
        "rollout": {
            "planned": rollout_seconds(run, model.config, parameters, 1, here, lengths),
            "measured": decoding,
        },
    }
    title = f"{parameters / 1e6:.0f}M parameters; {here.flops / 1e9:.0f} GFLOP/s, {here.bandwidth / 1e9:.1f} GB/s"
    table = Table("phase", "planned", "measured", "ratio", title=title)
    for name, one in found.items():
        one["ratio"] = one["measured"] / one["planned"]
        table.add_row(name, f"{one['planned']:.2f} s", f"{one['measured']:.2f} s", f"{one['ratio']:.2f}")
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
