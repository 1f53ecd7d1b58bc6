"""What the means and comparisons of whole distributions cost that some rules ask for, relative to an update of GRPO.

A random Llama trains on groups of random episodes. The objective `rover` needs a pass that scores the old policy and
its means over the vocabulary; the transforms `tw_grpo`, `thr` and `nthr` compare the tokens of a group. Processor time
counts, the median of the rounds, in which the rows take turns.

    python benchmarks/group_arrays.py [--vocabulary 512 49152] [--groups 4] [--size 8] [--answer 24] [--rounds 3]
                                      [--json PATH]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from turncredit.agents.steps import steps_of
from turncredit.agents.trajectory import Group, Trajectory, Turn
from turncredit.credit.advantages import Advantages
from turncredit.training.batch.batch import Batch, pack
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.group_arrays import group_arrays
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.objectives import Objective

PROMPT, TURNS = 32, 3
ARRAYS = {
    "tw_grpo": ("divergence",),
    "thr": ("influence_of_winners",),
    "nthr": ("influence_of_winners", "influence_of_losers"),
}


def random_batch(options: argparse.Namespace, words: int) -> Batch:
    """Return groups of conversations, merged, with random advantages."""
    rng, groups = np.random.default_rng(0), []
    for number in range(options.groups):
        members = []
        for member in range(options.size):
            history: tuple[int, ...] = ()
            turns = []
            for _ in range(TURNS):
                history += tuple(rng.integers(5, words, PROMPT).tolist())
                answer = tuple(rng.integers(5, words, options.answer).tolist())
                old = tuple([-float(np.log(words))] * options.answer)
                turns.append(Turn(history, answer, old, 0, "", "", "", "", 0.0, True))
                history += answer
            name = f"t{number}#{member}@0"
            members.append(
                Trajectory(name, f"t{number}", None, 0, tuple(turns), "terminated", False, 0.0, "", "", None, 0.0)
            )
        groups.append(Group(f"t{number}", tuple(members)))
    steps = steps_of(groups)
    return pack(groups, Advantages.of(steps, rng.choice([-1.0, 1.0], size=len(steps))))


def rows_of(learner: Learner, batch: Batch) -> dict[str, Callable[[], object]]:
    """Return what is measured, by name."""
    scorer = TokenScorer(learner.model)
    scores = scorer.score(batch, mean=True)
    recomputed = replace(batch, old=scores.logprobs, mean_logprob=scores.mean_logprob)
    plan = UpdatePlan(micro_tokens=4096)
    return {
        "update, grpo": lambda: learner.update(batch, Objective(), plan),
        "update, rover": lambda: learner.update(recomputed, Objective(name="rover"), plan),
        "scores": lambda: scorer.score(batch),
        "scores with means": lambda: scorer.score(batch, mean=True),
        **{
            f"arrays of {name}": lambda names=names: group_arrays(learner, batch, names, micro_tokens=4096)  # type: ignore[misc]
            for name, names in ARRAYS.items()
        },
    }


def measure(options: argparse.Namespace, words: int) -> dict[str, float]:
    """Return the processor seconds of each row, the median of the rounds."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 2, "num_attention_heads": 4}
    learner = Learner(LlamaForCausalLM(LlamaConfig(vocab_size=words, **sizes)), None)
    rows = rows_of(learner, random_batch(options, words))
    seconds: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(options.rounds):
        for name, run in rows.items():
            began = time.process_time()
            run()
            seconds[name].append(time.process_time() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[512, 49152])
    parser.add_argument("--groups", type=int, default=4)
    parser.add_argument("--size", type=int, default=8, help="episodes of a group")
    parser.add_argument("--answer", type=int, default=24, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {words: measure(options, words) for words in options.vocabulary}
    table = Table("", *(f"{words:,} words: seconds" for words in results), *(f"{words:,}: ratio" for words in results))
    for name in next(iter(results.values())):
        seconds = [result[name] for result in results.values()]
        ratios = [result[name] / result["update, grpo"] for result in results.values()]
        table.add_row(name, *(f"{value:.3f}" for value in seconds), *(f"{value:.2f}" for value in ratios))
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
