"""Shared prefixes computed once: an update with `train.micro_batch.share_prefixes` beside one without, in one process.

Groups of episodes begin with the same prompt, of which a fraction is shared, and go on with tokens of their own; a
half of these carries loss. Both learners begin with the same weights and do one optimizer step; a ratio is the time
without sharing divided by the time with it. `packed` is the same with `train.micro_batch.packing`. `--clock cpu` counts
processor time. The losses and the norms of the gradients are printed: they are equal.

    python benchmarks/prefixes.py [--shares 0 0.35 0.8] [--length 512] [--groups 4] [--group 8] [--rounds 3]
                                  [--hidden 512] [--layers 7] [--threads 1] [--clock cpu] [--packed] [--memory]
                                  [--json PATH]

Goal: 2.7 times as fast where 80 % of a prompt is shared, and 1.2 times at 35 % (what verl reports, on GPUs).
"""

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from turncredit.training.batch.batch import Batch
from turncredit.training.batch.prefix_forest import distinct_tokens
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives import Objective

VOCABULARY: Final = 8192
CLOCKS: Final = {"wall": time.perf_counter, "cpu": time.process_time}


def batch_of(share: float, options: argparse.Namespace) -> Batch:
    """Return rows of equal length, of which each group shares a fraction."""
    rng = np.random.default_rng(0)
    rows, length = options.groups * options.group, options.length
    tokens = rng.integers(0, VOCABULARY, (rows, length))
    begin = int(share * length)
    first = np.repeat(np.arange(options.groups) * options.group, options.group)
    tokens[:, :begin] = tokens[first, :begin]
    # a turn of the agent, a turn of the environment, and so on, after the shared prompt
    mask = np.broadcast_to(
        ((np.arange(length) - begin) // 16 % 2 == 0) & (np.arange(length) >= max(1, begin)), tokens.shape
    )
    number = np.broadcast_to(np.arange(rows)[:, None], mask.shape)
    return Batch(
        tokens=tokens,
        lengths=np.full(rows, length),
        mask=mask.copy(),
        old=np.where(mask, -np.log(VOCABULARY), 0.0),
        advantages=np.where(mask, rng.normal(size=(rows, 1)), 0.0),
        trajectory=np.arange(rows),
        turn=np.where(mask, number, -1),
        version=np.where(mask, 0, -1),
        turns=tuple((str(row), 0) for row in range(rows)),
    )


def model_of(options: argparse.Namespace) -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=options.hidden,
            intermediate_size=options.hidden * 43 // 16,
            num_hidden_layers=options.layers,
            num_attention_heads=options.hidden // 64,
            num_key_value_heads=options.hidden // 64,
            max_position_embeddings=max(1024, options.length),
            tie_word_embeddings=True,
        )
    )


def measure(share: float, options: argparse.Namespace) -> dict[str, Any]:
    """Return times, losses and norms of the updates with one shared fraction."""
    batch, clock = batch_of(share, options), CLOCKS[options.clock]
    plain: dict[str, Any] = {"packing": True} if options.packed else {}
    learners = {
        name: Learner(model_of(options), None, lr=1e-6, **how)
        for name, how in {"unshared": plain, "shared": {"share_prefixes": True}}.items()
    }
    times: dict[str, list[float]] = {name: [] for name in learners}
    stats: dict[str, dict[str, float]] = {}
    for turn in range(options.rounds + 1):
        for name, learner in learners.items():
            start = clock()
            outcome = learner.update(batch, Objective(), UpdatePlan(micro_tokens=options.micro_tokens))
            if turn:  # the first one warms up
                times[name].append(clock() - start)
            stats.setdefault(name, outcome)
    seconds = {name: statistics.median(values) for name, values in times.items()}
    return {
        "share": share,
        "tokens": batch.size,
        "distinct": distinct_tokens(batch.tokens, batch.needed),
        "seconds": seconds,
        "ratio": seconds["unshared"] / seconds["shared"],
        "ratios": [a / b for a, b in zip(times["unshared"], times["shared"], strict=True)],
        **{key: {name: outcome[key] for name, outcome in stats.items()} for key in ("loss", "grad_norm", "gap")},
    }


def kept_bytes(share: float, options: argparse.Namespace) -> dict[str, float]:
    """Return what a forward pass over one batch keeps for the backward pass, in bytes."""
    batch, model = batch_of(share, options), model_of(options)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    held: dict[str, float] = {}
    for name, how in (("unshared", {"packing": options.packed}), ("shared", {"share_prefixes": True})):
        scorer, tensors = TokenScorer(model, **how), []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensors.append(tensor) or tensor, lambda one: one):  # noqa: B023
            scorer(batch)
        storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in tensors}
        held[name] = float(sum(size for address, size in storages.items() if address not in weights))
    return held


def show_memory(options: argparse.Namespace) -> None:
    table = Table("shared", "unshared, MiB", "shared, MiB", "ratio", title="kept for the backward pass")
    for share in options.shares:
        held = kept_bytes(share, options)
        sizes = [f"{held[name] / 2**20:.0f}" for name in ("unshared", "shared")]
        table.add_row(f"{share:.0%}", *sizes, f"{held['unshared'] / held['shared']:.2f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.35, 0.8])
    for name, number in {"length": 512, "groups": 4, "group": 8, "rounds": 3, "hidden": 512, "layers": 7}.items():
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--micro-tokens", type=int, default=8192)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    parser.add_argument("--packed", action="store_true", help="compare with packing instead of padding")
    parser.add_argument("--memory", action="store_true", help="what a forward pass keeps, instead of times")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.memory:
        show_memory(options)
        return
    table = Table("shared", "tokens", "distinct", "unshared", "shared", "ratio", "loss", "norm of the gradient")
    rows = []
    for share in options.shares:
        row = measure(share, options)
        rows.append(row)
        pairs = [f"{row[key]['unshared']:.7f} {row[key]['shared']:.7f}" for key in ("loss", "grad_norm")]
        seconds = [f"{row['seconds'][name]:.2f} s" for name in ("unshared", "shared")]
        table.add_row(
            f"{share:.0%}", f"{row['tokens']:,}", f"{row['distinct']:,}", *seconds, f"{row['ratio']:.2f}", *pairs
        )
    Console(width=140).print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
