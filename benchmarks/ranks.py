"""What it costs that ranks ask each other whether memory has run out on one of them.

Two ranks of gloo on this machine compute the same update in turns: with the question once a micro-batch, as turncredit
asks it; with one more before every exchange of weights or gradients; and without any. The share is largest for a small
model, whose layers take little time.

    python benchmarks/ranks.py [--ranks 2] [--hidden 512] [--rounds 5] [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.multiprocessing
from torch.distributed import TCPStore

from turncredit.training import Run
from turncredit.training.batch.batch import Batch
from turncredit.training.learner.distributed_learner import DistributedLearner
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.policy import build_policy
from turncredit.training.learner.rank_commands import lead, serve_rank
from turncredit.training.learner.ranks import Ranks, agree, join
from turncredit.training.learner.sharding import Collective, Exchanges
from turncredit.training.objectives import Objective

ROWS, LENGTH, VOCABULARY = 16, 128, 2048


def random_batch(vocabulary: int) -> Batch:
    """Return rows of random tokens, each an episode of one turn."""
    rng = np.random.default_rng(0)
    mask = np.ones((ROWS, LENGTH), dtype=bool)
    mask[:, 0] = False
    return Batch(
        tokens=rng.integers(0, vocabulary, mask.shape),
        lengths=np.full(ROWS, LENGTH),
        mask=mask,
        old=np.where(mask, -np.log(vocabulary), 0.0),
        advantages=np.where(mask, rng.normal(size=(ROWS, 1)), 0.0),
        trajectory=np.arange(ROWS),
        turn=np.where(mask, np.arange(ROWS)[:, None], -1),
        version=np.where(mask, 0, -1),
    )


def nothing(ranks: Ranks, *, ran_out: bool = False) -> None:
    """Ask nobody."""


ASK, NOTE = Ranks.check_memory, Exchanges.add
WAYS = ("every exchange", "micro-batch", "never")


def ask(learner: Learner, way: str) -> None:
    """Have this rank ask the others in one of the ways."""
    ranks = learner.ranks
    assert ranks is not None

    def ask_as_well(exchanges: Exchanges, exchange: Collective) -> None:
        ranks.check_memory()
        NOTE(exchanges, exchange)

    Ranks.check_memory = nothing if way == "never" else ASK  # type: ignore[method-assign]
    Exchanges.add = ask_as_well if way == "every exchange" else NOTE  # type: ignore[method-assign]


def measure(options: argparse.Namespace, leader: Any) -> dict[str, float]:
    """Return the seconds of the fastest update in each way, which other programs disturbed least, and their ratios."""
    sizes = {"vocab": VOCABULARY, "hidden": options.hidden, "layers": 8, "heads": 8, "context": 512}
    model, tokenizer = build_policy(["a b c d"] * 9, **sizes)
    learner = DistributedLearner(model, tokenizer, leader=leader)
    batch = random_batch(int(model.get_input_embeddings().weight.shape[0]))
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(options.rounds + 1):
        for way in WAYS[number % 3 :] + WAYS[: number % 3]:
            learner.on_all_ranks(ask, way)
            started = time.perf_counter()
            learner.update(batch, Objective(), UpdatePlan(micro_tokens=512))
            if number:
                seconds[way].append(time.perf_counter() - started)
    results = {way: min(values) for way, values in seconds.items()}
    for way in WAYS[:2]:
        results[f"{way}, ratio"] = results[way] / results["never"]
    return results


def rank(number: int, port: int, options: argparse.Namespace) -> None:
    """Be one of the ranks; rank 0 prints the result."""
    torch.set_num_threads(1)
    place = {"RANK": number, "LOCAL_RANK": number, "WORLD_SIZE": options.ranks, "LOCAL_WORLD_SIZE": options.ranks}
    os.environ |= {name: str(value) for name, value in place.items()}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    _, ranks = agree(join(timeout=timedelta(minutes=5)), Run)
    if number:
        serve_rank(ranks)
        return
    with lead(ranks) as leader:
        results = measure(options, leader)
    for way in WAYS:
        print(f"{way:<16} {results[way]:.3f} s per update, {results.get(f'{way}, ratio', 1.0):.3f} of one without")
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


def main() -> None:
    """Start the ranks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    torch.multiprocessing.spawn(rank, (store.port, options), nprocs=options.ranks)


if __name__ == "__main__":
    main()
