"""What the decode step of the transformers sampler costs: CUDA graphs, and prompts that episodes share.

Models are made from the configurations of SmolLM2-135M and Qwen2.5-1.5B, with random weights. Episodes of one turn ask
for answers of equal length; the median of the rounds counts, and in each round the ways take turns:

    eager     every pass is started by Python, kernel by kernel
    graphs    passes of one token for each episode are replayed
    shared    graphs, with groups of 8 episodes that have one prompt; `copied` the same with a copy of it for each
    bfloat16  beside float32, with --types: instead of the others

On a CPU, processor time counts, which other load changes least.
`pages` is what the episodes hold of the cache in the middle. Lines of exactness compare graphs with eager passes in
float32, greedily: they must have the same tokens, and log-probabilities within 1e-5 nats.

    python benchmarks/decode.py [--device cuda] [--small] [--types] [--counts 1 32 128] [--rounds 2] [--threads 1]
                                [--budget 50] [--json PATH]

`--small` is for a machine without GPU, where nothing is replayed: it shows that all lines come. No line begins after
the budget in seconds. A line that fails says why, and the others go on. Goal: graphs are never slower than eager
passes.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Completion, Request
from turncredit.engines.transformers import decoder_choice
from turncredit.engines.transformers.cached_decoding import CachedDecoder
from turncredit.engines.transformers.sampler import TransformersSampler

VIEW = View(start="", observation="", admissible=None, turn=0)
GROUP: Final = 8


class NoText:
    """A tokenizer whose text nobody reads; no token ends an answer."""

    eos_token_id = None

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in text]

    def decode(self, ids: list[int]) -> str:
        return ""


def smollm2(small: bool) -> Any:
    """Return a model of the shape of SmolLM2-135M."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=1024 if small else 49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=2 if small else 30,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=8192,
            tie_word_embeddings=True,
            eos_token_id=None,
        )
    )


def qwen25(small: bool) -> Any:
    """Return a model of the shape of Qwen2.5-1.5B."""
    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=1024 if small else 151936,
            hidden_size=768 if small else 1536,
            intermediate_size=2048 if small else 8960,
            num_hidden_layers=2 if small else 28,
            num_attention_heads=6 if small else 12,
            num_key_value_heads=2,
            max_position_embeddings=32768,
            tie_word_embeddings=True,
            eos_token_id=None,
        )
    )


MODELS: Final[dict[str, Callable[[bool], Any]]] = {"SmolLM2-135M": smollm2, "Qwen2.5-1.5B": qwen25}


class Bench:
    """The settings, the lines so far, and the time."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, torch.device(options.device)
        self.began = time.perf_counter()
        self.clock = time.process_time if self.device.type == "cpu" else time.perf_counter
        self.rows: list[dict[str, Any]] = []

    def model(self, name: str, dtype: torch.dtype) -> Any:
        """Return a random model on the device."""
        torch.manual_seed(0)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)  # weights are made in their type, where they stay
        try:
            with self.device:
                model = MODELS[name](self.options.small)
        finally:
            torch.set_default_dtype(before)
        model.generation_config.eos_token_id = None
        return model.eval()

    def sampler(self, model: Any, *, graphs: bool, share: bool = True, count: int = 1) -> TransformersSampler:
        context = self.options.prompt + self.options.response + 8
        sampler = TransformersSampler(
            model, NoText(), device=self.device, concurrency=count, context=context, graphs=graphs
        )
        decoder = sampler._decoder
        if isinstance(decoder, CachedDecoder):
            decoder._table._share = share
        return sampler

    def requests(self, count: int, vocabulary: int, *, group: int, temperature: float, seed: int) -> list[Request]:
        """Return one request for each episode; each `group` of them has one prompt."""
        generator = torch.Generator().manual_seed(seed)
        prompts = torch.randint(5, vocabulary - 5, (-(-count // group), self.options.prompt), generator=generator)
        return [
            Request(
                f"{seed}/{k}",
                0,
                tuple(prompts[k // group].tolist()),
                (),
                k,
                VIEW,
                temperature=temperature,
                max_tokens=self.options.response,
            )
            for k in range(count)
        ]

    def serve(self, sampler: TransformersSampler, requests: list[Request]) -> tuple[list[Completion], float, int]:
        """Return the answers, the seconds from the first decoded token on, and the pages in the middle."""
        decoder, halves, pages = sampler._decoder, [0.0], [0]
        compute = decoder.logits

        def logits(batch: Any) -> torch.Tensor:
            out = compute(batch)
            if not halves[0]:  # the prompts are computed
                if self.device.type == "cuda":
                    torch.cuda.synchronize()
                halves[0] = self.clock()
            pages[0] = max(pages[0], decoder._table.used if isinstance(decoder, CachedDecoder) else 0)
            return out

        async def together() -> list[Completion]:
            return await asyncio.gather(*(sampler.sample(request) for request in requests))

        decoder.logits = logits  # type: ignore[method-assign]
        try:
            answers = asyncio.run(together())
            spent = self.clock() - halves[0]
        finally:
            del decoder.logits
        for request in requests:
            sampler.forget(request.episode)
        return answers, spent, pages[0]

    def types(self, name: str, count: int) -> None:
        """Measure float32 beside bfloat16, and add a line."""
        kinds = {"float32": torch.float32, "bfloat16": torch.bfloat16}
        samplers = {way: self.sampler(self.model(name, kind), graphs=True, count=count) for way, kind in kinds.items()}
        self.compare(name, samplers, count, 1)

    def ways(self, name: str, model: Any, count: int, group: int) -> None:
        """Measure passes with and without graphs, or shared and copied prompts, and add a line."""
        ways = {"eager": (False, True), "graphs": (True, True)}
        if group > 1:
            ways = {"copied": (True, False), "shared": (True, True)}
        samplers = {
            way: self.sampler(model, graphs=graphs, share=share, count=count) for way, (graphs, share) in ways.items()
        }
        self.compare(name, samplers, count, group)

    def compare(self, name: str, ways: dict[str, TransformersSampler], count: int, group: int) -> None:
        """Let two samplers take turns, and add a line."""
        vocabulary = next(iter(ways.values())).module.config.vocab_size
        rates: dict[str, list[float]] = {way: [] for way in ways}
        held: dict[str, int] = {}
        for turn in range(self.options.rounds + 1):
            for way, sampler in ways.items():
                asked = self.requests(count, vocabulary, group=group, temperature=1.0, seed=turn)
                _, spent, held[way] = self.serve(sampler, asked)
                if turn:  # the first round warms up and captures
                    rates[way].append(count * (self.options.response - 1) / spent)
        before, after = (statistics.median(rates[way]) for way in ways)
        last = ways[list(ways)[1]]
        self.rows.append(
            {
                "line": f"{name}, {count} episodes, {' and '.join(ways)}",
                "before": before,
                "after": after,
                "ratio": after / before,
                "pages": list(held.values()),
                "replayed": last.counts.replayed,
                "note": last.eager_reason or kernel_of(last),
            }
        )

    def exact(self, name: str) -> None:
        """Compare greedy answers of both ways in float32, and add a line."""
        model = self.model(name, torch.float32)
        answers = []
        for graphs in (False, True):
            sampler = self.sampler(model, graphs=graphs, count=6)
            asked = self.requests(6, model.config.vocab_size, group=2, temperature=0.0, seed=0)
            answers.append(self.serve(sampler, asked)[0])
        same = [one.tokens == other.tokens for one, other in zip(*answers, strict=True)]
        gap = max(
            abs(a - b)
            for one, other in zip(*answers, strict=True)
            for a, b in zip(one.logprobs, other.logprobs, strict=True)
        )
        good = all(same) and gap <= 1e-5
        note = f"{sum(same)} of {len(same)} answers have the same tokens; log-probabilities differ by {gap:.1e}"
        replayed = sampler.counts.replayed
        verdict = str(good) if replayed else "nothing was replayed"
        self.rows.append({"line": f"{name}, exact: {verdict}", "note": note, "replayed": replayed, "exact": good})

    def attempt(self, line: str, work: Callable[[], None]) -> None:
        """Do one line; one that fails says why."""
        if time.perf_counter() - self.began > self.options.budget:
            self.rows.append({"line": line, "note": "left out: the budget is spent"})
            return
        try:
            work()
        except Exception as error:  # the other lines go on
            self.rows.append({"line": line, "note": f"failed: {type(error).__name__}: {str(error)[:300]}"})
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def run(self) -> None:
        """Measure everything."""
        if self.options.types:
            for count in self.options.counts:
                self.attempt(f"types, {count} episodes", lambda: self.types("SmolLM2-135M", count))  # noqa: B023
            return
        for name in MODELS:
            self.attempt(f"{name}, exact", lambda: self.exact(name))  # noqa: B023
            models: list[Any] = []
            self.attempt(f"{name}, model", lambda: models.append(self.model(name, torch.bfloat16)))  # noqa: B023
            for count in self.options.counts if models else []:
                for group in (1, GROUP) if count > GROUP else (1,):
                    work = lambda: self.ways(name, models[0], count, group)  # noqa: B023, E731
                    self.attempt(f"{name}, {count} episodes, groups of {group}", work)

    def show(self) -> None:
        table = Table("", "tokens/s", "tokens/s", "ratio", "pages", "replayed", "", title=f"on {self.device}")
        for row in self.rows:
            rates = [f"{row[key]:,.0f}" if key in row else "" for key in ("before", "after")]
            ratio = f"{row['ratio']:.2f}" if "ratio" in row else ""
            pages = " ".join(map(str, row.get("pages", [])))
            table.add_row(row["line"], *rates, ratio, pages, str(row.get("replayed", "")), row["note"])
        Console(width=170).print(table)
        print(f"{time.perf_counter() - self.began:.0f} s")


def kernel_of(sampler: TransformersSampler) -> str:
    """Return how the captured passes of a sampler attend to their pages."""
    steps = getattr(sampler._decoder, "_steps", None)
    if steps is None:
        return ""
    return f"{steps.attention.__name__}, {steps.captures} captures{'; ' if steps.kernel_failure else ''}" + (
        steps.kernel_failure or ""
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--small", action="store_true", help="few layers, few tokens")
    parser.add_argument("--types", action="store_true", help="float32 beside bfloat16, nothing else")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--counts", type=int, nargs="+", default=[])
    for name in ("prompt", "response"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=50.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.counts = options.counts or ([1, 16] if options.small else [1, 32, 128])
    options.prompt = options.prompt or (140 if options.small else 500)
    options.response = options.response or (12 if options.small else 32)
    torch.set_num_threads(options.threads)
    decoder_choice.SMALL = 0  # pages as of large models
    warnings.simplefilter("ignore", FutureWarning)
    bench = Bench(options)
    try:
        bench.run()
    finally:
        bench.show()
        if options.json:
            options.json.write_text(json.dumps(bench.rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
