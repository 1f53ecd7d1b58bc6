"""The commands of docs/models.md ("The first hour"), with a model of that size and random weights, where nothing can be
downloaded: do they start, how long does each part of an iteration take, and how much of the GPU is in use?

Every step is a process of its own with a time limit; if one fails, the others go on. Memory is what nvidia-smi says of
the whole GPU, asked five times a second, so that it contains the engine's processes. The credit is drawn at random
(`real_shapes.py:noise`), since a model with random weights wins nothing.

    python benchmarks/first_hour.py [--model qwen2.5-1.5b] [--device cuda] [--engines transformers vllm] [--full]
                                    [--episodes 64] [--turns 8] [--tokens 64] [--iterations 2] [--limit 120]
                                    [--folder DIR] [--json PATH]

`--full` trains all weights instead of a LoRA adapter of rank 16.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import torch
from real_shapes import SHAPES, write_model
from rich.console import Console
from rich.table import Table

GROUP = 8
RUN = """
name = "first-hour"

[env]
id = "turncredit/Household-v0"
kwargs = {{ level = "tiny", split = "train" }}

[agent]
prompt = {{ name = "window", history = 3 }}
template = "react"
parser = "think-action"
max_turns = {turns}
max_tokens = {tokens}

[policy]
model = "{model}"
context = 3072
device = "{device}"
dtype = "bfloat16"
recompute_activations = true
{lora}
{sampler}
[credit]
method = "real_shapes:noise"

[train]
iterations = {iterations}
groups = {groups}
group_size = {group}
lr = 2e-5
micro_batch = 6144
concurrency = {episodes}

[evaluation]
env = {{ split = "held_out" }}
episodes = 8
temperature = 0.4

[checkpoints]
every = 5
"""
SAMPLERS = {
    "transformers": "",
    "vllm": '[sampler]\nengine = "vllm"\noptions = {{ sleep = true{adapters} }}\n',
}
SHOWN = (
    "seconds",
    "rollout_seconds",
    "rollout_tokens_per_second",
    "update_seconds",
    "update_tokens_per_second",
    "mfu",
    "hfu",
    "load_seconds",
    "gap",
    "device_memory",
    "device_used_memory",
)
"""Metrics of an iteration that are printed."""


class GpuMemory:
    """The largest amount of memory of the first GPU that all processes together used, in MiB; 0 without a GPU."""

    def __init__(self) -> None:
        self.peak = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> GpuMemory:
        if shutil.which("nvidia-smi"):
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _watch(self) -> None:
        ask = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        while not self._over.wait(0.2):
            answer = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.split()
            self.peak = max(self.peak, int(answer[0]) if answer and answer[0].isdigit() else 0)


def step(name: str, words: list[str], options: argparse.Namespace) -> dict[str, object]:
    """Run a command of turncredit; return its seconds, the GPU's memory and whether it worked."""
    print(f"\n--- {name}: turncredit {' '.join(words)}", flush=True)
    paths = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONUNBUFFERED": "1"}
    code = "from turncredit.cli.main import main; main()"
    started = time.perf_counter()
    with GpuMemory() as memory:
        process = subprocess.Popen([sys.executable, "-c", code, *words], stdin=subprocess.DEVNULL, env=environment)
        try:
            status: int | str = process.wait(options.limit)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            status = "too long"
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
    seconds = time.perf_counter() - started
    return {"step": name, "status": status, "seconds": round(seconds, 1), "gpu_mib": memory.peak}


def iterations(folder: Path) -> list[dict[str, object]]:
    """Return the metrics of a run's iterations."""
    path = folder / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []
    return [{key: row[key] for key in SHOWN if key in row} for row in rows if row.get("phase") == "train"]


def settings(engine: str, options: argparse.Namespace, model: Path) -> str:
    adapters = "" if options.full else ", enable_lora = true, max_lora_rank = 16"
    return RUN.format(
        turns=options.turns,
        tokens=options.tokens,
        model=model,
        device=options.device,
        lora="" if options.full else "lora = { rank = 16, alpha = 32 }",
        sampler=SAMPLERS[engine].format(adapters=adapters),
        iterations=options.iterations,
        groups=options.episodes // GROUP,
        group=GROUP,
        episodes=options.episodes,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="qwen2.5-1.5b")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--engines", nargs="+", choices=SAMPLERS, default=["transformers"])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--episodes", type=int, default=64)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=2)
    parser.add_argument("--limit", type=float, default=120.0, help="seconds of a step")
    parser.add_argument("--folder", type=Path, help="for the model and the runs")
    parser.add_argument("--no-eval", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    home = options.folder or Path(tempfile.mkdtemp())
    model = home / options.model
    if not model.is_dir():
        write_model(options.model, model, device=options.device)
    results, metrics = [], {}
    for engine in options.engines:
        if not options.no_eval:
            limits = [f"agent.max_tokens={options.tokens}", f"agent.max_turns={options.turns}"]
            where = ["--device", options.device, "--dtype", "bfloat16"] if engine == "transformers" else []
            task = ["turncredit/Household-v0", "level=tiny", "split=held_out", "--episodes", str(options.episodes)]
            results.append(step(f"eval, {engine}", ["eval", f"{engine}:{model}", *task, *where, *limits], options))
        file, run = home / f"{engine}.toml", home / f"run-{engine}{'-full' if options.full else ''}"
        file.write_text(settings(engine, options, model), encoding="utf-8")
        results.append(step(f"plan, {engine}", ["plan", str(file), "--gpus", "1"], options))
        results.append(step(f"train, {engine}", ["train", str(file), f"output={run}"], options))
        metrics[engine] = iterations(run)
    table = Table("step", "status", "seconds", "GPU, MiB", box=None, padding=(0, 2))
    for row in results:
        table.add_row(*(str(row[key]) for key in ("step", "status", "seconds", "gpu_mib")))
    Console().print(table)
    for engine, rows in metrics.items():
        for number, row in enumerate(rows):
            rounded = {key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}
            print(f"{engine}, iteration {number + 1}: {json.dumps(rounded)}")
    if options.json:
        options.json.write_text(json.dumps({"steps": results, "metrics": metrics}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
