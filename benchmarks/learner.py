"""An update with the kernels and layouts that the learner has: tokens per second, utilisation and memory of each.

A random model with the shape of Qwen2.5 is built from its configuration, without any download, and trains on a batch of
episodes whose turns have common prefixes: each turn is a row that begins as the others of its task do. Losses and norms
of the gradient stand beside each other; `--exact` compares log-probabilities of flex attention and of SDPA in a forest
with those of rows that are computed apart, in float32 and in bfloat16.

    python benchmarks/learner.py [--device cuda] [--seconds 110] [--only WORDS] [--small] [--json PATH]

A step that fails is a row of the table with its reason, and the others go on; what the seconds do not suffice for is
said. On a CPU the clock is that of the processor.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from turncredit.agents.models.four_bits import quantize
from turncredit.training.batch.batch import Batch
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.kernels import require_kernels
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.logprobs import TokenScorer
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.memory import GIB, MemoryNeeds, estimate
from turncredit.training.learner.peak_flops import peak_of_device
from turncredit.training.objectives import Objective

SHAPES: dict[str, dict[str, Any]] = {
    "1.5b": {"vocab_size": 151936, "hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28,
             "num_attention_heads": 12, "num_key_value_heads": 2, "tie_word_embeddings": True},
    "26m": {"vocab_size": 8192, "hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 7,
            "num_attention_heads": 8, "num_key_value_heads": 8, "tie_word_embeddings": True},
    "tiny": {"vocab_size": 1000, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "tie_word_embeddings": True},
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A row of the table."""

    name: str
    shared: float
    kernels: str = "plain"
    lora: bool = True
    bits: int = 16
    learner: dict[str, Any] = field(default_factory=dict)


TREE, FLEX = {"share_prefixes": True}, {"share_prefixes": "flex"}
CASES = [
    Case("lora, plain", 0.35),
    Case("lora, tree", 0.35, learner=TREE),
    Case("lora, flex", 0.35, learner=FLEX),
    Case("lora, liger", 0.35, "liger"),
    Case("lora, compile", 0.35, "compile"),
    Case("lora, plain", 0.80),
    Case("lora, tree", 0.80, learner=TREE),
    Case("lora, flex", 0.80, learner=FLEX),
    Case("lora, tree, compile", 0.80, "compile", learner=TREE),
    Case("lora, 4 bits, tree", 0.80, bits=4, learner=TREE),
    Case("full, plain", 0.35, lora=False),
    Case("full, compile", 0.35, "compile", lora=False),
]
"""In the order of what is least known, since time may run out."""


def make_model(options: argparse.Namespace, dtype: torch.dtype, seed: int = 0) -> Any:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(seed)
    with torch.device(options.device):
        model = AutoModelForCausalLM.from_config(
            config_of(options), dtype=dtype, attn_implementation="sdpa", trust_remote_code=False
        )
    return model.eval()


def config_of(options: argparse.Namespace) -> Any:
    from transformers import Qwen2Config

    context = options.prompt + 2 * options.answer + 64
    return Qwen2Config(**SHAPES[options.model], max_position_embeddings=max(1024, context))


def random_batch(options: argparse.Namespace, words: int, shared: float) -> Batch:
    """Rows of prompt and answer in groups of 8, of whose prompts a share is common to the group, the rest to nobody."""
    rng = np.random.default_rng(0)
    length = options.prompt + options.answer
    tokens = rng.integers(0, words, (options.rows, length))
    common = int(shared * options.prompt)
    for row in range(options.rows):
        tokens[row, :common] = tokens[row - row % 8, :common]
    mask = np.zeros(tokens.shape, dtype=bool)
    mask[:, options.prompt :] = True
    rows = np.arange(options.rows)
    return Batch(
        tokens=tokens,
        lengths=np.full(options.rows, length),
        mask=mask,
        old=np.where(mask, -np.log(words), 0.0),
        advantages=np.where(mask, rng.normal(size=(options.rows, 1)), 0.0),
        trajectory=rows,
        turn=np.where(mask, rows[:, None], -1),
        version=np.where(mask, 0, -1),
        turns=tuple((str(row), 0) for row in rows),
    )


def measured(case: Case, options: argparse.Namespace) -> dict[str, Any]:
    """Return numbers of the second and third update; the first one compiles."""
    cuda = options.device.startswith("cuda")
    require_kernels(case.kernels, options.device)
    if case.learner.get("share_prefixes") == "flex" and not cuda:
        raise ValueError("there is no CUDA device")
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    half = options.bfloat16
    model = make_model(options, torch.bfloat16 if half and case.lora else torch.float32)
    if case.bits == 4:
        model = quantize(model, lambda _: "")
    if case.lora:
        model = add_adapter(model, LoraOptions(rank=16))
        generator = torch.Generator(options.device).manual_seed(0)
        with torch.no_grad():
            for name, weight in model.named_parameters():
                if "lora_" in name:  # of both matrices, so that their gradients are not zero
                    weight.normal_(0.0, 0.02, generator=generator)
    learner = Learner(model, None, device=options.device, lr=0.0, bfloat16=half, recompute_activations=True,
                      optimizer="adamw_fused" if cuda else "adamw", note=print, **case.learner)  # fmt: skip
    if case.kernels != "plain":
        learner.use_kernels(case.kernels)
    learner.peak = peak_of_device(options.device, "bfloat16" if half else "float32")
    batch = random_batch(options, SHAPES[options.model]["vocab_size"], case.shared)
    objective, plan = Objective(aggregation="token-mean"), UpdatePlan(micro_tokens=options.micro_tokens)
    clock = time.perf_counter if cuda else time.process_time
    seconds, stats = [], {}
    for _ in range(1 + options.repeat):  # the learning rate is 0: every update computes the same
        if cuda:
            torch.cuda.synchronize()
        started = clock()
        stats = learner.update(batch, objective, plan)
        if cuda:
            torch.cuda.synchronize()
        seconds.append(clock() - started)
    needs = MemoryNeeds(
        tokens=options.micro_tokens, length=options.prompt + options.answer, dtype="bfloat16" if half else "float32",
        lora={"rank": 16, "bits": case.bits} if case.lora else {}, recompute_activations=True, optimizer="adamw",
        sharing=bool(case.learner.get("share_prefixes")), attention="sdpa",
    )  # fmt: skip
    fastest = min(seconds[1:])
    return {
        "tokens_per_second": batch.size / fastest,
        "first_seconds": seconds[0],
        "mfu": stats["flops"] / (fastest * learner.peak) if learner.peak else 0.0,
        "peak_gib": torch.cuda.max_memory_allocated() / GIB if cuda else 0.0,
        "estimate_gib": estimate(config_of(options), needs).total / GIB,
        "loss": stats["loss"],
        "grad_norm": stats["grad_norm"],
        "replaced": sorted({type(module).__name__ for module in learner.scorer.kernels.replaced}),
        "shared": stats.get("shared", 0.0),
        "limit": learner.limit.tokens,
    }


def exactness(options: argparse.Namespace, dtype: torch.dtype, layout: str | bool) -> float:
    """Return the largest difference (nats) between log-probabilities in a forest and of rows that are apart."""
    small = argparse.Namespace(**{**vars(options), "rows": 8, "prompt": 96, "answer": 32})
    small.model = "26m" if options.model == "1.5b" else "tiny"
    model = make_model(small, dtype)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim == 2:
                weight.normal_(0.0, weight.shape[1] ** -0.5)
    batch = random_batch(small, SHAPES[small.model]["vocab_size"], 0.8)
    apart = TokenScorer(model).score(batch, micro_tokens=4096)
    scorer = TokenScorer(model, share_prefixes=layout)
    if scorer.unshared:
        raise ValueError(scorer.unshared)
    together = scorer.score(batch, micro_tokens=4096)
    return float(np.abs(apart.logprobs - together.logprobs).max())


def attempt(compute: Callable[[], Any]) -> tuple[Any, str]:
    """Return what a step computes, or why it failed."""
    try:
        return compute(), ""
    except Exception as error:
        traceback.print_exc(limit=-6)
        return None, f"{type(error).__name__}: {str(error).strip().splitlines()[0][:100] if str(error) else ''}"
    finally:
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


def rows_of(options: argparse.Namespace, until: float) -> Iterator[tuple[Case, dict[str, Any] | None, str]]:
    """Yield the cases with their numbers; those for which no time is left are said so."""
    for case in CASES:
        if options.only and options.only not in case.name:
            continue
        if time.perf_counter() > until:
            yield case, None, "no time left"
            continue
        numbers, problem = attempt(lambda case=case: measured(case, options))  # type: ignore[misc]
        print(f"{case.name} {case.shared:.0%}: {numbers or problem}", file=sys.stderr, flush=True)
        yield case, numbers, problem


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--model", choices=SHAPES, default="1.5b")
    parser.add_argument("--small", action="store_true", help="a tiny model and few short rows")
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--prompt", type=int, default=1500)
    parser.add_argument("--answer", type=int, default=150)
    parser.add_argument("--micro-tokens", type=int, default=13_200)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=110.0)
    parser.add_argument("--only", help="cases whose name contains this")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.small:
        options.model, options.rows, options.prompt, options.answer = "tiny", 16, 48, 16
        options.micro_tokens = 512
    if options.threads:
        torch.set_num_threads(options.threads)
    options.bfloat16 = options.device.startswith("cuda")
    until = time.perf_counter() + options.seconds
    results = list(rows_of(options, until))
    checks = {}
    for dtype in (torch.float32, torch.bfloat16) if not options.only else ():
        for layout in (True, "flex"):
            if layout == "flex" and options.device == "cpu":
                continue
            name = f"{'SDPA' if layout is True else 'flex'} in a forest, {str(dtype).removeprefix('torch.')}"
            checks[name] = attempt(lambda dtype=dtype, layout=layout: exactness(options, dtype, layout))  # type: ignore[misc]
    table = Table("update", "shared", "tokens/s", "mfu", "first, s", "GiB", "estimate", "loss", "gradient", "note")
    for case, numbers, problem in results:
        if numbers is None:
            table.add_row(case.name, f"{case.shared:.0%}", *["-"] * 7, problem)
            continue
        notes = ", ".join(numbers["replaced"]) if case.kernels == "liger" else ""
        notes += f" limit {numbers['limit']}" if numbers["limit"] else ""
        table.add_row(
            case.name, f"{case.shared:.0%}", f"{numbers['tokens_per_second']:,.0f}", f"{numbers['mfu']:.3f}",
            f"{numbers['first_seconds']:.1f}", f"{numbers['peak_gib']:.1f}", f"{numbers['estimate_gib']:.1f}",
            f"{numbers['loss']:.6f}", f"{numbers['grad_norm']:.5f}", notes,
        )  # fmt: skip
    device = torch.cuda.get_device_name() if options.bfloat16 else "cpu"
    console = Console(width=150)
    console.print(f"{device}, torch {torch.__version__}, {options.model}, {options.rows} rows of "
                  f"{options.prompt} + {options.answer} tokens")  # fmt: skip
    for name, (gap, problem) in checks.items():
        console.print(f"{name}: {problem or f'largest difference to rows apart {gap:.2e} nats'}")
    console.print(table)
    if options.json:
        rows = [{"case": case.name, "asked": case.shared, "problem": problem, **(numbers or {})}
                for case, numbers, problem in results]  # fmt: skip
        options.json.write_text(json.dumps({"device": device, "checks": checks, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
