"""Engines against their bare form: sampled tokens per second of a rollout-like load.

Every episode has the same number of turns. A turn's prompt is the conversation so far and some new tokens; its answer
has a fixed number of tokens (no end token is sampled), so that all engines do the same work. The transformers sampler
is compared with

    generate   `generate` of transformers on the batch, which computes the whole prompt at every turn
    bare       a decode loop by hand with a static cache: the whole batch in step, nothing but the model's passes and
               one multinomial draw a token. It knows all lengths in advance: an upper bound for such a loop

in float32 and bfloat16. The engines take turns within each round and the median of the rounds counts, since other load
on the machine changes absolute figures; `--clock cpu --threads 1` compares processor time, which other load changes
least. The peak memory of the process is printed for a sampler with the model's own
context.

    python benchmarks/engines.py [FOLDER] [--concurrency 32] [--turns 4] [--rounds 3] [--threads 1] [--json PATH]

FOLDER is a Hugging Face model folder; default: a tiny random model. Goal: 0.9 of the bare loop.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import StaticCache

from turncredit.agents.models.model_folder import load_model, load_tokenizer
from turncredit.agents.prompts.prompt import View
from turncredit.engines.base import Request
from turncredit.engines.transformers.cached_decoding import CachedDecoder
from turncredit.engines.transformers.sampler import TransformersSampler

GOAL = 0.9
VIEW = View(start="", observation="", admissible=None, turn=0)


class Load:
    """What is asked for: `concurrency` episodes of `turns` turns."""

    def __init__(self, options: argparse.Namespace, vocabulary: int) -> None:
        self.concurrency, self.turns = options.concurrency, options.turns
        self.first, self.new, self.response = options.prompt, options.observation, options.response
        generator = torch.Generator().manual_seed(0)
        longest = self.first + self.turns * self.new
        self.ids = torch.randint(5, vocabulary - 5, (self.concurrency, longest), generator=generator)

    @property
    def context(self) -> int:
        return self.first + (self.turns - 1) * self.new + self.turns * self.response

    @property
    def tokens(self) -> int:
        return self.concurrency * self.turns * self.response

    def observation(self, turn: int) -> torch.Tensor:
        """Return the tokens that the environment adds before a turn, int64 [B, L]."""
        if turn == 0:
            return self.ids[:, : self.first]
        start = self.first + (turn - 1) * self.new
        return self.ids[:, start : start + self.new]


def through_sampler(sampler: TransformersSampler, load: Load) -> None:
    async def episode(k: int) -> None:
        prompt: list[int] = []
        for turn in range(load.turns):
            prompt += load.observation(turn)[k].tolist()
            request = Request(f"e{k}", turn, tuple(prompt), (), k, VIEW, max_tokens=load.response)
            answer = await sampler.sample(request)
            assert len(answer.tokens) == load.response
            prompt += answer.tokens
        sampler.forget(f"e{k}")

    async def episodes() -> None:
        await asyncio.gather(*(episode(k) for k in range(load.concurrency)))

    asyncio.run(episodes())


@torch.inference_mode()
def through_generate(model: Any, load: Load) -> None:
    prompt = load.ids[:, :0]
    for turn in range(load.turns):
        prompt = torch.cat([prompt, load.observation(turn)], dim=1)
        prompt = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=load.response,
            do_sample=True,
            top_k=0,
            top_p=1.0,
            temperature=1.0,
            eos_token_id=None,
            pad_token_id=0,
        )


@torch.inference_mode()
def through_bare_loop(model: Any, load: Load) -> None:
    cache = StaticCache(config=model.config, max_cache_len=load.context)
    named = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    filled, token = 0, load.ids[:, :0]
    for turn in range(load.turns):
        ids = torch.cat([token, load.observation(turn)], dim=1)
        for _ in range(load.response):
            positions = torch.arange(filled, filled + ids.shape[1])
            filled += ids.shape[1]
            out = model(
                input_ids=ids,
                position_ids=positions[None].expand(len(ids), -1),
                use_cache=True,
                logits_to_keep=1,
                **{named: cache},
            )
            token = ids = torch.multinomial(torch.softmax(out.logits[:, -1].float(), dim=-1), 1)


def compare(model: Any, tokenizer: Any, load: Load, options: argparse.Namespace) -> dict[str, Any]:
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    sampler = TransformersSampler(model, tokenizer, concurrency=load.concurrency, context=load.context)
    sampler._ends = frozenset()  # the load has answers of one length
    engines: dict[str, Callable[[], None]] = {
        "sampler": lambda: through_sampler(sampler, load),
        "bare": lambda: through_bare_loop(model, load),
        "generate": lambda: through_generate(model, load),
    }
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    for index in range(options.rounds + 1):
        for name, run in engines.items():
            start = clock()
            run()
            spent = clock() - start
            if index:  # the first round warms up
                seconds[name].append(spent)
            print(
                f"{model.dtype}, round {index}, {name}: {load.tokens / spent:.1f} tokens/s", file=sys.stderr, flush=True
            )
    ratios = {
        f"of_{name}": statistics.median(
            other / own for own, other in zip(seconds["sampler"], seconds[name], strict=True)
        )
        for name in ("bare", "generate")
    }
    speeds = {name: load.tokens / statistics.median(times) for name, times in seconds.items()}
    decoder = sampler._decoder
    paged = isinstance(decoder, CachedDecoder) and decoder.paged
    sampler.close()
    return {"dtype": str(model.dtype).removeprefix("torch."), "paged": paged, **speeds, **ratios}


def peak_memory(model: Any, tokenizer: Any, options: argparse.Namespace) -> dict[str, float]:
    """Fill the cache of a sampler with the model's own context, and return the peak memory of the process in GiB."""
    sampler = TransformersSampler(model, tokenizer, concurrency=options.concurrency)
    sampler._ends = frozenset()
    most = sampler.context

    async def ask(k: int, length: int) -> None:
        prompt = tuple(int(i) for i in torch.randint(5, 500, (length,), generator=torch.Generator().manual_seed(k)))
        await sampler.sample(Request(f"m{k}", 0, prompt, (), k, VIEW, max_tokens=4))

    async def long_and_short() -> None:
        await asyncio.gather(ask(0, most - 4), *(ask(k, min(512, most - 4)) for k in range(1, options.concurrency)))

    asyncio.run(long_and_short())
    cache = sampler._decoder.memory if isinstance(sampler._decoder, CachedDecoder) else 0
    sampler.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"context": most, "cache_gib": cache / 2**30, "process_gib": peak / 2**30}


def tiny() -> tuple[Any, Any]:
    from turncredit.training.learner.policy import build_policy

    words = ["go to fridge 1, open it and take the mug", "you see a table with a book and two pens on it"]
    return build_policy(words * 4, hidden=128, layers=4, heads=4, context=1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="a Hugging Face model folder")
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--prompt", type=int, default=200, help="tokens of the first prompt")
    parser.add_argument("--observation", type=int, default=32, help="new tokens of later prompts")
    parser.add_argument("--response", type=int, default=16, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of torch; default: its own choice")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--memory", action="store_true", help="only fill a cache and print the peak memory")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rows = []
    for dtype in options.dtypes:
        if options.folder is None:
            model, tokenizer = tiny()
            model = model.to(getattr(torch, dtype))
        else:
            model, tokenizer = load_model(options.folder, dtype=dtype), load_tokenizer(options.folder)
        if options.memory:
            rows.append({"dtype": dtype, **peak_memory(model, tokenizer, options)})
            continue
        load = Load(options, int(model.get_input_embeddings().weight.shape[0]))
        rows.append(compare(model, tokenizer, load, options))
    title = f"sampled tokens a second ({options.clock}), {options.concurrency} episodes"
    table = Table(title=f"{title}, {torch.get_num_threads()} threads")
    for name in rows[0]:
        table.add_column(name.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=120).print(table)
    result = {"goal": GOAL, "rows": rows}
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
