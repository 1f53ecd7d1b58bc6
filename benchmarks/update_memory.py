"""Peak memory of an update with a large vocabulary: the projection in chunks beside the whole projection.

A new model of two layers is trained for one step on random tokens, in a process of its own for each variant. Measured
is the growth of the resident memory over that of the loaded model, so that libraries and weights do not count.

    python benchmarks/update_memory.py [--vocabulary 150000] [--tokens 1024] [--hidden 64] [--json PATH]

Goal: chunks need at most half of the memory of the whole projection.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from turncredit.training.batch.batch import Batch
from turncredit.training.learner import logprobs
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.vocabulary import token_logprobs
from turncredit.training.objectives import Objective

GOAL = 0.5
VARIANTS = ("whole", "chunks")
LENGTH = 128


def random_batch(tokens: int, vocabulary: int) -> Batch:
    rng, rows = np.random.default_rng(0), max(1, tokens // LENGTH)
    mask = np.ones((rows, LENGTH), dtype=bool)
    mask[:, 0] = False
    number = np.broadcast_to(np.arange(rows)[:, None], mask.shape)
    return Batch(
        tokens=rng.integers(0, vocabulary, mask.shape),
        lengths=np.full(rows, LENGTH),
        mask=mask,
        old=np.where(mask, -np.log(vocabulary), 0.0),
        advantages=np.where(mask, rng.normal(size=(rows, 1)), 0.0),
        trajectory=np.arange(rows),
        turn=np.where(mask, number, -1),
        version=np.where(mask, 0, -1),
        turns=tuple((str(row), 0) for row in range(rows)),
    )


def measure(variant: str, options: argparse.Namespace) -> dict[str, float]:
    """Do one update in this process; return the growth of memory (bytes), seconds, and the gradient's norm."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    sizes = {"hidden_size": options.hidden, "intermediate_size": 2 * options.hidden, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "tie_word_embeddings": True}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=options.vocabulary, **sizes, **heads))
    if variant == "whole":
        logprobs.token_logprobs = lambda *a, **k: token_logprobs(*a, **k, chunk=2**60)  # type: ignore[attr-defined]
    learner, batch = Learner(model, None), random_batch(options.tokens, options.vocabulary)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    stats = learner.update(batch, Objective(), UpdatePlan(micro_tokens=options.tokens))
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"bytes": (after - before) * 1024.0, "seconds": seconds, "grad_norm": stats["grad_norm"]}


def in_own_process(variant: str) -> dict[str, float]:
    words = [sys.executable, *sys.argv, "--variant", variant]
    answer = subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
    found: dict[str, float] = json.loads(answer.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=int, default=150_000)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--variant", choices=VARIANTS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.variant:
        print(json.dumps(measure(options.variant, options)))
        return
    results = {variant: in_own_process(variant) for variant in VARIANTS}
    ratio = results["chunks"]["bytes"] / results["whole"]["bytes"]
    table = Table("projection", "memory of the update, MiB", "seconds", "norm of the gradient")
    for variant, found in results.items():
        table.add_row(variant, f"{found['bytes'] / 2**20:,.0f}", f"{found['seconds']:.1f}", f"{found['grad_norm']:.6f}")
    Console().print(table)
    print(f"chunks need {ratio:.2f} of the memory of the whole projection (goal: at most {GOAL})")
    if options.json:
        options.json.write_text(json.dumps({**results, "ratio": ratio}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
