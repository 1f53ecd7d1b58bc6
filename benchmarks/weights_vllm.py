"""The seconds that a running vLLM engine takes to get new weights, by the way that they go and by step.

A random model is made on the device, and an engine with dummy weights started beside it, so that the engine can only
agree with the model if every tensor arrived; the last column is the largest difference of log-probabilities, in nats.

    files     a folder in memory, read by the workers
    gloo      broadcast from main memory to main memory
    ipc       a buffer on the GPU that both processes see (CUDA only)
    nccl      from GPU to GPU (with two GPUs)
    asleep    the default way, into an engine that slept: with waking up (CUDA only)
    adapter   a LoRA adapter in memory, and the same from a folder

    python benchmarks/weights_vllm.py [--device cpu] [--small] [--rounds 6] [--seconds 85] [--json PATH]

A step that fails is a row with its error, and the others go on. After `--seconds` the table is printed as it is.
Needs vLLM, and downloads nothing. On CUDA: models in the shapes of Qwen3-0.6B and Qwen2.5-1.5B, in float32 as a learner
has them, sent in bfloat16. On a CPU: a small one; clock times there say nothing on a busy machine, but their ratios do.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import gc
import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Request, SamplerSettings
from turncredit.engines.vllm.sampler import VLLMSampler
from turncredit.training.learner.lora import LoraOptions, add_adapter
from turncredit.training.learner.policy import build_policy

STEPS = ("gather", "pack", "send", "start", "update", "finish")
SIZES = {
    "Qwen3-0.6B": (
        "Qwen3Config",
        {"hidden_size": 1024, "intermediate_size": 3072, "num_attention_heads": 16, "head_dim": 128},
    ),
    "Qwen2.5-1.5B": (
        "Qwen2Config",
        {"hidden_size": 1536, "intermediate_size": 8960, "num_attention_heads": 12, "num_key_value_heads": 2},
    ),
}
SHARED = {"num_hidden_layers": 28, "num_key_value_heads": 8, "vocab_size": 151936, "tie_word_embeddings": True}
CPU = {"hidden_size": 512, "intermediate_size": 1536, "num_hidden_layers": 28, "vocab_size": 8192}
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "vocab_size": 2048}
HEADS = {"num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 64, "tie_word_embeddings": True}
CONTEXT = 256


@dataclass
class Row:
    """What was measured of one way."""

    model: str
    way: str
    loads: list[float] = field(default_factory=list)
    steps: list[dict[str, float]] = field(default_factory=list)
    gap: float = float("nan")
    error: str = ""

    def table(self) -> dict[str, Any]:
        """Return medians over all loads but the first, which also meets the workers."""
        later = self.loads[1:] or self.loads
        steps = self.steps[1:] or self.steps
        medians = {step: statistics.median(one.get(step, 0.0) for one in steps) if steps else 0.0 for step in STEPS}
        return {
            "model": self.model,
            "way": self.way,
            "first": self.loads[0] if self.loads else float("nan"),
            "total": statistics.median(later) if later else float("nan"),
            **medians,
            "gap": self.gap,
            "error": self.error,
        }


class Bench:
    """Measures ways, and keeps rows for the table."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.rows = options, list[Row]()
        self.deadline = time.monotonic() + options.seconds
        self.on_gpu = options.device.startswith("cuda")

    def models(self) -> Iterator[tuple[str, Any]]:
        """Yield random models on the device, one at a time."""
        if not self.on_gpu or self.options.small:
            yield (
                "small" if self.options.small else "28 layers",
                self._model("Qwen3Config", {**(SMALL if self.options.small else CPU), **HEADS}),
            )
            return
        for name, (kind, sizes) in SIZES.items():
            yield name, self._model(kind, {**SHARED, **sizes})

    def _model(self, kind: str, sizes: dict[str, Any]) -> Any:
        import transformers  # not in the engine's process, which imports this module

        config = getattr(transformers, kind)(**sizes, max_position_embeddings=CONTEXT, initializer_range=0.05)
        with torch.device(self.options.device):
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32, trust_remote_code=False)
        return model.eval()

    @contextmanager
    def engine(self, model: Any, **options: Any) -> Iterator[VLLMSampler]:
        """Start an engine with dummy weights in the shape of a model."""
        _, tokenizer = build_policy(["a b c d"] * 9, vocab=300, hidden=16, layers=1, heads=1)
        if self.on_gpu:
            options |= {"gpu_memory_utilization": 0.25, "enforce_eager": not self.options.graphs}
        with tempfile.TemporaryDirectory() as folder:
            config = copy.deepcopy(model.config)
            config.architectures = [type(model).__name__]
            config.save_pretrained(folder)
            tokenizer.save_pretrained(folder)
            started = time.monotonic()
            sampler = VLLMSampler(
                SamplerSettings(
                    model=folder,
                    tokenizer=tokenizer,
                    device=self.options.device,
                    dtype=self.options.dtype,
                    kv_cache_gib=0.25 if self.on_gpu else 0.0625,
                    context=CONTEXT,
                    concurrency=4,
                    options={"load_format": "dummy", **options},
                )
            )
            print(f"an engine started in {time.monotonic() - started:.0f} s {options}", flush=True)
            try:
                yield sampler
            finally:
                sampler.close()

    @contextmanager
    def row(self, model: str, way: str) -> Iterator[Row]:
        """Keep a row, also of a way that fails."""
        row = Row(model, way)
        self.rows.append(row)
        try:
            yield row
        except Exception as error:  # of anything: the others go on
            traceback.print_exc()
            row.error = f"{type(error).__name__}: {error}"

    def load(self, row: Row, sampler: VLLMSampler, model: Any, rounds: int, *, sleeps: bool = False) -> None:
        """Load weights some times, changed in between, and compare at the end."""
        for _ in range(rounds):
            with torch.no_grad():
                for weight in filter(lambda weight: weight.requires_grad, model.parameters()):
                    weight.mul_(1.01 if sampler.version % 2 else 0.99)
            if sleeps:
                asyncio.run(sampler.sleep())
            self._settle()
            started = time.perf_counter()
            asyncio.run(sampler.load(model, sampler.version + 1))
            self._settle()
            row.loads.append(time.perf_counter() - started)
            row.steps.append({} if row.way in ("files", "adapter") else dict(sampler._weights.seconds))
        row.gap = gap(sampler, model, self.options.device)

    def _settle(self) -> None:
        if self.on_gpu:
            torch.cuda.synchronize()

    def whole_models(self, name: str, model: Any) -> None:
        """Measure the default way, files, and a load after sleep, in one engine."""
        way = "ipc" if self.on_gpu else "gloo"
        with self.row(name, way) as first:
            if self.late():
                first.error = "no time left"
                return
            options = {"transfer": way} | ({"sleep": True} if self.on_gpu else {})
            with self.engine(model, **options) as sampler:
                self.by_turns(name, model, sampler, (way, "files"))
                if self.on_gpu:
                    with self.row(name, "asleep") as row:
                        sampler._weights.transfer = way
                        self.load(row, sampler, model, 2, sleeps=True)
        if not first.error:
            self.rows.remove(first)  # it stood for the engine's start

    def by_turns(self, name: str, model: Any, sampler: VLLMSampler, ways: tuple[str, str]) -> None:
        """Load in two ways alternately; one that fails does not stop the other."""
        rows = [Row(name, way) for way in ways]
        self.rows += rows
        for _ in range(self.options.rounds):
            for row in rows:
                if row.error:
                    continue
                sampler._weights.transfer = row.way
                try:
                    self.load(row, sampler, model, 1)
                except Exception as error:  # of anything
                    traceback.print_exc()
                    row.error = f"{type(error).__name__}: {error}"
        pairs = zip(rows[0].loads[1:], rows[1].loads[1:], strict=False)
        ratios = [files / other for other, files in pairs]
        if ratios:
            print(f"{name}: files / {ways[0]} = {statistics.median(ratios):.2f}", flush=True)

    def other_way(self, name: str, model: Any, way: str) -> None:
        """Measure a way that needs an engine of its own."""
        with self.row(name, way) as row:
            if self.late():
                row.error = "no time left"
                return
            devices = {"devices": self.options.second} if way == "nccl" else {}
            with self.engine(model, transfer=way, **devices) as sampler:
                self.load(row, sampler, model, self.options.rounds)

    def adapters(self, name: str, model: Any) -> None:
        """Measure an adapter in memory, and load the same from a folder."""
        with self.row(name, "adapter") as row:
            if self.late():
                row.error = "no time left"
                return
            adapted = add_adapter(model, LoraOptions.of({"rank": 16}))
            with self.engine(model, enable_lora=True, max_lora_rank=16) as sampler, torch.no_grad():
                asyncio.run(sampler.load(plain(adapted), 1))
                for weight in (weight for part, weight in adapted.named_parameters() if "lora_" in part):
                    weight.normal_(0.0, 0.02)
                self.load(row, sampler, adapted, self.options.rounds)
                answers = [sampled(sampler)]
                with tempfile.TemporaryDirectory() as folder:
                    adapted.save_pretrained(folder)
                    asyncio.run(sampler.load(Path(folder), sampler.version + 1))
                    answers.append(sampled(sampler))
            if answers[0] != answers[1]:
                raise RuntimeError("the adapter in memory answers otherwise than the one in the folder")

    def late(self) -> bool:
        """Return whether there is no time for another engine."""
        return time.monotonic() > self.deadline

    def print(self) -> None:
        """Print the table."""
        print(f"\n{'model':14s} {'way':8s} {'first':>7s} {'total':>7s}", *(f"{step:>7s}" for step in STEPS), "    gap")
        for row in self.rows:
            table = row.table()
            if row.loads:
                numbers = [f"{table[key]:7.3f}" for key in ("first", "total", *STEPS)]
                print(f"{row.model:14s} {row.way:8s}", *numbers, f"{row.gap:7.4f}", row.error[:100])
            else:
                print(f"{row.model:14s} {row.way:8s} {row.error[:140]}")
        if self.options.json:
            self.options.json.write_text(json.dumps([row.table() for row in self.rows], indent=2))


def plain(adapted: Any) -> dict[str, Any]:
    """Return the weights without the adapter."""
    state = adapted.get_base_model().state_dict()
    return {name.replace("base_layer.", ""): tensor for name, tensor in state.items() if "lora_" not in name}


def sampled(sampler: VLLMSampler) -> tuple[Any, ...]:
    """Return tokens and log-probabilities of an answer."""
    prompt = tuple(5 + 7 * number % 50 for number in range(24))
    request = Request("bench#0@0", 0, prompt, (), 5, View("", "", None, 0), max_tokens=24)
    completion = asyncio.run(sampler.sample(request))
    return prompt, completion.tokens, completion.logprobs


def gap(sampler: VLLMSampler, model: Any, device: str) -> float:
    """Return the largest difference between the engine's log-probabilities and the model's, in nats."""
    prompt, tokens, logprobs = sampled(sampler)
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([[*prompt, *tokens]], device=device)).logits[0].double()
    rows = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
    return max(abs(float(row[token]) - own) for row, token, own in zip(rows, tokens, logprobs, strict=True))


def main() -> None:
    """Measure every way that the device has, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="one tiny model")
    parser.add_argument("--dtype", default="bfloat16", help="of the engine")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=85.0)
    parser.add_argument("--graphs", action="store_true", help="let the engine compile and capture CUDA graphs")
    parser.add_argument("--second", default="1", help="the engine's GPU for nccl")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bench = Bench(options)

    def stop(*_: object) -> None:
        print("the time is over", flush=True)
        bench.print()
        for child in multiprocessing.active_children():
            child.kill()  # of an engine that was about to start
        os._exit(1)  # a load that hangs cannot be waited for; the engine ends with this process

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(options.seconds) + 1)
    for name, model in bench.models():
        bench.whole_models(name, model)
        del model
        gc.collect()
    name, model = next(bench.models())
    if bench.on_gpu and torch.cuda.device_count() > 1:
        bench.other_way(name, model, "nccl")
    bench.adapters(name, copy.deepcopy(model))
    if bench.on_gpu:
        bench.other_way(name, model, "gloo")
    signal.alarm(0)
    bench.print()


if __name__ == "__main__":
    main()
