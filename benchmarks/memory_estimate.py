"""The estimate of `turncredit model info` beside the measured peak memory of an update, for several ways to train.

Each way makes two updates on random tokens in a process of its own. Measured is the resident memory at its peak minus
what the process had before the model was loaded; libraries do not count. The C library is told to return memory at once
(`HEAP`): by default it keeps freed blocks, and the resident memory on a CPU may be twice what is in use. With
`--device cuda` it is the largest amount that torch had allocated on the GPU.

    python benchmarks/memory_estimate.py [FOLDER] [--tokens 2048] [--length 512] [--ways NAME ...] [--device cpu]
                                         [--json PATH]

FOLDER is a Hugging Face model folder; default: a new model of 29 million parameters. Goal: an estimate of 0.8 to 1.25
of the peak.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from turncredit.agents.models.model_folder import load_model
from turncredit.training.batch.batch import Batch
from turncredit.training.learner.gradient import UpdatePlan
from turncredit.training.learner.learner import Learner
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.memory import MemoryNeeds, estimate
from turncredit.training.objectives import Objective

HEAP = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_MMAP_MAX_": "1000000"}
LORA = {"rank": 16, "alpha": 32}
WAYS: dict[str, dict[str, Any]] = {
    "float32": {},
    "checkpointing": {"recompute_activations": True},
    "LoRA": {"lora": LORA},
    "LoRA, checkpointing": {"lora": LORA, "recompute_activations": True},
    "bfloat16": {"dtype": "bfloat16"},
    "bfloat16, LoRA, checkpointing": {"dtype": "bfloat16", "lora": LORA, "recompute_activations": True},
    "packing, checkpointing": {"packing": True, "recompute_activations": True},
}


def new_model(folder: Path) -> None:
    """Write a model of 29 million parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": 512, "intermediate_size": 1376, "num_hidden_layers": 8, "vocab_size": 8192}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 4096}
    LlamaForCausalLM(LlamaConfig(**sizes, **heads)).save_pretrained(folder)


def random_batch(tokens: int, length: int, vocabulary: int) -> Batch:
    rng, rows = np.random.default_rng(0), max(1, tokens // length)
    mask = np.ones((rows, length), dtype=bool)
    mask[:, 0] = False
    number = np.broadcast_to(np.arange(rows)[:, None], mask.shape)
    return Batch(
        tokens=rng.integers(0, vocabulary, mask.shape),
        lengths=np.full(rows, length),
        mask=mask,
        old=np.where(mask, -np.log(vocabulary), 0.0),
        advantages=np.where(mask, rng.normal(size=(rows, 1)), 0.0),
        trajectory=np.arange(rows),
        turn=np.where(mask, number, -1),
        version=np.where(mask, 0, -1),
        turns=tuple((str(row), 0) for row in range(rows)),
    )


def resident() -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this benchmark needs Linux")


def measure(way: str, options: argparse.Namespace) -> dict[str, float]:
    """Make one update in this process; return the estimate and the growth of the resident memory, in bytes."""
    torch.set_num_threads(options.threads)
    torch.ones(8, 8) @ torch.ones(8, 8)  # the libraries load
    before = resident()
    chosen = WAYS[way]
    bfloat16, lora = chosen.get("dtype") == "bfloat16", chosen.get("lora", {})
    dtype = "bfloat16" if bfloat16 and lora else "float32"
    model = load_model(options.folder, dtype=dtype, device=options.device)
    if lora:
        model = add_adapter(model, LoraOptions.of(lora), base=str(options.folder), revision="")
    learner = Learner(
        model,
        None,
        device=options.device,
        bfloat16=bfloat16,
        recompute_activations=chosen.get("recompute_activations", False),
        packing=chosen.get("packing", False),
    )
    batch = random_batch(options.tokens, options.length, int(model.get_input_embeddings().weight.shape[0]))
    for _ in range(2):  # the optimizer has its states from the first one on
        learner.update(batch, Objective(), UpdatePlan(micro_tokens=options.tokens))
    if options.device == "cpu":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    else:
        peak = torch.cuda.max_memory_allocated()
    needs = MemoryNeeds(tokens=options.tokens, length=options.length, **chosen)
    return {"estimate": float(estimate(model.config, needs).total), "peak": float(peak)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="a Hugging Face model folder")
    parser.add_argument("--tokens", type=int, default=2048, help="of the update, in one micro-batch")
    parser.add_argument("--length", type=int, default=512, help="of a sequence")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options)))
        return
    table = Table("", "estimate, GiB", "peak, GiB", "ratio", box=None, padding=(0, 2))
    found = {}
    with tempfile.TemporaryDirectory() as made:
        if options.folder is None:
            options.folder = Path(made)
            new_model(options.folder)
        sizes = ["--tokens", str(options.tokens), "--length", str(options.length), "--threads", str(options.threads)]
        sizes += ["--device", options.device]
        for way in options.ways:
            words = [sys.executable, "-P", __file__, str(options.folder), *sizes, "--way", way]
            done = subprocess.run(
                words,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **HEAP},
            )
            found[way] = row = json.loads(done.stdout.splitlines()[-1])
            print(f"{way}: {row['estimate'] / row['peak']:.2f}", file=sys.stderr, flush=True)
            table.add_row(
                way,
                f"{row['estimate'] / 2**30:.2f}",
                f"{row['peak'] / 2**30:.2f}",
                f"{row['estimate'] / row['peak']:.2f}",
            )
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
